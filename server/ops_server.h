// The operators' listener: health, metrics, debug pages and the API behind `berth why` and friends.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http_server.h"
#include "server/metrics.h"

namespace berth::server {

/// One named condition of a health path. `check` returns why it fails, or an empty string.
struct HealthCheck {
  std::string name;
  std::function<std::string()> check = {};
};

/// What the owner answers. An empty function: the path is not served (404). Functions are called
/// from many threads at once. Pages are JSON unless said otherwise.
struct OpsHandlers {
  std::vector<HealthCheck> livez = {};
  std::vector<HealthCheck> readyz = {};
  /// Asked before every path but the health ones; nullopt lets the request through.
  std::function<std::optional<HttpResponse>(const HttpRequest&)> authorize = {};
  std::function<std::string()> configz = {};
  std::map<std::string, std::function<std::string()>> debug = {};  ///< /debug/<key>
  std::function<HttpResponse(const HttpRequest&)> queues = {};
  std::function<HttpResponse(const HttpRequest&)> gangs = {};
  std::function<HttpResponse(const HttpRequest&)> nodes = {};
  /// /api/v1/why?pod=NAMESPACE/NAME, taken apart.
  std::function<HttpResponse(std::string_view ns, std::string_view name, const HttpRequest&)> why =
      {};
};

/// Registers the paths. `metrics` must outlive the server.
///
/// Health answers as Kubernetes' own components do: 200 `ok`, or 500 and a line for each check;
/// `?verbose` shows the lines always, `?exclude=NAME` leaves a check out. /healthz is /livez.
/// /debug/buildinfo and /debug/threads are always there.
void ServeOps(HttpServer& server, OpsHandlers handlers, Metrics& metrics, const BuildInfo& build);

}  // namespace berth::server
