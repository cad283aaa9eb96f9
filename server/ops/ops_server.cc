#include "server/ops/ops_server.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <utility>

#include "server/verbs/wire.h"

namespace berth::server {
namespace {

HttpResponse Text(int status, std::string body) {
  return {.status = status, .body = std::move(body), .content_type = kPlainText};
}

/// Answers a health path. Programs read only the status; the lines are for people.
HttpResponse Health(std::string_view path, const std::vector<HealthCheck>& checks,
                    const HttpRequest& request) {
  std::vector<std::string> excluded;
  const auto [begin, end] = request.query.equal_range("exclude");
  for (auto it = begin; it != end; ++it) excluded.push_back(it->second);
  std::string lines;
  bool healthy = true;
  for (const auto& check : checks) {
    if (std::erase(excluded, check.name) != 0) {
      lines += "[+]" + check.name + " excluded: ok\n";
    } else if (const auto failure = check.check(); !failure.empty()) {
      healthy = false;
      lines += "[-]" + check.name + " failed: " + failure + "\n";
    } else {
      lines += "[+]" + check.name + " ok\n";
    }
  }
  for (const auto& name : excluded) {
    lines += "warn: some health checks cannot be excluded: no matches for \"" + name + "\"\n";
  }
  const std::string check(path.substr(1));
  if (!healthy) return Text(500, lines + check + " check failed\n");
  if (!request.query.contains("verbose")) return Text(200, "ok");
  return Text(200, lines + check + " check passed\n");
}

std::string BuildInfoPage(const BuildInfo& build) {
  std::string out = R"({"version":)";
  AppendJsonString(out, build.version);
  out += R"(,"commit":)";
  AppendJsonString(out, build.commit);
  out += R"(,"compiler":)";
  AppendJsonString(out, build.compiler);
  return out + "}\n";
}

/// The first value of a query parameter, or empty.
std::string QueryOf(const HttpRequest& request, const std::string& name) {
  const auto it = request.query.find(name);
  return it == request.query.end() ? std::string() : it->second;
}

/// The process's threads by name, with how many there are of each.
std::string ThreadsPage() {
  std::map<std::string, int> count;
  int total = 0;
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    ++count[name];
    ++total;
  }
  std::string out = R"({"threads":)" + std::to_string(total) + R"(,"byName":{)";
  for (const auto& [name, threads] : count) {
    if (out.back() != '{') out += ',';
    AppendJsonString(out, name);
    out += ":" + std::to_string(threads);
  }
  return out + "}}\n";
}

/// The access to ask for, for the pod of ?pod=NAMESPACE/NAME; nullopt: malformed.
std::optional<kube::AccessAttributes> WantedPod(const HttpRequest& request) {
  const std::string key = QueryOf(request, "pod");
  const auto slash = key.find('/');
  if (slash == key.npos || slash == 0 || slash + 1 == key.size() ||
      key.find('/', slash + 1) != key.npos) {
    return std::nullopt;
  }
  return kube::AccessAttributes{
      .resource = "pods", .ns = key.substr(0, slash), .name = key.substr(slash + 1)};
}

/// Registers the paths that `authorize` guards.
class Guard {
 public:
  Guard(HttpServer& server, std::shared_ptr<const OpsHandlers> handlers)
      : server_(server), handlers_(std::move(handlers)) {}

  /// nullopt: the request is malformed.
  using Wanted = std::function<std::optional<kube::AccessAttributes>(const HttpRequest&)>;

  void Serve(const std::string& path, Wanted wanted, HttpServer::Handler handler) const {
    server_.Handle("GET", path,
                   [handlers = handlers_, wanted = std::move(wanted),
                    handler = std::move(handler)](const HttpRequest& request) {
                     const auto access = wanted(request);
                     if (!access) return Text(400, "pod=NAMESPACE/NAME is missing or malformed\n");
                     if (handlers->authorize) {
                       if (auto refusal = handlers->authorize(request, *access)) {
                         return *std::move(refusal);
                       }
                     }
                     return handler(request);
                   });
  }

