#include "server/http/http_server.h"

#include <httplib.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <condition_variable>
#include <cstring>
#include <list>
#include <mutex>
#include <thread>

#include "server/http/body_buffer.h"
#include "server/http/listener.h"
#include "server/http/message_stream.h"

namespace berth::server {
namespace {

using std::chrono::steady_clock;

/// A body buffer larger than this is given back after the request.
constexpr std::size_t kKeepBodyBytes = std::size_t{1} << 20;
constexpr std::chrono::seconds kLinger{5};

/// The address without the port. Of IPv6 the first 64 bits: a client with one address of such a
/// network has them all.
std::string AddressOf(const sockaddr_storage& from) {
  if (from.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(from).sin_addr;
    return {reinterpret_cast<const char*>(&v4), sizeof v4};
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(from).sin6_addr;
  const auto* bytes = reinterpret_cast<const char*>(&v6);
  return IN6_IS_ADDR_V4MAPPED(&v6) ? std::string(bytes + 12, 4) : std::string(bytes, 8);
}

/// One request as it passes through httplib, found again by its pre-routing handler.
struct Exchange {
  Connection& connection;
  MessageStream& stream;
  BodyBuffer& body;
  Deadline read_deadline;
  std::function<void()> on_read;  ///< Called when the request is complete.
  bool close = false;             ///< End the connection after the answer.
  bool unread = false;            ///< ...and what the client still sends is not read.
  bool claimed = false;           ///< The request was valid and was answered by us.
};

/// Uses httplib to read heads and write answers. Its listener, threads, routes, body readers,
/// compression and ranges are not used.
class Protocol final : public httplib::Server {
 public:
  using httplib::Server::process_request;
};

}  // namespace

std::string_view HttpRequest::Header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (EqualsIgnoringCase(key, name)) return value;
  }
  return {};
}

struct HttpServer::State {
  explicit State(HttpServerOptions given)
      : options(std::move(given)), budget(options.max_bodies_bytes) {
    protocol.set_keep_alive_max_count(1'000'000);
    protocol.set_keep_alive_timeout(
        std::chrono::duration_cast<std::chrono::seconds>(options.keep_alive).count());
    protocol.set_pre_routing_handler([this](const httplib::Request& in, httplib::Response& out) {
      Answer(in, out);
      return httplib::Server::HandlerResponse::Handled;
    });
    protocol.set_post_routing_handler([](const httplib::Request&, httplib::Response& out) {
      if (out.has_header("Connection")) out.headers.erase("Keep-Alive");
    });
  }

  /// What a connection does; in all phases but the last it waits for the client.
  enum class Phase : std::uint8_t { kHandshake, kIdle, kReading, kServing };

  /// A connection, its thread, and its current phase.
  struct Client {
    Client(int fd, std::string from)
        : connection(std::make_unique<Connection>(fd)), address(std::move(from)) {}
    std::unique_ptr<Connection> connection;
    const std::string address;
    std::thread thread;
    Phase phase = Phase::kHandshake;
    steady_clock::time_point since = steady_clock::now();  ///< When the phase began.
    bool dropped = false;  ///< Its slot was given to another; its thread is about to notice.
    bool asked = false;    ///< At least one request has come.
    bool busy() const { return phase != Phase::kIdle; }
  };
  using Clients = std::list<std::unique_ptr<Client>>;

  void Event(HttpEvent event) const {
    if (options.on_event) options.on_event(event);
  }

  void AcceptLoop();
  void Admit(int fd, std::string address);
  bool MakeRoom(std::size_t most, const std::function<bool(const Client&)>& counts);
  bool SetPhase(Client& client, Phase phase);
  void Serve(Client& client);
  bool ServeOne(Client& client, MessageStream& stream, BodyBuffer& body);
  void Finish(Clients::iterator client);

  void Answer(const httplib::Request& in, httplib::Response& out);
  const Handler* Route(const httplib::Request& in, httplib::Response& out) const;
  int TakeBody(const httplib::Request& in, Exchange& exchange, std::string_view& body);
  HttpResponse Call(const Handler& handler, const HttpRequest& request) const;

  const HttpServerOptions options;
  std::map<std::string, std::map<std::string, Handler>> routes;  ///< By path, then method.
  std::unique_ptr<TlsContext> tls;
  Protocol protocol;
  BodyBudget budget;

