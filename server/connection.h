// One TCP or TLS connection: non-blocking underneath, and every wait has a deadline.
#pragma once

#include <chrono>
#include <cstddef>
#include <expected>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

struct ssl_st;
struct ssl_ctx_st;

namespace berth::server {

using Deadline = std::chrono::steady_clock::time_point;

struct TlsOptions {
  std::string cert_file;
  std::string key_file;
  /// Not empty: clients must show a certificate of this CA.
  std::string client_ca_file = {};
  /// Not empty: its CN or one of its DNS names must be among these.
  std::vector<std::string> client_allowed_names = {};
};

/// The server side's TLS settings, read again when the files change: mounted certificates rotate.
class TlsContext {
 public:
  static std::expected<std::unique_ptr<TlsContext>, std::string> Load(TlsOptions options);

  /// What new connections use. A file set that does not load keeps the last good one.
  std::shared_ptr<ssl_ctx_st> Current();

  const TlsOptions& options() const { return options_; }

 private:
  explicit TlsContext(TlsOptions options) : options_(std::move(options)) {}
  std::string Stamp() const;

  const TlsOptions options_;
  std::mutex mutex_;
  std::shared_ptr<ssl_ctx_st> context_;
  std::string stamp_;  ///< Modification times of the files that `context_` was read from.
  Deadline next_look_{};
};

/// Owned by the one thread that serves it; Shutdown() alone may be called from others.
class Connection {
 public:
  explicit Connection(int fd);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Turns it into a TLS connection. False: the client failed the handshake, or is not allowed.
  bool Handshake(TlsContext& tls, Deadline deadline);

  /// Waits until there is something to read. False: the deadline passed.
  bool WaitReadable(Deadline deadline);

  /// Reads 1 to `size` bytes; 0: the peer has closed, or failed, or the deadline passed.
  std::size_t Read(char* data, std::size_t size, Deadline deadline);

  /// Writes all of `head` then `body`, in one call to the kernel where it takes them.
  bool Write(std::string_view head, std::string_view body, Deadline deadline);

  /// Whether the peer has closed its side or reset the connection; looks, and never waits.
  bool PeerGone() const;

  /// Tells the peer that no more comes, then reads what it still sends, so that an answer given
  /// before the request was read is not lost to a reset.
  void LingeringClose(Deadline deadline);

  /// Wakes whoever waits on it; reads then end.
  void Shutdown();

  /// CN of the client's verified certificate, or empty.
  const std::string& peer_name() const { return peer_name_; }

 private:
  bool Wait(short events, Deadline deadline) const;
  /// After an SSL call that returned `result`: true when it is worth trying again.
  bool WaitForTls(int result, Deadline deadline) const;
  bool WritePlain(std::string_view head, std::string_view body, Deadline deadline);
  bool WriteTls(std::string_view data, Deadline deadline);

  struct SslFree {
    void operator()(ssl_st* ssl) const;
  };

  const int fd_;
  std::unique_ptr<ssl_st, SslFree> ssl_;
  std::string peer_name_;
};

}  // namespace berth::server