  void ServePath(const std::string& path, HttpServer::Handler handler) const {
    Serve(
        path, [path](const HttpRequest&) { return kube::AccessAttributes{.path = path}; },
        std::move(handler));
  }

  void ServePage(const std::string& path, std::function<HttpResponse()> page) const {
    ServePath(path, [page = std::move(page)](const HttpRequest&) { return page(); });
  }

  /// `page` shows pods of ?namespace=NS, or of all namespaces.
  void ServePods(const std::string& path,
                 std::function<HttpResponse(std::string_view ns)> page) const {
    const auto wanted = [](const HttpRequest& request) {
      return kube::AccessAttributes{
          .verb = "list", .resource = "pods", .ns = QueryOf(request, "namespace")};
    };
    Serve(path, wanted, [page = std::move(page)](const HttpRequest& request) {
      return page(QueryOf(request, "namespace"));
    });
  }

 private:
  HttpServer& server_;
  const std::shared_ptr<const OpsHandlers> handlers_;
};

/// Every account may read the page itself: it has names and numbers of queues. The namespaces that
/// may use them are only shown to accounts that may list the pods there.
void ServeQueues(const Guard& guard, const std::shared_ptr<const OpsHandlers>& handlers) {
  const auto all = [](const HttpRequest& request) {
    return QueryOf(request, "namespaces") == "true";
  };
  const std::string path = "/api/v1/queues";
  const auto wanted = [all, path](const HttpRequest& request) {
    const std::string ns = QueryOf(request, "namespace");
    if (!all(request) && ns.empty()) return kube::AccessAttributes{.path = path};
    return kube::AccessAttributes{
        .verb = "list", .resource = "pods", .ns = all(request) ? std::string() : ns};
  };
  guard.Serve(path, wanted, [handlers, all](const HttpRequest& request) {
    return handlers->queues(QueryOf(request, "namespace"), all(request));
  });
}

void ServeApi(const Guard& guard, const std::shared_ptr<const OpsHandlers>& handlers) {
  if (handlers->queues) ServeQueues(guard, handlers);
  if (handlers->gangs) guard.ServePods("/api/v1/gangs", handlers->gangs);
  if (handlers->pods) guard.ServePods("/api/v1/pods", handlers->pods);
  if (handlers->nodes) {
    guard.Serve(
        "/api/v1/nodes",
        [](const HttpRequest&) {
          return kube::AccessAttributes{.verb = "list", .resource = "pods"};
        },
        handlers->nodes);
  }
  if (handlers->why) {
    guard.Serve("/api/v1/why", WantedPod, [handlers](const HttpRequest& request) {
      const auto pod = WantedPod(request);
      return handlers->why(pod->ns, pod->name, request);
    });
  }
}

}  // namespace

void ServeHealth(HttpServer& server, const OpsHandlers& handlers) {
  const auto health = [&](const std::string& path, const std::vector<HealthCheck>& checks) {
    server.Handle("GET", path, [path, checks](const HttpRequest& request) {
      return Health(path, checks, request);
    });
  };
  health("/livez", handlers.livez);
  health("/healthz", handlers.livez);
  health("/readyz", handlers.readyz);
}

void ServeOps(HttpServer& server, OpsHandlers given, Metrics& metrics, const BuildInfo& build) {
  const auto handlers = std::make_shared<const OpsHandlers>(std::move(given));
  ServeHealth(server, *handlers);
  const Guard guard(server, handlers);
  guard.ServePath("/metrics", [handlers, &metrics](const HttpRequest&) {
    if (handlers->before_metrics) handlers->before_metrics();
    return HttpResponse{.body = metrics.Serialize(),
                        .content_type = "text/plain; version=0.0.4; charset=utf-8"};
  });
  guard.ServePage("/debug/buildinfo",
                  [text = BuildInfoPage(build)] { return HttpResponse{.body = text}; });
  guard.ServePage("/debug/threads", [] { return HttpResponse{.body = ThreadsPage()}; });
  if (handlers->configz) guard.ServePage("/configz", handlers->configz);
  for (const auto& [name, page] : handlers->debug) guard.ServePage("/debug/" + name, page);
  ServeApi(guard, handlers);
}

}  // namespace berth::server