  int listener = -1;
  std::thread acceptor;
  std::atomic<bool> draining{false};

  mutable std::mutex mutex;
  std::condition_variable changed;
  Clients clients;   ///< Open.
  Clients finished;  ///< Closed; their threads are about to end.
  std::size_t busy = 0;

  static thread_local Exchange* current;  ///< httplib passes no context to its handlers.
};

thread_local Exchange* HttpServer::State::current = nullptr;

void HttpServer::State::AcceptLoop() {
  while (!draining) {
    sockaddr_storage from{};
    socklen_t size = sizeof from;
    const int fd =
        accept4(listener, reinterpret_cast<sockaddr*>(&from), &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
      Admit(fd, AddressOf(from));
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      Event(HttpEvent::kShed);
      poll(nullptr, 0, 10);  // Until something is closed.
    } else if (errno == EBADF || errno == EINVAL) {
      return;
    }
  }
}

/// Real requests are served in milliseconds, so the connection that has waited longest most likely
/// belongs to an unknown client that only holds it. The address with the most waiting connections
/// loses one first, so that others keep their few. False: no connection that counts is waiting.
bool HttpServer::State::MakeRoom(std::size_t most,
                                 const std::function<bool(const Client&)>& counts) {
  std::vector<Client*> open;
  for (const auto& client : clients) {
    if (!client->dropped && counts(*client)) open.push_back(client.get());
  }
  if (open.size() < most) return true;
  std::erase_if(open, [](const Client* client) { return client->phase == Phase::kServing; });
  std::map<std::string_view, std::ptrdiff_t> waiting;
  for (const Client* client : open) ++waiting[client->address];
  Client* longest = nullptr;
  for (Client* client : open) {
    const auto rank = [&](const Client& c) { return std::pair(-waiting[c.address], c.since); };
    if (longest == nullptr || rank(*client) < rank(*longest)) longest = client;
  }
  Event(HttpEvent::kShed);
  if (longest == nullptr) return false;
  longest->dropped = true;
  longest->connection->Shutdown();
  return true;
}

/// False: the server is draining, and the connection that wanted to go idle must end.
bool HttpServer::State::SetPhase(Client& client, Phase phase) {
  const std::lock_guard lock(mutex);
  const bool was_busy = client.busy();
  client.phase = phase;
  client.since = steady_clock::now();
  client.asked |= phase == Phase::kReading;
  if (client.busy() != was_busy) {
    client.busy() ? ++busy : --busy;
    changed.notify_all();
  }
  return client.busy() || !draining;
}

void HttpServer::State::Admit(int fd, std::string address) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  auto client = std::make_unique<Client>(fd, std::move(address));
  std::unique_lock lock(mutex);
  const auto shakes_hands = [](const Client& c) { return c.phase == Phase::kHandshake; };
  // Dropped connections still exist for a moment, within a bound of their own.
  if (draining || clients.size() >= 2 * options.max_connections ||
      (tls != nullptr && !MakeRoom(options.max_handshakes, shakes_hands)) ||
      !MakeRoom(options.max_connections, [](const Client&) { return true; })) {
    return;
  }
  const auto it = clients.insert(clients.end(), std::move(client));
  ++busy;
  try {
    (*it)->thread = std::thread([this, it] {
      try {
        Serve(**it);
      } catch (const std::exception&) {
        Event(HttpEvent::kException);  // Out of memory, most likely: this connection ends.
      }
      Finish(it);
    });
  } catch (const std::system_error&) {  // The system's own limit on threads was reached first.
    --busy;
    clients.erase(it);
    lock.unlock();
    Event(HttpEvent::kShed);
  }
}

/// Ends a client's thread, which calls it last. Each thread joins those that ended before it, so
/// that no more than one waits to be joined.
void HttpServer::State::Finish(Clients::iterator client) {
  Clients ended;
  {
    const std::lock_guard lock(mutex);
    ended.swap(finished);
    finished.splice(finished.end(), clients, client);
    (*client)->connection.reset();
    if ((*client)->busy()) --busy;
    changed.notify_all();
  }
  for (auto& earlier : ended) earlier->thread.join();
}

