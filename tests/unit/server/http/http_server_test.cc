#include "server/http/http_server.h"

#include <array>
#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/raw_client.h"

namespace berth::server {
namespace {

using test::Eventually;
using test::Get;
using test::Post;
using test::RawClient;

/// Parks handlers until it opens.
class Barrier {
 public:
  void Park() {
    std::unique_lock lock(mutex_);
    ++standing_;
    changed_.wait(lock, [&] { return open_; });
    --standing_;
  }
  void Open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  std::size_t parked() const {
    const std::lock_guard lock(mutex_);
    return standing_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  std::size_t standing_ = 0;
};

struct Fixture {
  explicit Fixture(HttpServerOptions options = {}) : server(WithEvents(std::move(options))) {
    server.Handle("POST", "/echo", [](const HttpRequest& request) {
      return HttpResponse{.body = std::string(request.body)};
    });
    server.Handle("GET", "/page", [](const HttpRequest&) {
      return HttpResponse{.body = "hello", .content_type = "text/plain"};
    });
    server.Handle("POST", "/throw",
                  [](const HttpRequest&) -> HttpResponse { throw std::runtime_error("boom"); });
    server.Handle("POST", "/park", [this](const HttpRequest&) {
      barrier.Park();
      return HttpResponse{.body = "released"};
    });
    server.Handle("POST", "/until-gone", [this](const HttpRequest& request) {
      ++waiting;
      gone = Eventually(request.client_gone);
      return HttpResponse{};
    });
    const auto listening = server.Listen("127.0.0.1", 0);
    REQUIRE(listening.has_value());
    port = *listening;
  }
  ~Fixture() { barrier.Open(); }

  HttpServerOptions WithEvents(HttpServerOptions options) {
    options.on_event = [this](HttpEvent event) {
      const std::lock_guard lock(mutex);
      ++events[event];
    };
    options.on_exception = [this](const std::string& path, const std::string& error) {
      const std::lock_guard lock(mutex);
      exceptions.push_back(path + ": " + error);
    };
    return options;
  }
  std::vector<std::string> Exceptions() {
    const std::lock_guard lock(mutex);
    return exceptions;
  }
  int Count(HttpEvent event) {
    const std::lock_guard lock(mutex);
    return events[event];
  }

