#include "server/port_options.h"

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace berth::server {
namespace {

/// Lets a line through every 10 s, and says how many were left out. Thread-safe.
class LogPause {
 public:
  std::optional<int> Next() {
    const std::lock_guard lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    if (now < next_) {
      ++left_out_;
      return std::nullopt;
    }
    next_ = now + std::chrono::seconds(10);
    return std::exchange(left_out_, 0);
  }

 private:
  std::mutex mutex_;
  std::chrono::steady_clock::time_point next_{};
  int left_out_ = 0;
};

}  // namespace

HttpServerOptions PortOptions(const char* name, std::optional<TlsOptions> tls, Metrics& metrics,
                              Logger& logger) {
  HttpServerOptions options;
  options.on_event = [&metrics, name](HttpEvent event) { metrics.CountHttpEvent(name, event); };
  options.on_exception = [&logger, name](const std::string& path, const std::string& error) {
    logger.Log(Severity::kError, "a handler failed: answered with 500",
               {{"port", name}, {"path", path}, {"error", error}});
  };
  if (!tls) return options;
  options.tls = std::move(tls);
  options.on_tls_reload = [&metrics, &logger, name](const TlsReload& reload) {
    metrics.SetTls(name, reload.error.empty(), static_cast<double>(reload.expiry));
    if (reload.error.empty()) {
      logger.Log(Severity::kInfo, "certificate in force",
                 {{"port", name}, {"subject", reload.subject}, {"expires_unix", reload.expiry}});
    } else {
      logger.Log(Severity::kError, "certificate files refused: the last good ones stay in use",
                 {{"port", name}, {"error", reload.error}, {"expires_unix", reload.expiry}});
    }
  };
  options.on_tls_refused = [&logger, name,
                            pause = std::make_shared<LogPause>()](const std::string& why) {
    if (const auto left_out = pause->Next()) {
      logger.Log(Severity::kWarning, "TLS client refused",
                 {{"port", name}, {"error", why}, {"left_out", *left_out}});
    }
  };
  return options;
}

HttpServerOptions SmallPortOptions(const char* name, std::optional<TlsOptions> tls,
                                   Metrics& metrics, Logger& logger) {
  HttpServerOptions options = PortOptions(name, std::move(tls), metrics, logger);
  options.max_connections = 64;
  options.max_handshakes = 16;
  options.max_body_bytes = std::size_t{1} << 16U;
  options.max_bodies_bytes = std::size_t{1} << 20U;
  options.keep_alive = std::chrono::seconds(60);
  options.read_timeout = std::chrono::seconds(5);
  options.write_timeout = std::chrono::seconds(10);
  return options;
}

}  // namespace berth::server
