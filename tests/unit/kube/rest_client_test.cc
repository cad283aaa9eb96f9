#include "kube/rest_client.h"

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "tests/support/catch.h"
#include "tests/support/fake_api_server.h"

namespace berth::kube {
namespace {

using testing::FakeApiServer;
using testing::FakeEnd;
using testing::FakeReply;
using testing::FakeRequest;

std::unique_ptr<RestClient> Client(const FakeApiServer& server, RestClientOptions options = {},
                                   const std::string& token = "") {
  ClientConfig config;
  config.server = server.Url();
  config.token = token;
  auto client = RestClient::Create(std::move(config), std::move(options));
  REQUIRE(client);
  return *std::move(client);
}

Request Get(const std::string& path, Duration timeout = Duration(5'000)) {
  Request request;
  request.path = path;
  request.timeout = timeout;
  return request;
}

TEST_CASE("a call carries everything and keeps its connection", "[kube][rest_client]") {
  FakeApiServer server;
  server.Script({FakeReply::Json("{}", 201),
                 FakeReply::Status(429, "TooManyRequests").With("Retry-After", "7")});
  const auto client = Client(server, {}, "t0ken");
  Request request = Get("/api/v1/pods");
  request.method = "PATCH";
  request.query = {{"fieldSelector", "status.phase!=Failed,a=b c"}};
  request.content_type = "application/merge-patch+json";
  request.body = R"({"a":1})";
  auto response = client->Do(request, {});
  REQUIRE(response);
  CHECK(response->status == 201);
  CHECK(response->body == "{}");
  CHECK_FALSE(response->retry_after);

  response = client->Do(Get("/x"), {});
  REQUIRE(response);
  CHECK(response->status == 429);
  CHECK(response->retry_after == std::chrono::seconds(7));
  CHECK(server.Connections() == 1);

  const auto seen = server.Requests();
  CHECK(seen[0].method == "PATCH");
  CHECK(seen[0].query.at("fieldSelector") == "status.phase!=Failed,a=b c");
  CHECK(seen[0].headers.at("content-type") == "application/merge-patch+json");
  CHECK(seen[0].headers.at("authorization") == "Bearer t0ken");
  CHECK_FALSE(seen[0].headers.contains("expect"));
  CHECK(seen[0].body == R"({"a":1})");
  CHECK(seen[1].method == "GET");
  CHECK(seen[1].headers.at("accept-encoding") == "gzip");
}

TEST_CASE("an error says whether the request may have gone out", "[kube][rest_client]") {
  std::string gone;
  { gone = FakeApiServer().Url(); }
  ClientConfig config;
  config.server = gone;
  const auto nobody = *RestClient::Create(config);
  auto result = nobody->Do(Get("/"), {});
  REQUIRE_FALSE(result);
  CHECK(result.error().failure == TransportFailure::kConnect);
  CHECK_FALSE(result.error().maybe_sent);

  FakeApiServer server;
  const auto client = Client(server);
  server.Script({FakeReply::Nothing(FakeEnd::kReset), FakeReply::Nothing(FakeEnd::kHold)});
  result = client->Do(Get("/"), {});
  REQUIRE_FALSE(result);
  CHECK(result.error().failure == TransportFailure::kReset);
  CHECK(result.error().maybe_sent);

  result = client->Do(Get("/", Duration(50)), {});
  REQUIRE_FALSE(result);
  CHECK(result.error().failure == TransportFailure::kTimeout);
  CHECK(result.error().maybe_sent);
}

TEST_CASE("a call waits for a free connection, and in vain when there is none",
          "[kube][rest_client]") {
  FakeApiServer server;
  const auto client = Client(server, {.max_calls = 1});
  std::stop_source stop;
  auto holder =
      std::async(std::launch::async, [&] { return client->Do(Get("/hold"), stop.get_token()); });
  server.WaitForRequests(1);
  const auto waiting = client->Do(Get("/", Duration(30)), {});
  REQUIRE_FALSE(waiting);
  CHECK(waiting.error().failure == TransportFailure::kTimeout);
  CHECK_FALSE(waiting.error().maybe_sent);
  stop.request_stop();
  CHECK(holder.get().error().failure == TransportFailure::kCancelled);
}

TEST_CASE("bodies have a limit", "[kube][rest_client]") {
  FakeApiServer server;
  server.Script({FakeReply::Json(std::string(1'001, 'x'))});
  const auto client = Client(server, {.body_limit = 1'000});
  const auto result = client->Do(Get("/"), {});
  REQUIRE_FALSE(result);
  CHECK(result.error().failure == TransportFailure::kTooLarge);
}

TEST_CASE("a rotated token file is read again on a 401, once", "[kube][rest_client]") {
  const auto path =
      std::filesystem::temp_directory_path() / ("berth-token-" + std::to_string(::getpid()));
  std::ofstream(path) << "old\n";
  FakeApiServer server;
  server.Handle([&](const FakeRequest& request) {
    if (request.headers.at("authorization") == "Bearer new") return FakeReply::Json("{}");
    std::ofstream(path) << "new\n";
    return FakeReply::Status(401, "Unauthorized");
  });
  ClientConfig config;
  config.server = server.Url();
  config.token_file = path.string();
  const auto client = *RestClient::Create(config);
  CHECK(client->Do(Get("/"), {})->status == 200);
  CHECK(server.Requests().size() == 2);
  server.Handle([](const FakeRequest&) { return FakeReply::Status(401, "Unauthorized"); });
  CHECK(client->Do(Get("/"), {})->status == 401);
  CHECK(server.Requests().size() == 3);  // The file has nothing new: no second try.
  std::filesystem::remove(path);
}

TEST_CASE("credentials do not travel in the clear", "[kube][rest_client]") {
  ClientConfig config;
  config.token = "t";
  for (const char* server :
       {"http://10.0.0.1:8080", "http://127.0.0.1:9@10.0.0.1:1", "http://127.0.0.1@10.0.0.1",
        "http://127.0.0.1#@10.0.0.1", "http://127.0.0.1:1#@10.0.0.1:1", "http://127.example.com",
        "http://localhost@10.0.0.1:1"}) {
    INFO(server);
    config.server = server;
    CHECK_FALSE(RestClient::Create(config));
  }
  for (const char* server : {"http://localhost:8080", "http://127.1.2.3", "http://[::1]:1"}) {
    config.server = server;
    CHECK(RestClient::Create(config));
  }
  config.server = "ftp://localhost";
  CHECK_FALSE(RestClient::Create(config));
}

TEST_CASE("a stream comes in lines, whatever the chunks", "[kube][rest_client]") {
  FakeApiServer server;
  FakeReply reply;
  reply.chunks = {"on", "e\ntwo\r\n\nth", "ree"};
  server.Script({reply});
  const auto client = Client(server);
  std::vector<std::string> lines;
  const auto result = client->Stream(
      Get("/w"), [&](std::string_view line) { return lines.emplace_back(line), true; },
      Duration(5'000), {});
  REQUIRE(result);
  CHECK(result->Ok());
  CHECK(lines == std::vector<std::string>{"one", "two", "three"});
}

TEST_CASE("a stream that is refused gives its body", "[kube][rest_client]") {
  FakeApiServer server;
  server.Script({FakeReply::Status(410, "Expired", "too old")});
  const auto client = Client(server);
  bool called = false;
  const auto result = client->Stream(Get("/w"), [&](std::string_view) { return called = true; },
                                     Duration(5'000), {});
  REQUIRE(result);
  CHECK_FALSE(called);
  const ApiStatus status = ParseStatus(result->body, result->status);
  CHECK(status.code == 410);
  CHECK(status.reason == "Expired");
  CHECK(status.message == "too old");
}

TEST_CASE("streams end on silence, long lines, resets and their receiver's word",
          "[kube][rest_client]") {
  FakeApiServer server;
  server.Script({FakeReply::Watch({"a"}), FakeReply::Watch({std::string(101, 'x')}),
                 FakeReply::Watch({"a"}, FakeEnd::kReset), FakeReply::Watch({"a"})});
  const auto client = Client(server, {.line_limit = 100});
  const auto failure = [&](bool go_on, Duration idle) {
    const auto result =
        client->Stream(Get("/w", Duration(0)), [&](std::string_view) { return go_on; }, idle, {});
    return result ? TransportFailure::kConnect : result.error().failure;
  };
  CHECK(failure(true, Duration(40)) == TransportFailure::kSilent);
  CHECK(failure(true, Duration(5'000)) == TransportFailure::kTooLarge);
  CHECK(failure(true, Duration(5'000)) == TransportFailure::kReset);
  CHECK(failure(false, Duration(5'000)) == TransportFailure::kReceiver);
}

TEST_CASE("a silent stream is cancelled at once", "[kube][rest_client]") {
  FakeApiServer server;
  server.Script({FakeReply::Watch({"a"})});
  const auto client = Client(server);
  std::stop_source stop;
  std::promise<void> first;
  auto stream = std::async(std::launch::async, [&] {
    return client->Stream(
        Get("/w", Duration(0)), [&](std::string_view) { return first.set_value(), true; },
        std::chrono::hours(1), stop.get_token());
  });
  first.get_future().wait();
  stop.request_stop();
  REQUIRE(stream.wait_for(std::chrono::seconds(10)) == std::future_status::ready);
  CHECK(stream.get().error().failure == TransportFailure::kCancelled);
}

TEST_CASE("a receiver that throws ends the stream", "[kube][rest_client]") {
  FakeApiServer server;
  server.Script({FakeReply::Watch({"a"})});
  const auto client = Client(server);
  const auto result =
      client->Stream(Get("/w"), [](std::string_view) -> bool { throw std::runtime_error("x"); },
                     Duration(5'000), {});
  REQUIRE_FALSE(result);
  CHECK(result.error().failure == TransportFailure::kReceiver);
}

TEST_CASE("calls from many threads share few connections", "[kube][rest_client]") {
  FakeApiServer server;
  server.Handle([](const FakeRequest& request) { return FakeReply::Json(request.path); });
  const auto client = Client(server, {.max_calls = 4});
  std::atomic<int> right = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 25; ++i) {
          const std::string path = "/" + std::to_string(t) + "/" + std::to_string(i);
          const auto result = client->Do(Get(path), {});
          if (result && result->body == path) ++right;
        }
      });
    }
  }
  CHECK(right == 200);
  CHECK(server.Connections() <= 4);
}

TEST_CASE("status bodies", "[kube][rest_client]") {
  const ApiStatus status = ParseStatus(
      R"({"kind":"Status","code":504,"reason":"Timeout","message":"m","details":
      {"retryAfterSeconds":3,"causes":[{"reason":"ResourceVersionTooLarge"}]}})",
      200);
  CHECK(status.code == 504);
  CHECK(status.causes == std::vector<std::string>{"ResourceVersionTooLarge"});
  CHECK(status.retry_after == std::chrono::seconds(3));
  for (const char* odd : {"", "not json", "[]", R"({"kind":"Status","code":"x","details":[]})"}) {
    CHECK(ParseStatus(odd, 503).code == 503);
  }
  CHECK(EscapeSegment("a-b.c_~/%é") == "a-b.c_~%2F%25%C3%A9");
}

TEST_CASE("a list is cut into items whatever the chunks", "[kube][rest_client]") {
  const std::string text =
      R"( {"kind":"items","a":[[1,"]"]],"metadata":{"items":[{"no":1}],"resourceVersion":"7"},)"
      R"("items": [ {"x":"}]\"{\\"} ,{"y":{"items":[{}]}}, {} ] ,"z":1} )";
  for (std::size_t size = 1; size <= text.size(); ++size) {
    std::vector<std::string> items;
    const PieceFunction on_item = [&](std::string_view item) {
      return items.emplace_back(item), true;
    };
    ItemSplitter splitter(1'000, on_item);
    for (std::size_t at = 0; at < text.size(); at += size) {
      REQUIRE(splitter.Feed(std::string_view(text).substr(at, size)) == SplitResult::kContinue);
    }
    CHECK(splitter.Complete());
    CHECK(items == std::vector<std::string>{R"({"x":"}]\"{\\"})", R"({"y":{"items":[{}]}})", "{}"});
    CHECK(splitter.Envelope() ==
          R"( {"kind":"items","a":[[1,"]"]],"metadata":{"items":[{"no":1}],"resourceVersion":"7"},)"
          R"("items": [] ,"z":1} )");
  }
}

TEST_CASE("a list that is cut short or too long is noticed", "[kube][rest_client]") {
  const PieceFunction ignore = [](std::string_view) { return true; };
  ItemSplitter cut(100, ignore);
  CHECK(cut.Feed(R"({"items":[{},{"a")") == SplitResult::kContinue);
  CHECK_FALSE(cut.Complete());
  ItemSplitter small(8, ignore);
  CHECK(small.Feed(R"({"items":[{"a":"0123456789"}]})") == SplitResult::kTooLong);
  ItemSplitter odd(100, ignore);
  CHECK(odd.Feed("]") == SplitResult::kMalformed);
}

}  // namespace
}  // namespace berth::kube
