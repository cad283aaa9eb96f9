#include "server/ops/api_pages.h"

#include <memory>

#include "server/ops/page_cache.h"
#include "server/ops/views.h"

namespace berth::server {

void AddApiPages(const HostDriver& host, std::chrono::milliseconds max_age, OpsHandlers& handlers) {
  const auto cache = std::make_shared<PageCache>(max_age);
  const auto look = [&host, cache](const std::string& key, auto make) {
    return HttpResponse{.body = *cache->Get(key, [&] { return host.Look(make); })};
  };
  handlers.queues = [look](std::string_view ns, bool namespaces) {
    const std::string key = "queues " + std::string(ns) + (namespaces ? " wide" : "");
    return look(key, [&](const engine::Engine& e, auto) { return QueuesJson(e, ns, namespaces); });
  };
  handlers.gangs = [look](std::string_view ns) {
    return look("gangs " + std::string(ns),
                [&](const engine::Engine& e, auto now) { return GangsJson(e, ns, now); });
  };
  handlers.pods = [look](std::string_view ns) {
    return look("pods " + std::string(ns),
                [&](const engine::Engine& e, auto now) { return PodsJson(e, ns, now); });
  };
  handlers.nodes = [look](const HttpRequest&) {
    return look("nodes", [](const engine::Engine& e, auto) { return NodesJson(e); });
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
