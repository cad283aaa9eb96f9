// A small HTTP/1.1 server: one thread a connection, in number bounded, so that a call that stands
// (a bind at the gang barrier) delays nobody else. cpp-httplib reads and writes the messages;
// sockets, threads and limits are ours, since its own neither bound what a client can make it hold
// nor end in time. The seam is narrow on purpose: what is behind it can be replaced.
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

#include "server/connection.h"

namespace berth::server {

struct HttpRequest {
  std::string method;
  std::string path;  ///< Percent-decoded, without the query.
  std::multimap<std::string, std::string> query;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string_view body;  ///< `kBodyPadding` (wire.h) more bytes can be read after it.
  std::string peer_name;  ///< CN of the client's verified certificate, or empty.
  /// Whether the client has hung up. Valid while the handler runs.
  std::function<bool()> client_gone = {};

  /// The first value of a header, its name in any case, or empty.
  std::string_view Header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string body = {};
  std::string content_type = "application/json";
  bool close = false;  ///< Ends the connection, so that the client finds another server.
};

/// What happened at the edge, before or around a handler. Counted by the owner.
enum class HttpEvent : std::uint8_t {
  kShed,        ///< A connection was closed, a new one or one that waited: too many.
  kBadRequest,  ///< Not understood, timed out half-way, or without a length.
  kTooLarge,    ///< Answered 413.
  kOverloaded,  ///< Answered 503: too much memory in request bodies.
  kException,   ///< A handler threw; answered 500.
  kTlsRefused,  ///< The handshake failed, or the client's name is not allowed.
};

struct HttpServerOptions {
  /// Where there are more, the one that has waited longest of the address with the most waiting is
  /// closed for the new one: in its handshake, between requests, or slow with one. None is closed
  /// while a handler has its request, and if all have one, the new one is.
  std::size_t max_connections = 4096 + 64;
  /// The same among those whose TLS handshake is under way.
  std::size_t max_handshakes = 128;
  std::size_t max_body_bytes = std::size_t{64} << 20;
  std::size_t max_bodies_bytes = std::size_t{256} << 20;  ///< Of all connections together.
  std::chrono::milliseconds keep_alive{120'000};   ///< kube-scheduler keeps idle ones for 90 s.
  std::chrono::milliseconds read_timeout{20'000};  ///< From the first byte to the last.
  std::chrono::milliseconds handshake_timeout{5'000};
  std::chrono::milliseconds write_timeout{20'000};
  std::optional<TlsOptions> tls = {};
  std::function<void(HttpEvent)> on_event = {};
  /// Of each kException in a handler: the request's path and what the exception says.
  std::function<void(const std::string& path, const std::string& error)> on_exception = {};
  /// Of each kTlsRefused, why: as often as strangers like, so bound what comes of it.
  std::function<void(const std::string& why)> on_tls_refused = {};
  TlsContext::OnReload on_tls_reload = {};
};

class HttpServer {
 public:
  using Handler = std::function<HttpResponse(const HttpRequest&)>;

  explicit HttpServer(HttpServerOptions options = {});
  /// Waits for the handlers that still run: make those that stand return first.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// Before Listen() only. An unknown path is 404, a known one with another method 405. HEAD is
  /// answered as GET. Handlers are called from many threads at once.
  void Handle(std::string method, std::string path, Handler handler);

  /// Opens the socket and serves from threads of its own. Port 0: any. Returns the port. An empty
  /// address is all of them. Fails if the port is taken, or the certificates do not load. After
  /// they changed, connections made under the old ones end with their next answer: whoever may not
  /// any more is out, and no call is lost.
  std::expected<std::uint16_t, std::string> Listen(const std::string& address, std::uint16_t port);

  /// Stops accepting, lets the calls under way end and closes their connections with the answer.
  /// True: all ended in time, and no connection is left open. Failing /readyz first is the
  /// caller's part.
  bool Drain(std::chrono::milliseconds deadline);

  /// Ends the connections that wait for a next request, so that their clients look for a server
  /// anew. A next request that is on its way meanwhile is lost; the first one of a connection is
  /// answered.
  void CloseIdle();

  std::size_t connections() const;
  std::size_t in_flight() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace berth::server
