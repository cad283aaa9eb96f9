// The server side of TLS: certificates that are read again when their files change, and which
// clients are let in.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

struct ssl_st;
struct ssl_ctx_st;

namespace berth::server {

/// The files of a port with TLS, and who may connect.
struct TlsOptions {
  std::string cert_file;
  std::string key_file;
  /// Not empty: clients must show a certificate of this CA, valid now and for client use.
  std::string client_ca_file = {};
  /// Not empty: the client certificate's CN or one of its DNS names must be among these. Has no
  /// effect without the CA.
  std::vector<std::string> client_allowed_names = {};
  /// How often the files are checked for changes.
  std::chrono::milliseconds look_interval{1'000};
};

/// The outcome of a check of the files.
struct TlsReload {
  std::string error;        ///< Not empty: the files are refused, the last good ones are in force.
  std::string subject;      ///< Of the certificate in force.
  std::int64_t expiry = 0;  ///< Its notAfter, in seconds since the epoch.
};

/// Thread-safe. A set of files is accepted if the key belongs to the certificate, the certificate
/// is valid now, and the client CA can be read. Otherwise the last good set stays in force, even
/// after its certificate has expired: whether to accept that is the client's decision.
class TlsContext {
 public:
  /// Called with the first set, with each later change, with each new reason to refuse a set, and
  /// when the certificate in force expires. Called on a thread of the context's own, the first time
  /// by Load.
  using OnReload = std::function<void(const TlsReload&)>;

  /// Error: the first set is refused.
  static std::expected<std::unique_ptr<TlsContext>, std::string> Load(TlsOptions options,
                                                                      OnReload on_reload = {});
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  /// What new connections use.
  std::shared_ptr<ssl_ctx_st> Current() const;

  /// Whether the client of a finished handshake may stay: its name is allowed, or any name is.
  /// `name` becomes the CN of its verified certificate, or empty.
  bool Admits(ssl_st* connection, std::string& name) const;

 private:
  struct Set {
    std::shared_ptr<ssl_ctx_st> context;
    std::string subject;
    std::int64_t expiry = 0;
  };

  TlsContext(TlsOptions options, OnReload on_reload)
      : options_(std::move(options)), on_reload_(std::move(on_reload)) {}
  std::expected<Set, std::string> Read() const;
  std::string Stamp() const;
  void Watch(const std::stop_token& stop);
  void Look();
  void Report(std::string error);

  const TlsOptions options_;
  const OnReload on_reload_;

  mutable std::mutex mutex_;
  std::condition_variable_any wake_;
  Set current_;  ///< Guarded by `mutex_`; written by the watcher alone.

  // Used by the watcher only.
  std::string stamp_;  ///< Times and inodes of the files last read, links followed.
  std::string error_;  ///< Why the last set was refused; empty: the last one is in force.

  std::jthread watcher_;
};

/// `what`, followed by the oldest error of this thread's OpenSSL queue, which is emptied.
std::string TlsError(std::string what);

}  // namespace berth::server
