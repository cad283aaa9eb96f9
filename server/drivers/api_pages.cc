#include "server/drivers/api_pages.h"

#include <memory>

#include "server/ops/page_cache.h"
#include "server/ops/views.h"

namespace berth::server {

void AddApiPages(const HostDriver& host, std::chrono::milliseconds max_age, OpsHandlers& handlers) {
  const auto cache = std::make_shared<PageCache>(max_age);
  const auto look = [&host, cache](const std::string& key, auto make) {
    return HttpResponse{.body = *cache->Get(key, [&] { return host.Look(make); })};
  };
  const auto in_parts = [&host, cache](const std::string& key, auto make) {
    const InParts read = [&host](const Part& part) { host.LookInParts(part); };
    return HttpResponse{.body = *cache->Get(key, [&] { return make(read); })};
  };
  handlers.queues = [in_parts](std::string_view ns, bool namespaces) {
    const std::string key = "queues " + std::string(ns) + (namespaces ? " wide" : "");
    return in_parts(key, [&](const InParts& read) { return QueuesJson(read, ns, namespaces); });
  };
  handlers.gangs = [in_parts](std::string_view ns) {
    return in_parts("gangs " + std::string(ns),
                    [&](const InParts& read) { return GangsJson(read, ns); });
  };
  handlers.pods = [in_parts](std::string_view ns) {
    return in_parts("pods " + std::string(ns),
                    [&](const InParts& read) { return PodsJson(read, ns); });
  };
  handlers.nodes = [in_parts](const HttpRequest&) {
    return in_parts("nodes", [](const InParts& read) { return NodesJson(read); });
  };
  handlers.why = [look](std::string_view ns, std::string_view name, const HttpRequest&) {
    auto page = look("why " + std::string(ns) + "/" + std::string(name),
                     [&](const engine::Engine& e, auto now) { return WhyJson(e, ns, name, now); });
    if (!page.body.empty()) return page;
    return HttpResponse{
        .status = 404, .body = "no pod and no gang of that name\n", .content_type = kPlainText};
  };
  handlers.debug["ledger"] = [look] {
    auto page =
        look("ledger", [](const engine::Engine& e, auto) { return e.store().LedgerString(); });
    page.content_type = kPlainText;
    return page;
  };
}

}  // namespace berth::server
