// A small HTTP/1.1 server: one thread per connection, bounded in number, so that a parked call (a
// bind at the gang barrier) delays no other. cpp-httplib reads and writes the messages; sockets,
// threads and limits are ours, since the library's own neither bound what a client can make it hold
// nor end in time. The interface is narrow on purpose, so that the library can be replaced.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/http/connection.h"

namespace berth::server {

/// A request with its whole body.
struct HttpRequest {
  std::string method;
  std::string path;  ///< Percent-decoded, without the query.
  std::multimap<std::string, std::string> query;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string_view body;  ///< `kBodyPadding` (wire.h) more bytes can be read after it.
  std::string peer_name;  ///< CN of the client's verified certificate, or empty.
  /// Whether the client has hung up. Valid while the handler runs.
  std::function<bool()> client_gone = {};

  /// The first value of a header, its name in any case; empty if there is none.
  std::string_view Header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string body = {};
  std::string content_type = "application/json";
  bool close = false;  ///< Ends the connection, so that the client finds another server.
};

/// What happened outside of a handler, or that a handler threw. Counted by the owner.
enum class HttpEvent : std::uint8_t {
  kShed,        ///< A connection was closed, a new one or one that waited: too many.
  kBadRequest,  ///< Not understood, timed out half-way, or without a length.
  kTooLarge,    ///< Answered 413.
  kOverloaded,  ///< Answered 503: too much memory in request bodies.
  kException,   ///< A handler threw; answered 500.
  kTlsRefused,  ///< The handshake failed, or the client's name is not allowed.
};

/// The bounds of a server, and who is told of what.
struct HttpServerOptions {
  /// Where there are more, a connection is closed for the new one: of the address with the most
  /// waiting connections, the one that has waited longest, be it in its handshake, between
  /// requests, or slow with a request. A connection whose request a handler has is never closed; if
  /// all have one, the new connection is closed.
  std::size_t max_connections = 4096 + 64;
  /// The same limit for connections whose TLS handshake is under way.
  std::size_t max_handshakes = 128;
  std::size_t max_body_bytes = std::size_t{64} << 20;
  std::size_t max_bodies_bytes = std::size_t{256} << 20;  ///< Of all connections together.
  std::chrono::milliseconds keep_alive{120'000};   ///< kube-scheduler keeps idle ones for 90 s.
  std::chrono::milliseconds read_timeout{20'000};  ///< From the first byte to the last.
  std::chrono::milliseconds handshake_timeout{5'000};
  std::chrono::milliseconds write_timeout{20'000};
  std::optional<TlsOptions> tls = {};
  std::function<void(HttpEvent)> on_event = {};
  /// Called for each kException in a handler, with the request's path and the exception's text.
  std::function<void(const std::string& path, const std::string& error)> on_exception = {};
  /// Called for each kTlsRefused, with the reason. Any unknown client can cause it at will, so
  /// bound what each call costs.
  std::function<void(const std::string& why)> on_tls_refused = {};
  TlsContext::OnReload on_tls_reload = {};
};

/// One port. Handle and Listen are called by the owner, the rest from any thread.
class HttpServer {
 public:
  using Handler = std::function<HttpResponse(const HttpRequest&)>;

  explicit HttpServer(HttpServerOptions options = {});
  /// Waits for the handlers that still run: make parked calls return first.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// Before Listen() only. An unknown path is 404, a known one with another method 405. HEAD is
  /// answered as GET. Handlers are called from many threads at once.
  void Handle(std::string method, std::string path, Handler handler);

  /// Opens the socket and serves from threads of its own. Port 0: any. Returns the port. An empty
  /// address means all addresses. Fails if the port is taken, or the certificates do not load.
  /// After the certificates have changed, connections made under the old ones end with their next
  /// answer, so that clients that are not allowed any more lose access and no call is lost.
  std::expected<std::uint16_t, std::string> Listen(const std::string& address, std::uint16_t port);

  /// Stops accepting, lets the calls under way end and closes their connections with the answer.
  /// True: all ended in time, and no connection is left open. The caller must have made /readyz
  /// fail first.
  bool Drain(std::chrono::milliseconds deadline);

  /// Ends the connections that wait for a next request, so that their clients look for a server
  /// again. A next request already on its way is lost; the first request of a connection is always
  /// answered.
  void CloseIdle();

  /// Connections that are open, and those whose request a handler has. Only tests read them, to see
  /// that threads have ended.
  std::size_t connections() const;
  std::size_t in_flight() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace berth::server
