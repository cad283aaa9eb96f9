#include "server/api_pages.h"

#include "server/views.h"

namespace berth::server {
namespace {

HttpResponse Page(std::string body) { return {.body = std::move(body)}; }

}  // namespace

void AddApiPages(const Host& host, OpsHandlers& handlers) {
  handlers.queues = [&host](const HttpRequest&) {
    return Page(host.Look([](const engine::Engine& e, auto) { return QueuesJson(e); }));
  };
  handlers.gangs = [&host](std::string_view ns) {
    return Page(
        host.Look([&](const engine::Engine& e, auto now) { return GangsJson(e, ns, now); }));
  };
  handlers.pods = [&host](std::string_view ns) {
    return Page(host.Look([&](const engine::Engine& e, auto now) { return PodsJson(e, ns, now); }));
  };
  handlers.nodes = [&host](const HttpRequest&) {
    return Page(host.Look([](const engine::Engine& e, auto) { return NodesJson(e); }));
  };
  handlers.why = [&host](std::string_view ns, std::string_view name, const HttpRequest&) {
    auto page =
        host.Look([&](const engine::Engine& e, auto now) { return WhyJson(e, ns, name, now); });
    if (!page.empty()) return Page(std::move(page));
    return HttpResponse{
        .status = 404, .body = "no pod and no gang of that name\n", .content_type = kPlainText};
  };
}

}  // namespace berth::server