void HttpServer::State::Serve(Client& client) {
  if (tls != nullptr) {
    const auto deadline = steady_clock::now() + options.handshake_timeout;
    if (const auto done = client.connection->Handshake(*tls, deadline); !done) {
      if (options.on_tls_refused) options.on_tls_refused(done.error());
      return Event(HttpEvent::kTlsRefused);
    }
  }
  BodyBuffer body(budget);
  MessageStream stream(*client.connection, body);
  for (;;) {
    if (!stream.HasInput()) {
      if (!SetPhase(client, Phase::kIdle)) return;
      if (!client.connection->WaitReadable(steady_clock::now() + options.keep_alive)) return;
    }
    SetPhase(client, Phase::kReading);
    if (!ServeOne(client, stream, body)) return;
    stream.NextMessage();
    if (body.capacity() > kKeepBodyBytes) body.Release();
  }
}

/// Reads a request and answers it. False: the connection is done.
bool HttpServer::State::ServeOne(Client& client, MessageStream& stream, BodyBuffer& body) {
  const auto read_deadline = steady_clock::now() + options.read_timeout;
  switch (stream.ReadHead(read_deadline)) {
    case MessageStream::Head::kClosed:
      return false;
    case MessageStream::Head::kComplete:
      break;
    case MessageStream::Head::kIncomplete:
    case MessageStream::Head::kTooLarge:
      Event(HttpEvent::kBadRequest);
      return false;
  }
  Exchange exchange{*client.connection, stream, body, read_deadline,
                    [&] { SetPhase(client, Phase::kServing); }};
  stream.set_write_deadline(read_deadline);
  current = &exchange;
  bool client_closes = false;
  const bool written =
      protocol.process_request(stream, false, client_closes, [](httplib::Request& request) {
        // With the header, the library would gzip every answer to a Go client (which takes
        // milliseconds, for bytes that stay in the cluster's network) and cut answers to ranges.
        request.headers.erase("Accept-Encoding");
        request.ranges.clear();
      });
  current = nullptr;
  if (!exchange.claimed) Event(HttpEvent::kBadRequest);
  if (!written || !stream.Flush(steady_clock::now() + options.write_timeout)) return false;
  if (exchange.unread || !exchange.claimed) {
    client.connection->LingeringClose(steady_clock::now() + kLinger);
    return false;
  }
  return !exchange.close && !client_closes;
}

const HttpServer::Handler* HttpServer::State::Route(const httplib::Request& in,
                                                    httplib::Response& out) const {
  const auto path = routes.find(in.path);
  if (path == routes.end()) {
    out.status = 404;
    out.set_content("404 page not found\n", "text/plain; charset=utf-8");
    return nullptr;
  }
  const auto method = path->second.find(in.method == "HEAD" ? "GET" : in.method);
  if (method != path->second.end()) return &method->second;
  std::string allow;
  for (const auto& [name, handler] : path->second) allow += (allow.empty() ? "" : ", ") + name;
  out.set_header("Allow", allow);
  out.status = 405;
  return nullptr;
}

/// Reads the body that the head announces. Returns 200, or the status to refuse it with.
int HttpServer::State::TakeBody(const httplib::Request& in, Exchange& exchange,
                                std::string_view& body) {
  // kube-scheduler always sends a length. Without chunked bodies there is no second way to give it.
  if (in.has_header("Transfer-Encoding")) return 411;
  if (in.has_header("Content-Encoding")) return 415;
  const auto lengths = in.get_header_value_count("Content-Length");
  if (lengths == 0) return in.method == "POST" ? 411 : 200;
  const auto text = in.get_header_value("Content-Length");
  std::size_t length = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
  if (error == std::errc::result_out_of_range) return 413;
  if (lengths != 1 || error != std::errc() || end != text.data() + text.size()) return 400;
  if (length > options.max_body_bytes) return 413;
  switch (exchange.stream.ReadBody(length, exchange.read_deadline)) {
    case BodyBuffer::Status::kComplete:
      break;
    case BodyBuffer::Status::kIncomplete:
      return 400;
    case BodyBuffer::Status::kNoRoom:
      return 503;
  }
  body = {exchange.body.data(), length};
  return 200;
}

