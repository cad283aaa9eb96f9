// The operators' listener: health, metrics, debug pages and the API for `berth why` and similar
// commands.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kube/access_review.h"
#include "server/http/http_server.h"
#include "server/ops/metrics.h"

namespace berth::server {

/// One named condition of a health path. `check` returns why it fails, or an empty string.
struct HealthCheck {
  std::string name;
  std::function<std::string()> check = {};
};

/// The answers that the owner provides. An empty function: the path is not served (404). Functions
/// are called from many threads at once.
struct OpsHandlers {
  std::vector<HealthCheck> livez = {};
  std::vector<HealthCheck> readyz = {};
  /// Called before every path except the health ones; nullopt lets the request through. Empty:
  /// every request is allowed.
  std::function<std::optional<HttpResponse>(const HttpRequest&, const kube::AccessAttributes&)>
      authorize = {};
  /// Called before the metrics are serialized, for gauges that mirror other state.
  std::function<void()> before_metrics = {};
  std::function<HttpResponse()> configz = {};
  std::map<std::string, std::function<HttpResponse()>> debug = {};  ///< /debug/<key>
  /// `ns`: only the queues that admit this namespace; `namespaces`: also list the namespaces that
  /// each queue admits.
  std::function<HttpResponse(std::string_view ns, bool namespaces)> queues = {};
  /// `ns`: only of this namespace; empty: of all.
  std::function<HttpResponse(std::string_view ns)> gangs = {};
  std::function<HttpResponse(std::string_view ns)> pods = {};  ///< Likewise.
  std::function<HttpResponse(const HttpRequest&)> nodes = {};
  /// /api/v1/why?pod=NAMESPACE/NAME, split into `ns` and `name`.
  std::function<HttpResponse(std::string_view ns, std::string_view name, const HttpRequest&)> why =
      {};
};

inline constexpr const char* kPlainText = "text/plain; charset=utf-8";

/// Registers only the health paths of `handlers`.
void ServeHealth(HttpServer& server, const OpsHandlers& handlers);

/// Registers the paths. `metrics` must outlive the server.
///
/// Health answers as Kubernetes' own components do: 200 `ok`, or 500 and a line for each check;
/// `?verbose` always shows the lines, `?exclude=NAME` leaves a check out. /healthz is /livez.
/// /debug/buildinfo and /debug/threads are always there.
///
/// The access that `authorize` is asked about: `get` on the path itself for metrics, configz, debug
/// pages and queues (names and numbers); `list pods` for gangs, pods and `queues?namespace=NS` (in
/// that namespace, else in all), and for nodes and `queues?namespaces=true` (in all), since they
/// name pods or namespaces; `get` on the pod for why. Pages that name pods or namespaces are never
/// allowed by their path: the role system:discovery, which every user has, allows all of /api/*.
void ServeOps(HttpServer& server, OpsHandlers handlers, Metrics& metrics, const BuildInfo& build);

}  // namespace berth::server
