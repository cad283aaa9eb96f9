#include "server/verbs/verb_server.h"

#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/raw_client.h"

namespace berth::server {
namespace {

using nlohmann::json;
using test::Eventually;
using test::Get;
using test::Post;
using test::RawClient;

constexpr auto kArgs =
    R"({"Pod":{"metadata":{"name":"p","namespace":"ns","uid":"u"}},"NodeNames":["n1","n2"]})";
constexpr auto kBind = R"({"PodName":"p","PodNamespace":"ns","PodUID":"u","Node":"n1"})";
constexpr auto kPreempt =
    R"({"Pod":{"metadata":{"uid":"u"}},"NodeNameToMetaVictims":{"n1":{"Pods":[{"UID":"v"}]}}})";

/// Keeps the first node, binds when it may, hands victims back.
class FakeHandler final : public VerbHandler {
 public:
  std::expected<FilterResult, Unavailable> Filter(const ExtenderArgs& args) override {
    if (unavailable) return std::unexpected(Unavailable{});
    if (args.pod_name == "throw") throw std::runtime_error("boom");
    return FilterResult{.kept = {args.node_names.front()},
                        .refusal = Refusal::kUnresolvable,
                        .reason = "no",
                        .error = {}};
  }
  std::expected<std::vector<HostPriority>, Unavailable> Prioritize(
      const ExtenderArgs& args) override {
    if (unavailable) return std::unexpected(Unavailable{});
    return std::vector<HostPriority>{{args.node_names.front(), 10}};
  }
  std::expected<std::string, Unavailable> Bind(const BindArgs& args) override {
    if (unavailable) return std::unexpected(Unavailable{.http_status = 503});
    std::unique_lock lock(mutex);
    ++parked;
    // A condition variable cannot watch a socket: wait in slices, and look between them.
    while (!changed.wait_for(lock, std::chrono::milliseconds(5), [&] { return open; })) {
      if (args.client_gone()) {
        ++left;
        return "gone";
      }
    }
    return std::string(args.node == "n1" ? "" : "wrong node");
  }
  std::expected<std::map<std::string, Victims, std::less<>>, Unavailable> Preempt(
      const PreemptionArgs& args) override {
    if (unavailable) return std::unexpected(Unavailable{});
    return args.node_to_victims;
  }

  void Open() {
    const std::lock_guard lock(mutex);
    open = true;
    changed.notify_all();
  }
  int Parked() {
    const std::lock_guard lock(mutex);
    return parked;
  }
  int Left() {
    const std::lock_guard lock(mutex);
    return left;
  }

  std::atomic<bool> unavailable = false;

 private:
  std::mutex mutex;
  std::condition_variable changed;
  bool open = false;
  int parked = 0;
  int left = 0;
};

struct Fixture {
  Fixture() {
    ServeVerbs(server, handler, metrics, logger);
    port = *server.Listen("127.0.0.1", 0);
  }
  ~Fixture() { handler.Open(); }

  /// Whether /metrics has this line.
  bool Exports(const std::string& line) const {
    return ("\n" + metrics.Serialize()).find("\n" + line + "\n") != std::string::npos;
  }