HttpResponse HttpServer::State::Call(const Handler& handler, const HttpRequest& request) const {
  std::string error;
  try {
    return handler(request);
  } catch (const std::exception& e) {
    error = e.what();
  } catch (...) {
    error = "not a std::exception";
  }
  Event(HttpEvent::kException);
  if (options.on_exception) options.on_exception(std::string(request.path), error);
  return {.status = 500, .close = true};
}

/// httplib's pre-routing handler: everything between the head and the answer.
void HttpServer::State::Answer(const httplib::Request& in, httplib::Response& out) {
  auto& exchange = *current;
  exchange.claimed = true;
  std::string_view body;
  const Handler* handler = Route(in, out);
  // A refusal leaves the body unread where there may be one.
  if (handler == nullptr) {
    exchange.unread = in.has_header("Content-Length") || in.has_header("Transfer-Encoding");
  } else if (const int status = TakeBody(in, exchange, body); status != 200) {
    out.status = status;
    exchange.unread = true;
    Event(status == 413   ? HttpEvent::kTooLarge
          : status == 503 ? HttpEvent::kOverloaded
                          : HttpEvent::kBadRequest);
  } else {
    HttpRequest request{.method = in.method,
                        .path = in.path,
                        .query = in.params,
                        .headers = {in.headers.begin(), in.headers.end()},
                        .body = body,
                        .peer_name = exchange.connection.peer_name(),
                        .client_gone = [&] { return exchange.connection.PeerGone(); }};
    exchange.on_read();
    auto answer = Call(*handler, request);
    out.status = answer.status;
    out.body = std::move(answer.body);
    if (!out.body.empty()) out.set_header("Content-Type", answer.content_type);
    exchange.close = answer.close;
  }
  exchange.close =
      exchange.close || exchange.unread || draining || !exchange.connection.IsCurrent(tls.get());
  if (exchange.close && in.get_header_value("Connection") != "close") {
    out.set_header("Connection", "close");
  }
  exchange.stream.set_write_deadline(steady_clock::now() + options.write_timeout);
}

HttpServer::HttpServer(HttpServerOptions options)
    : state_(std::make_unique<State>(std::move(options))) {}

HttpServer::~HttpServer() {
  Drain(std::chrono::milliseconds(0));
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->clients.empty(); });
  lock.unlock();
  for (auto& client : state_->finished) client->thread.join();
}

void HttpServer::Handle(std::string method, std::string path, Handler handler) {
  state_->routes[std::move(path)][std::move(method)] = std::move(handler);
}

std::expected<std::uint16_t, std::string> HttpServer::Listen(const std::string& address,
                                                             std::uint16_t port) {
  if (state_->options.tls) {
    auto tls = TlsContext::Load(*state_->options.tls, state_->options.on_tls_reload);
    if (!tls) return std::unexpected(tls.error());
    state_->tls = *std::move(tls);
  }
  const auto listener = OpenListener(address, port);
  if (!listener) return std::unexpected(listener.error());
  state_->listener = listener->fd;
  state_->acceptor = std::thread([state = state_.get()] { state->AcceptLoop(); });
  return listener->port;
}

bool HttpServer::Drain(std::chrono::milliseconds timeout) {
  auto& state = *state_;
  const auto deadline = steady_clock::now() + timeout;
  state.draining = true;
  if (state.acceptor.joinable()) {
    shutdown(state.listener, SHUT_RDWR);
    state.acceptor.join();
    close(state.listener);
  }
  std::unique_lock lock(state.mutex);
  const auto idle = [&] { return state.busy == 0; };
  bool ended = state.changed.wait_until(lock, deadline, idle);
  for (auto& client : state.clients) client->connection->Shutdown();
  ended = ended && state.changed.wait_until(lock, deadline + std::chrono::seconds(1),
                                            [&] { return state.clients.empty(); });
  return ended;
}

void HttpServer::CloseIdle() {
  const std::lock_guard lock(state_->mutex);
  for (auto& client : state_->clients) {
    // A client that has just connected sends a request, and cannot know that it would be lost.
    if (!client->busy() && client->asked) client->connection->Shutdown();
  }
}

std::size_t HttpServer::connections() const {
  const std::lock_guard lock(state_->mutex);
  return state_->clients.size();
}

std::size_t HttpServer::in_flight() const {
  const std::lock_guard lock(state_->mutex);
  return state_->busy;
}

}  // namespace berth::server