  std::mutex mutex;
  std::map<HttpEvent, int> events;
  std::vector<std::string> exceptions;
  Barrier barrier;
  std::atomic<int> waiting = 0;
  std::atomic<bool> gone = false;
  HttpServer server;
  std::uint16_t port = 0;
};

/// Resident memory of this process, in bytes.
std::size_t Resident() {
  std::size_t total = 0;
  std::size_t resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * 4096;
}

TEST_CASE("answers carry a length and nothing else, and the connection is kept", "[http]") {
  Fixture f;
  RawClient client(f.port);
  for (int i = 0; i < 50; ++i) {
    const auto text = "call " + std::to_string(i);
    const auto answer = client.Call(Post("/echo", text, "Accept-Encoding: gzip, br\r\n"));
    REQUIRE(answer.has_value());
    CHECK(answer->status == 200);
    CHECK(answer->body == text);
    CHECK_THAT(answer->head, Catch::Contains("Content-Length: " + std::to_string(text.size())));
    CHECK_THAT(answer->head, !Catch::Contains("Content-Encoding") &&
                                 !Catch::Contains("Transfer-Encoding") &&
                                 !Catch::Contains("Connection: close"));
  }
  CHECK(f.server.connections() == 1);
}

TEST_CASE("requests in one packet are answered in order", "[http]") {
  Fixture f;
  RawClient client(f.port);
  REQUIRE(client.Send(Post("/echo", "a") + Post("/echo", "bc") + Get("/page")));
  CHECK(client.Read()->body == "a");
  CHECK(client.Read()->body == "bc");
  CHECK(client.Read()->body == "hello");
}

TEST_CASE("a request may come in any pieces", "[http]") {
  Fixture f;
  RawClient client(f.port);
  for (const char byte : Post("/echo", "abc")) REQUIRE(client.Send({&byte, 1}));
  CHECK(client.Read()->body == "abc");
}

TEST_CASE("unknown paths, other methods and HEAD", "[http]") {
  Fixture f;
  RawClient client(f.port);
  CHECK(client.Call(Get("/nowhere"))->status == 404);
  const auto refused = client.Call(Get("/echo"));
  CHECK(refused->status == 405);
  CHECK_THAT(refused->head, Catch::Contains("Allow: POST"));
  CHECK(refused->body.empty());
  CHECK(client.Call(Get("/page?x=1&y=2"))->body == "hello");
  CHECK(f.server.connections() == 1);  // None of these costs the connection.

  REQUIRE(client.Send("HEAD /page HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
  CHECK_FALSE(client.Read().has_value());  // The length of a body that does not come.
}

TEST_CASE("a refused body ends the connection, after the answer", "[http]") {
  Fixture f;
  RawClient client(f.port);
  const auto answer = client.Call(Post("/nowhere", "body"));
  CHECK(answer->status == 404);
  CHECK_THAT(answer->head, Catch::Contains("Connection: close"));
  CHECK(client.Closed());
}

TEST_CASE("a handler that throws is a 500, and the server lives", "[http]") {
  Fixture f;
  RawClient client(f.port);
  const auto answer = client.Call(Post("/throw", "x"));
  CHECK(answer->status == 500);
  CHECK_THAT(answer->head, Catch::Contains("Content-Length: 0") && !Catch::Contains("boom"));
  CHECK(f.Count(HttpEvent::kException) == 1);
  CHECK(f.Exceptions() == std::vector<std::string>{"/throw: boom"});
  CHECK(RawClient(f.port).Call(Post("/echo", "y"))->body == "y");
}

TEST_CASE("100 MB are refused with 413, and not kept", "[http]") {
  Fixture f;
  const auto before = Resident();
  RawClient client(f.port);
  REQUIRE(client.Send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n"));
  const std::string chunk(1 << 20, 'x');
  for (int i = 0; i < 100; ++i) {
    if (!client.Send(chunk)) break;
  }
  CHECK(client.Read()->status == 413);
  CHECK(f.Count(HttpEvent::kTooLarge) == 1);
  CHECK(Resident() < before + (std::size_t{32} << 20));
  CHECK(RawClient(f.port).Call(Post("/echo", "y"))->body == "y");
}

TEST_CASE("request bodies have a bound together, by what came and not by what was promised",
          "[http]") {
  Fixture f({.max_bodies_bytes = 1 << 20});
  std::vector<RawClient> promises;
  for (int i = 0; i < 3; ++i) {
    auto& client = promises.emplace_back(f.port);
    REQUIRE(client.Send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 60000000\r\n\r\nx"));
  }
  REQUIRE(Eventually([&] { return f.server.in_flight() == 3; }));
  RawClient client(f.port);
  CHECK(client.Call(Post("/echo", "small"))->body == "small");
  CHECK(RawClient(f.port).Call(Post("/echo", std::string(2 << 20, 'x')))->status == 503);
  CHECK(f.Count(HttpEvent::kOverloaded) >=
        1);          // a promise whose buffer came late may be the second
  promises.clear();  // What they held is free again.
  REQUIRE(Eventually([&] { return f.server.in_flight() == 0; }));
  CHECK(client.Call(Post("/echo", std::string(900'000, 'x')))->status == 200);
}

TEST_CASE("what cannot be framed is refused", "[http]") {
  Fixture f;
  const std::string head = "POST /echo HTTP/1.1\r\nHost: x\r\n";
  const auto status = [&](const std::string& rest) {
    RawClient client(f.port);
    const auto answer = client.Call(head + rest);
    return answer && answer->body.empty() && client.Closed() ? answer->status : 0;
  };
  CHECK(status("\r\n") == 411);
  CHECK(status("Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n") == 411);
  CHECK(status("Content-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx") == 415);
  CHECK(status("Content-Length: -1\r\n\r\n") == 400);
  CHECK(status("Content-Length: 1x\r\n\r\n") == 400);
  CHECK(status("Content-Length: 1\r\nContent-Length: 2\r\n\r\nx") == 400);
  CHECK(status("Content-Length: 99999999999999999999999\r\n\r\n") == 413);
  RawClient client(f.port);
  CHECK(client.Call("HELO mail\r\n\r\n")->status == 400);
  CHECK(f.Count(HttpEvent::kBadRequest) == 7);
}

TEST_CASE("half a request, then nothing", "[http]") {
  Fixture f({.read_timeout = std::chrono::milliseconds(50)});
  SECTION("a head that never ends is given up") {
    RawClient client(f.port);
    REQUIRE(client.Send("POST /echo HTTP/1.1\r\nHost: x\r\n"));
    CHECK(client.Closed());
  }
  SECTION("a body that never ends is given up") {
    RawClient client(f.port);
    REQUIRE(client.Send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf"));
    CHECK(client.Read()->status == 400);
    CHECK(client.Closed());
  }
  SECTION("a client that leaves in the middle leaves nothing behind") {
    RawClient client(f.port);
    REQUIRE(client.Send("POST /echo HTTP/1.1\r\nHost"));
    client.Close();
  }
  CHECK(Eventually([&] { return f.Count(HttpEvent::kBadRequest) == 1; }));
  CHECK(Eventually([&] { return f.server.connections() == 0; }));
}

TEST_CASE("heads have a bound", "[http]") {
  Fixture f;
  RawClient client(f.port);
  client.Send("GET /page HTTP/1.1\r\n");
  const std::string header = "X-Header: " + std::string(4000, 'x') + "\r\n";
  for (int i = 0; i < 100 && client.Send(header); ++i) continue;
  CHECK_FALSE(client.Read().has_value());
  CHECK(Eventually([&] { return f.server.connections() == 0; }));
}

TEST_CASE("the bound of a head is exact, however it arrives", "[http]") {
  constexpr std::size_t kBound = 32 * 1024;
  const auto head = [](std::size_t size) {
    std::string text = "GET /page HTTP/1.1\r\nHost: x\r\n";
    constexpr std::size_t kLine = 4000;
    while (size - text.size() > 2 * kLine) text += "X: " + std::string(kLine - 5, 'x') + "\r\n";
    text += "X: " + std::string(size - text.size() - 7, 'x') + "\r\n\r\n";
    return text;
  };
  Fixture f;
  REQUIRE(head(kBound).size() == kBound);
  CHECK(RawClient(f.port).Call(head(kBound))->status == 200);
  CHECK_FALSE(RawClient(f.port).Call(head(kBound + 1)).has_value());
}

TEST_CASE("a Range header neither cuts the answer nor exhausts the stack", "[http]") {
  Fixture f;
  RawClient client(f.port);
  const auto get = [&](const std::string& range) {
    return client.Call("GET /page HTTP/1.1\r\nHost: x\r\nrAnge: " + range + "\r\n\r\n");
  };
  CHECK(get("bytes=0-1")->body == "hello");
  std::string long_range = "bytes=0-1";
  while (long_range.size() < 8000) long_range += ",0-1";
  CHECK(get(long_range)->body == "hello");
  CHECK(get("bytes=" + std::string(8000, '1') + "-")->body == "hello");
}

TEST_CASE("parked calls delay nobody, and all come back", "[http]") {
  constexpr std::size_t kParked = 300;
  Fixture f;
  std::vector<RawClient> parked;
  for (std::size_t i = 0; i < kParked; ++i) {
    REQUIRE(parked.emplace_back(f.port).Send(Post("/park", "x")));
  }
  REQUIRE(Eventually([&] { return f.barrier.parked() == kParked; }));
  RawClient client(f.port);
  for (int i = 0; i < 20; ++i) CHECK(client.Call(Post("/echo", "quick"))->body == "quick");
  f.barrier.Open();
  for (auto& one : parked) CHECK(one.Read()->body == "released");
  CHECK(f.Count(HttpEvent::kShed) == 0);
  parked.clear();
  CHECK(Eventually([&] { return f.server.connections() == 1; }));
}

bool Echoes(RawClient& client, const std::string& text) {
  const auto answer = client.Call(Post("/echo", text));
  return answer && answer->body == text;
}

// The server's thread of a connection that was answered goes idle a moment later; until then it is
// at work, and another one makes room. So what must happen does not happen at each try.
TEST_CASE("past its bound the connection that has waited longest makes room", "[http]") {
  CHECK(Eventually([] {
    Fixture f({.max_connections = 2});
    RawClient first(f.port);
    RawClient second(f.port);
    const bool all = Echoes(first, "1") && Echoes(second, "2") && Echoes(first, "3");
    RawClient third(f.port);
    return all && Echoes(third, "4") && Echoes(first, "5") && second.Closed() &&
           f.Count(HttpEvent::kShed) == 1;
  }));
}

TEST_CASE("a port full of idle connections still answers", "[http][bug]") {
  Fixture f({.max_connections = 64});
  std::vector<RawClient> others;
  for (int i = 0; i < 200; ++i) {
    others.emplace_back(f.port);
    if (i % 3 == 1) REQUIRE(others.back().Send("POST /echo HTTP/1.1\r\nHost"));
    if (i % 3 == 2) others.back().Call(Get("/page"));
  }
  for (int i = 0; i < 5; ++i) CHECK(RawClient(f.port).Call(Post("/echo", "x"))->body == "x");
  CHECK(f.server.connections() <= 2 * 64);
}

TEST_CASE("parked calls are not closed for others", "[http]") {
  Fixture f({.max_connections = 2});
  std::vector<RawClient> parked;
  for (int i = 0; i < 2; ++i) REQUIRE(parked.emplace_back(f.port).Send(Post("/park", "x")));
  REQUIRE(Eventually([&] { return f.barrier.parked() == 2; }));
  RawClient third(f.port);
  CHECK(third.Closed());
  CHECK(f.Count(HttpEvent::kShed) == 1);
  f.barrier.Open();
  for (auto& one : parked) CHECK(one.Read()->body == "released");
  CHECK(Eventually([&] { return RawClient(f.port).Call(Post("/echo", "4")).has_value(); }));
}

// Both come from loopback, 127.0.0.2 and 127.0.0.1.
TEST_CASE("who holds many connections loses one first", "[http]") {
  CHECK(Eventually([] {  // for the same reason as above
    Fixture f({.max_connections = 4});
    RawClient few(f.port, "127.0.0.2");
    bool all = Echoes(few, "1");
    std::vector<RawClient> many;
    for (int i = 0; i < 8; ++i) all &= Echoes(many.emplace_back(f.port), "2");
    return all && Echoes(few, "3") && f.Count(HttpEvent::kShed) == 5;
  }));
}

TEST_CASE("a handler can see that its client has gone", "[http]") {
  Fixture f;
  RawClient client(f.port);
  REQUIRE(client.Send(Post("/until-gone", "x")));
  REQUIRE(Eventually([&] { return f.waiting == 1; }));
  CHECK_FALSE(f.gone);
  client.Close();
  CHECK(Eventually([&] { return f.gone.load(); }));
}

TEST_CASE("a port that is taken is an error", "[http]") {
  Fixture f;
  HttpServer second;
  const auto port = second.Listen("127.0.0.1", f.port);
  REQUIRE_FALSE(port.has_value());
  CHECK_THAT(port.error(), Catch::Contains("in use"));
  CHECK_FALSE(HttpServer().Listen("not an address", 1).has_value());
}

TEST_CASE("every address: IPv4 reaches it too", "[http]") {
  HttpServer server;
  server.Handle("GET", "/", [](const HttpRequest&) { return HttpResponse{.body = "x"}; });
  const auto port = server.Listen("", 0);
  REQUIRE(port.has_value());
  CHECK(RawClient(*port).Call(Get("/"))->body == "x");
}

TEST_CASE("sockets send at once", "[http]") {
  // Without TCP_NODELAY an answer in two writes waits 40 ms for the client's delayed ACK. The
  // server's sockets are this process's too: look at the one that is connected to the client.
  Fixture f;
  RawClient client(f.port);
  REQUIRE(client.Call(Post("/echo", std::string(100'000, 'x'))).has_value());
  int served = 0;
  for (int fd = 3; fd < 1024; ++fd) {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) continue;
    sockaddr_in peer{};
    socklen_t peer_size = sizeof peer;
    if (ntohs(address.sin_port) != f.port ||
        getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_size) != 0) {
      continue;
    }
    int no_delay = 0;
    socklen_t length = sizeof no_delay;
    REQUIRE(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &no_delay, &length) == 0);
    CHECK(no_delay != 0);
    ++served;
  }
  CHECK(served == 1);
}

TEST_CASE("draining waits for calls, and not for idle connections", "[http]") {
  Fixture f;
  RawClient idle(f.port);
  CHECK(idle.Call(Post("/echo", "x"))->body == "x");
  RawClient parked(f.port);
  REQUIRE(parked.Send(Post("/park", "x")));
  REQUIRE(Eventually([&] { return f.barrier.parked() == 1; }));

  SECTION("a call under way gets its answer, and is told to go elsewhere") {
    std::thread drain([&] { CHECK(f.server.Drain(test::kPatience)); });
    REQUIRE(Eventually([&] { return !RawClient(f.port).connected(); }));
    f.barrier.Open();
    const auto answer = parked.Read();
    drain.join();
    REQUIRE(answer.has_value());
    CHECK(answer->body == "released");
    CHECK_THAT(answer->head,
               Catch::Contains("Connection: close") && !Catch::Contains("Keep-Alive"));
    CHECK(parked.Closed());
    CHECK(idle.Closed());
    CHECK(f.server.connections() == 0);
  }
  SECTION("a call that does not end holds nothing up past the deadline") {
    CHECK_FALSE(f.server.Drain(std::chrono::milliseconds(20)));
    CHECK(idle.Closed());
  }
}

TEST_CASE("idle connections are ended at a word, those under way and new ones live", "[http]") {
  Fixture f;
  RawClient idle(f.port);
  CHECK(idle.Call(Post("/echo", "x"))->body == "x");
  RawClient parked(f.port);
  REQUIRE(parked.Send(Post("/park", "x")));
  REQUIRE(Eventually([&] { return f.barrier.parked() == 1 && f.server.in_flight() == 1; }));
  RawClient fresh(f.port);
  REQUIRE(Eventually([&] { return f.server.connections() == 3; }));
  REQUIRE(Eventually([&] { return f.server.in_flight() == 1; }));
  f.server.CloseIdle();
  CHECK(idle.Closed());
  CHECK(fresh.Call(Post("/echo", "w"))->body == "w");
  CHECK(RawClient(f.port).Call(Post("/echo", "y"))->body == "y");
  f.barrier.Open();
  CHECK(parked.Read()->body == "released");
  CHECK(parked.Call(Post("/echo", "z"))->body == "z");
}

}  // namespace
}  // namespace berth::server
