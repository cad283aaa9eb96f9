// The options of the service's ports: what happens at one goes into metrics, and what is worth a
// line goes into the log.
#pragma once

#include <optional>

#include "server/http/http_server.h"
#include "server/logging.h"
#include "server/ops/metrics.h"

namespace berth::server {

/// `name`: of the port in metrics and log lines. The server must not outlive `metrics` and
/// `logger`.
HttpServerOptions PortOptions(const char* name, std::optional<TlsOptions> tls, Metrics& metrics,
                              Logger& logger);
/// The same for small requests from few clients.
HttpServerOptions SmallPortOptions(const char* name, std::optional<TlsOptions> tls,
                                   Metrics& metrics, Logger& logger);

}  // namespace berth::server