  FakeHandler handler;
  std::vector<std::string> lines;  ///< Of the log; valid after Flush.
  Logger logger{LogFormat::kText, 0, [this](std::string_view line) { lines.emplace_back(line); }};
  Metrics metrics{{.version = "v", .commit = "c", .compiler = "g++"}};
  HttpServer server;
  std::uint16_t port = 0;
};

TEST_CASE("the four verbs answer", "[verbs]") {
  Fixture f;
  f.handler.Open();
  RawClient client(f.port);
  CHECK(json::parse(client.Call(Post("/filter", kArgs))->body) ==
        json::parse(R"({"Nodes":null,"NodeNames":["n1"],"FailedNodes":{},
                        "FailedAndUnresolvableNodes":{"n2":"no"},"Error":""})"));
  const auto priorities = client.Call(Post("/prioritize", kArgs));
  CHECK(priorities->body == R"([{"Host":"n1","Score":10}])");
  CHECK_THAT(priorities->head, Catch::Contains("Content-Type: application/json"));
  CHECK(client.Call(Post("/bind", kBind))->body == R"({"Error":""})");
  CHECK(client.Call(Post("/preempt", kPreempt))->body ==
        R"({"NodeNameToMetaVictims":{"n1":{"Pods":[{"UID":"v"}],"NumPDBViolations":0}}})");
  CHECK(f.server.connections() == 1);
  for (const std::string verb : {"filter", "prioritize", "bind", "preempt"}) {
    CHECK(f.Exports("berth_request_duration_seconds_count{code=\"200\",verb=\"" + verb + "\"} 1"));
  }
}

TEST_CASE("a request that cannot be decoded says why, where there is a place for it", "[verbs]") {
  Fixture f;
  RawClient client(f.port);
  for (const std::string bad : {"", "{", "null", "[]", R"({"Pod":[]})", "\xFF\xFE"}) {
    const auto filtered = client.Call(Post("/filter", bad));
    CHECK(filtered->status == 200);
    const auto reply = json::parse(filtered->body);
    CHECK_THAT(reply["Error"].get<std::string>(), Catch::StartsWith("berth: ExtenderArgs: "));
    CHECK(reply["NodeNames"].empty());
    const auto bound = client.Call(Post("/bind", bad));
    CHECK(bound->status == 200);
    CHECK_THAT(json::parse(bound->body)["Error"].get<std::string>(),
               Catch::StartsWith("berth: ExtenderBindingArgs: "));
    for (const auto* verb : {"/prioritize", "/preempt"}) {
      const auto refused = client.Call(Post(verb, bad));
      CHECK(refused->status == 400);
      CHECK(refused->body.empty());
      CHECK_THAT(refused->head, Catch::Contains("Content-Length: 0"));
    }
  }
  CHECK(f.server.connections() == 1);
  CHECK(f.Exports("berth_request_decode_errors_total{verb=\"filter\"} 6"));
  f.logger.Flush();
  REQUIRE_FALSE(f.lines.empty());
  CHECK(f.lines.size() < 24);  // not one for each
  CHECK_THAT(f.lines.front(), Catch::Contains("filter") && Catch::Contains("ExtenderArgs: "));
  CHECK(f.Exports("berth_request_duration_seconds_count{code=\"400\",verb=\"preempt\"} 6"));
}

TEST_CASE("who cannot answer now sends the client elsewhere", "[verbs]") {
  Fixture f;
  f.handler.unavailable = true;
  for (const auto& [verb, body] : {std::pair{"/filter", kArgs}, std::pair{"/prioritize", kArgs},
                                   std::pair{"/bind", kBind}, std::pair{"/preempt", kPreempt}}) {
    RawClient client(f.port);
    const auto answer = client.Call(Post(verb, body));
    CHECK(answer->status == 503);
    CHECK(answer->body.empty());
    CHECK_THAT(answer->head, Catch::Contains("Connection: close"));
    CHECK(client.Closed());
  }
  CHECK(f.Exports("berth_request_duration_seconds_count{code=\"503\",verb=\"bind\"} 1"));
}

TEST_CASE("a handler that throws is a counted 500", "[verbs]") {
  Fixture f;
  RawClient client(f.port);
  const auto answer =
      client.Call(Post("/filter", R"({"Pod":{"metadata":{"name":"throw"}},"NodeNames":["n"]})"));
  CHECK(answer->status == 500);
  CHECK(answer->body.empty());
  CHECK(f.Exports("berth_request_duration_seconds_count{code=\"500\",verb=\"filter\"} 1"));
  CHECK(RawClient(f.port).Call(Post("/filter", kArgs))->status == 200);
}

TEST_CASE("a verb is a POST", "[verbs]") {
  Fixture f;
  RawClient client(f.port);
  for (const auto* verb : {"/filter", "/prioritize", "/bind", "/preempt"}) {
    CHECK(client.Call(Get(verb))->status == 405);
  }
  CHECK(client.Call(Get("/"))->status == 404);
  CHECK(client.Call(Get("/filter/"))->status == 404);
}

TEST_CASE("300 binds are parked while filter answers; one whose client leaves is parked no more",
          "[verbs]") {
  constexpr int kParked = 300;
  Fixture f;
  std::vector<RawClient> binds;
  for (int i = 0; i < kParked; ++i) {
    REQUIRE(binds.emplace_back(f.port).Send(Post("/bind", kBind)));
  }
  REQUIRE(Eventually([&] { return f.handler.Parked() == kParked; }));
  RawClient client(f.port);
  for (int i = 0; i < 20; ++i) CHECK(client.Call(Post("/filter", kArgs))->status == 200);
  binds.pop_back();
  REQUIRE(Eventually([&] { return f.handler.Left() == 1; }));
  f.handler.Open();
  for (auto& bind : binds) CHECK(bind.Read()->body == R"({"Error":""})");
}

}  // namespace
}  // namespace berth::server
