#include "server/ops_server.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <utility>

#include "server/wire.h"

namespace berth::server {
namespace {

constexpr const char* kText = "text/plain; charset=utf-8";

HttpResponse Text(int status, std::string body) {
  return {.status = status, .body = std::move(body), .content_type = kText};
}

/// Answers a health path. Machines read the status alone; the lines are for people.
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

HttpResponse Why(const OpsHandlers& handlers, const HttpRequest& request) {
  const auto pod = request.query.find("pod");
  const std::string_view key = pod == request.query.end() ? "" : std::string_view(pod->second);
  const auto slash = key.find('/');
  if (slash == key.npos || slash == 0 || slash + 1 == key.size() ||
      key.find('/', slash + 1) != key.npos) {
    return Text(400, "pod=NAMESPACE/NAME is missing or malformed\n");
  }
  return handlers.why(key.substr(0, slash), key.substr(slash + 1), request);
}

}  // namespace

void ServeOps(HttpServer& server, OpsHandlers given, Metrics& metrics, const BuildInfo& build) {
  const auto handlers = std::make_shared<const OpsHandlers>(std::move(given));
  const auto health = [&](std::string path, std::vector<HealthCheck> OpsHandlers::*checks) {
    server.Handle("GET", path, [handlers, path, checks](const HttpRequest& request) {
      return Health(path, (*handlers).*checks, request);
    });
  };
  health("/livez", &OpsHandlers::livez);
  health("/healthz", &OpsHandlers::livez);
  health("/readyz", &OpsHandlers::readyz);

  const auto guarded = [&](const std::string& path, HttpServer::Handler handler) {
    server.Handle("GET", path,
                  [handlers, handler = std::move(handler)](const HttpRequest& request) {
                    if (handlers->authorize) {
                      if (auto refusal = handlers->authorize(request)) return *std::move(refusal);
                    }
                    return handler(request);
                  });
  };
  const auto page = [&](const std::string& path, std::function<std::string()> text) {
    guarded(path, [text = std::move(text)](const HttpRequest&) {
      return HttpResponse{.status = 200, .body = text()};
    });
  };
  guarded("/metrics", [&metrics](const HttpRequest&) {
    return HttpResponse{.body = metrics.Serialize(),
                        .content_type = "text/plain; version=0.0.4; charset=utf-8"};
  });
  page("/debug/buildinfo", [text = BuildInfoPage(build)] { return text; });
  page("/debug/threads", ThreadsPage);
  if (handlers->configz) page("/configz", handlers->configz);
  for (const auto& [name, text] : handlers->debug) page("/debug/" + name, text);
  if (handlers->queues) guarded("/api/v1/queues", handlers->queues);
  if (handlers->gangs) guarded("/api/v1/gangs", handlers->gangs);
  if (handlers->nodes) guarded("/api/v1/nodes", handlers->nodes);
  if (handlers->why) {
    guarded("/api/v1/why",
            [handlers](const HttpRequest& request) { return Why(*handlers, request); });
  }
}

}  // namespace berth::server
