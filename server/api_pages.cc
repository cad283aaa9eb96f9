#include "server/api_pages.h"

#include "server/views.h"

namespace berth::server {
namespace {

/// An empty page is one that does not exist.
HttpResponse Page(std::string body) {
  HttpResponse response;
  if (body.empty()) {
    response.status = 404;
  } else {
    response.body = std::move(body);
  }
  return response;
}

}  // namespace

void AddApiPages(const Host& host, OpsHandlers& handlers) {
  handlers.queues = [&host](const HttpRequest&) {
    return Page(host.Look([](const engine::Engine& e, auto) { return QueuesJson(e); }));
  };
  handlers.gangs = [&host](std::string_view ns) {
    return Page(
        host.Look([&](const engine::Engine& e, auto now) { return GangsJson(e, ns, now); }));
  };
  handlers.nodes = [&host](const HttpRequest&) {
    return Page(host.Look([](const engine::Engine& e, auto) { return NodesJson(e); }));
  };
  handlers.why = [&host](std::string_view ns, std::string_view name, const HttpRequest&) {
    return Page(
        host.Look([&](const engine::Engine& e, auto now) { return WhyJson(e, ns, name, now); }));
  };
}

}  // namespace berth::server
