// One TCP or TLS connection: non-blocking underneath, and every wait has a deadline.
#pragma once

#include <chrono>
#include <cstddef>
#include <expected>
#include <memory>
#include <string>
#include <string_view>

#include "server/http/tls_context.h"

namespace berth::server {

using Deadline = std::chrono::steady_clock::time_point;

/// Owned by the one thread that serves it; Shutdown() alone may be called from others.
class Connection {
 public:
  explicit Connection(int fd);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Turns it into a TLS connection. Error: how the client failed, for an administrator.
  std::expected<void, std::string> Handshake(const TlsContext& tls, Deadline deadline);

  /// Whether its handshake used the certificates now in force. Always true for a plain connection.
  bool IsCurrent(const TlsContext* tls) const;

  /// Waits until there is something to read. False: the deadline passed.
  bool WaitReadable(Deadline deadline);

  /// Reads 1 to `size` bytes; 0: the peer has closed, or failed, or the deadline passed.
  std::size_t Read(char* data, std::size_t size, Deadline deadline);

  /// Writes all of `head`, then `body`, with one system call where the kernel takes them.
  bool Write(std::string_view head, std::string_view body, Deadline deadline);

  /// Whether the peer has closed its side or reset the connection. Never blocks.
  bool PeerGone() const;

  /// Tells the peer that no more data comes, then reads what it still sends, so that an answer
  /// given before the whole request was read is not lost to a reset.
  void LingeringClose(Deadline deadline);

  /// Wakes the threads that wait on the connection; reads then end.
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
