#include "kube/reflector.h"

#include <simdjson.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "tests/support/catch.h"
#include "tests/support/fake_api_server.h"
#include "tests/support/fake_timing.h"

namespace berth::kube {
namespace {

using testing::FakeApiServer;
using testing::FakeEnd;
using testing::FakeReply;
using testing::FakeRequest;
using testing::FakeTiming;

using Log = std::vector<std::string>;

/// Writes down what it is told.
class RecordingSink : public ReflectorSink {
 public:
  void BeginReplace() override { Add("begin"); }
  void EndReplace() override { Add("end"); }
  void Upsert(simdjson::dom::element object) override { Add("+" + NameOf(object)); }
  void Delete(simdjson::dom::element object) override { Add("-" + NameOf(object)); }
  void OnSynced() override { Add("synced"); }
  void OnRestart(RestartReason reason) override { Add("!" + std::string(Name(reason))); }
  void OnList(ListKind kind) override {
    std::lock_guard lock(mutex_);
    lists_.emplace_back(Name(kind));
  }

  Log lists() {
    std::lock_guard lock(mutex_);
    return lists_;
  }

  /// Waits until `n` entries are there (10 s); returns what is there.
  Log Wait(std::size_t n) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(10), [&] { return log_.size() >= n; });
    return log_;
  }

 private:
  static std::string NameOf(simdjson::dom::element object) {
    std::string_view name;
    return object["metadata"]["name"].get(name) == simdjson::SUCCESS ? std::string(name) : "?";
  }
  void Add(std::string entry) {
    {
      std::lock_guard lock(mutex_);
      log_.push_back(std::move(entry));
    }
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  Log log_;
  Log lists_;
};

/// A reflector on a fake server, in virtual time.
struct Bed {
  FakeApiServer server;
  FakeTiming timing;
  RecordingSink sink;
  std::unique_ptr<RestClient> client;
  ReflectorConfig config{.name = "pods",
                         .path = "/api/v1/pods",
                         .field_selector = "status.phase!=Failed",
                         .label_selector = {},
                         .page_limit = 2,
                         .use_watch_list = false,
                         .idle_timeout = Duration(30'000),
                         .min_watch = Duration(300'000),
                         .backoff = {}};
  std::unique_ptr<Reflector> reflector;
  std::jthread thread;  // Last: it stops first.

  /// Starts, and waits for the sink's log and the server's requests to get that long.
  Log Run(std::vector<FakeReply> script, std::size_t log_length, std::size_t requests) {
    ClientConfig where;
    where.server = server.Url();
    client = *RestClient::Create(where, {.line_limit = 1'000});
    server.Script(std::move(script));
    reflector = std::make_unique<Reflector>(*client, config, sink, timing.Get());
    thread = std::jthread([this](std::stop_token stop) { reflector->Run(stop); });
    server.WaitForRequests(requests);
    return sink.Wait(log_length);
  }
  std::map<std::string, std::string> Query(std::size_t i) { return server.Requests().at(i).query; }
};

std::string Object(const std::string& name, const std::string& version) {
  return R"({"metadata":{"name":")" + name + R"(","resourceVersion":")" + version + R"("}})";
}
std::string Event(const std::string& type, const std::string& name, const std::string& version) {
  return R"({"type":")" + type + R"(","object":)" + Object(name, version) + "}";
}
std::string EndOfInitialEvents(const std::string& version) {
  return R"({"type":"BOOKMARK","object":{"metadata":{"resourceVersion":")" + version +
         R"(","annotations":{"k8s.io/initial-events-end":"true"}}}})";
}
std::string ErrorEvent(int code, const std::string& reason, const std::string& message = "") {
  return R"({"type":"ERROR","object":{"kind":"Status","code":)" + std::to_string(code) +
         R"(,"reason":")" + reason + R"(","message":")" + message + R"("}})";
}
FakeReply ListOf(std::vector<std::string> names, const std::string& version,
                 const std::string& more = "") {
  std::string items;
  for (const std::string& name : names) items += (items.empty() ? "" : ",") + Object(name, "1");
  return FakeReply::Json(R"({"kind":"PodList","metadata":{"resourceVersion":")" + version +
                         R"(","continue":")" + more + R"("},"items":[)" + items + "]}");
}
const Log kEmptySync{"begin", "end", "synced"};

/// `rest` after the log of a sync of an empty list.
Log AfterSync(const Log& rest) {
  Log log = kEmptySync;
  log.insert(log.end(), rest.begin(), rest.end());
  return log;
}

TEST_CASE("pages are listed, then watched from the first page's version", "[kube][reflector]") {
  Bed bed;
  const Log log =
      bed.Run({ListOf({"a", "b"}, "10", "more"), ListOf({"c"}, "11"),
               FakeReply::Watch({Event("ADDED", "d", "12"), Event("MODIFIED", "a", "13"),
                                 Event("DELETED", "b", "14")})},
              9, 3);
  CHECK(log == Log{"begin", "+a", "+b", "+c", "end", "synced", "+d", "+a", "-b"});
  CHECK(bed.Query(0) ==
        std::map<std::string, std::string>{
            {"limit", "2"}, {"resourceVersion", "0"}, {"fieldSelector", "status.phase!=Failed"}});
  CHECK(bed.Query(1).at("continue") == "more");
  CHECK_FALSE(bed.Query(1).contains("resourceVersion"));
  CHECK(bed.Query(2).at("resourceVersion") == "10");
  CHECK(bed.Query(2).at("allowWatchBookmarks") == "true");
  CHECK(bed.Query(2).at("timeoutSeconds") == "300");
  CHECK(bed.Query(2).at("fieldSelector") == "status.phase!=Failed");
}

TEST_CASE("a watch list syncs and goes on on the same stream", "[kube][reflector]") {
  Bed bed;
  bed.config.use_watch_list = true;
  const Log log =
      bed.Run({FakeReply::Watch({Event("ADDED", "a", "9"), Event("ADDED", "b", "3"),
                                 EndOfInitialEvents("20"), Event("MODIFIED", "b", "21")},
                                FakeEnd::kKeepAlive)},
              7, 2);
  CHECK(log == Log{"begin", "+a", "+b", "end", "synced", "+b", "!closed"});
  CHECK(bed.Query(0).at("sendInitialEvents") == "true");
  CHECK(bed.Query(0).at("resourceVersionMatch") == "NotOlderThan");
  CHECK_FALSE(bed.Query(0).contains("resourceVersion"));
  CHECK(bed.Query(1).at("resourceVersion") == "21");
  CHECK_FALSE(bed.Query(1).contains("sendInitialEvents"));
  CHECK(bed.timing.Waits().empty());
}

TEST_CASE("bookmarks move the version on", "[kube][reflector]") {
  Bed bed;
  bed.Run({ListOf({}, "10"), FakeReply::Watch({Event("BOOKMARK", "", "15")}, FakeEnd::kKeepAlive)},
          4, 3);
  CHECK(bed.Query(2).at("resourceVersion") == "15");
}

TEST_CASE("servers without watch lists are listed, for good", "[kube][reflector]") {
  const auto refusal =
      GENERATE(FakeReply::Status(422, "Invalid", "sendInitialEvents is forbidden"),
               FakeReply::Watch(
                   {ErrorEvent(500, "InternalError",
                               "the required storage feature RequestWatchProgress is disabled")},
                   FakeEnd::kKeepAlive));
  Bed bed;
  bed.config.use_watch_list = true;
  const Log log = bed.Run({refusal, ListOf({"a"}, "10"),
                           FakeReply::Watch({ErrorEvent(410, "Expired")}, FakeEnd::kKeepAlive)},
                          10, 4);
  CHECK(Log(log.begin(), log.begin() + 6) ==
        Log{"!watch_list_unsupported", "begin", "+a", "end", "synced", "!expired"});
  CHECK(bed.Query(1).at("resourceVersion") == "0");
  CHECK_FALSE(bed.Query(3).contains("watch"));
}

TEST_CASE("a watch list that ends too soon, or is not one, is listed this time",
          "[kube][reflector]") {
  Bed bed;
  bed.config.use_watch_list = true;
  const auto part = FakeReply::Watch({Event("ADDED", "a", "9")}, FakeEnd::kKeepAlive);
  const Log log = bed.Run({part, ListOf({"b"}, "10")}, 7, 3);
  CHECK(log == Log{"begin", "+a", "!closed", "begin", "+b", "end", "synced"});
}

TEST_CASE("a watch list that breaks is begun again", "[kube][reflector]") {
  Bed bed;
  bed.config.use_watch_list = true;
  const Log log = bed.Run({FakeReply::Watch({Event("ADDED", "a", "9")}, FakeEnd::kReset),
                           FakeReply::Watch({EndOfInitialEvents("20")})},
                          6, 2);
  CHECK(log == Log{"begin", "+a", "!connection", "begin", "end", "synced"});
  CHECK_FALSE(bed.Query(1).contains("resourceVersion"));
  CHECK(bed.timing.Waits() == std::vector{Duration(800)});
}

TEST_CASE("410 in a watch lists at the last version, and 410 there at the newest",
          "[kube][reflector]") {
  Bed bed;
  const Log log = bed.Run({ListOf({}, "10"),
                           FakeReply::Watch({Event("ADDED", "a", "12"), ErrorEvent(410, "Expired")},
                                            FakeEnd::kKeepAlive),
                           FakeReply::Status(410, "Expired"), ListOf({"b"}, "30")},
                          11, 5);
  CHECK(log == AfterSync({"+a", "!expired", "begin", "!expired", "begin", "+b", "end", "synced"}));
  CHECK(bed.Query(2).at("resourceVersion") == "12");
  CHECK_FALSE(bed.Query(3).contains("resourceVersion"));
  CHECK(bed.Query(3).at("limit") == "2");
  CHECK(bed.Query(4).at("resourceVersion") == "30");
}

TEST_CASE("410 in a watch list starts over at the newest", "[kube][reflector]") {
  Bed bed;
  bed.config.use_watch_list = true;
  bed.Run(
      {FakeReply::Watch({EndOfInitialEvents("20"), ErrorEvent(410, "Gone")}, FakeEnd::kKeepAlive),
       FakeReply::Status(504, "Timeout", "Too large resource version: 20"),
       FakeReply::Watch({EndOfInitialEvents("5")}, FakeEnd::kKeepAlive)},
      8, 4);
  CHECK(bed.Query(1).at("resourceVersion") == "20");
  CHECK_FALSE(bed.Query(2).contains("resourceVersion"));
  CHECK(bed.Query(3).at("resourceVersion") == "5");
}

TEST_CASE("410 on a page lists in one piece", "[kube][reflector]") {
  Bed bed;
  const Log log = bed.Run(
      {ListOf({"a", "b"}, "10", "more"), FakeReply::Status(410, "Expired"), ListOf({"c"}, "20")}, 8,
      4);
  CHECK(log == Log{"begin", "+a", "+b", "!expired", "begin", "+c", "end", "synced"});
  CHECK_FALSE(bed.Query(2).contains("limit"));
  CHECK_FALSE(bed.Query(2).contains("continue"));
}

TEST_CASE("429 waits as long as the server says, and goes on", "[kube][reflector]") {
  Bed bed;
  const auto throttled = [] {
    return FakeReply::Status(429, "TooManyRequests").With("Retry-After", "9");
  };
  const Log log = bed.Run({throttled(), ListOf({}, "10"), throttled()}, 5, 4);
  CHECK(log == Log{"begin", "!throttled", "end", "synced", "!throttled"});
  CHECK(bed.timing.Waits() == std::vector{Duration(9'000), Duration(9'000)});
  CHECK(bed.Query(3).at("resourceVersion") == "10");
  CHECK(bed.Query(3).at("watch") == "1");
}

TEST_CASE("500 watches again, but not forever", "[kube][reflector]") {
  Bed bed;
  const Log log =
      bed.Run({ListOf({}, "10"), FakeReply::Status(503, "ServiceUnavailable"),
               FakeReply::Watch({ErrorEvent(500, "InternalError")}),
               FakeReply::Status(500, "InternalError"), FakeReply::Status(500, "InternalError"),
               FakeReply::Status(500, "InternalError"), ListOf({"a"}, "20")},
              12, 8);
  CHECK(log == AfterSync({"!server_error", "!server_error", "!server_error", "!server_error",
                          "!server_error", "begin", "+a", "end", "synced"}));
  for (std::size_t i = 1; i <= 5; ++i) CHECK(bed.Query(i).at("resourceVersion") == "10");
  CHECK(bed.timing.Waits().size() == 5);
  CHECK(bed.sink.lists() == Log{"cached", "cached"});
}

// An API server that restarts must not be asked for everything by all who lost their watches.
TEST_CASE("lost connections and 429 never list again", "[kube][reflector][bug]") {
  Bed bed;
  std::vector<FakeReply> script{ListOf({}, "10")};
  for (int i = 0; i < 4; ++i) {
    script.push_back(FakeReply::Watch({}, FakeEnd::kReset));
    script.push_back(FakeReply::Nothing(FakeEnd::kClose));
    script.push_back(FakeReply::Status(429, "TooManyRequests"));
  }
  script.push_back(FakeReply::Watch({Event("ADDED", "a", "11")}));
  const Log log = bed.Run(std::move(script), 16, 14);
  REQUIRE(log.size() >= 16);
  CHECK(std::ranges::count(log, "begin") == 1);
  CHECK(log[15] == "+a");
  for (std::size_t i = 1; i <= 13; ++i) CHECK(bed.Query(i).at("resourceVersion") == "10");
  CHECK(bed.sink.lists() == Log{"cached"});
}

TEST_CASE("a relist at a known version is one piece, of the newest in pages",
          "[kube][reflector][bug]") {
  Bed bed;
  bed.Run({ListOf({}, "10"), FakeReply::Watch({ErrorEvent(410, "Expired")}),
           FakeReply::Status(410, "Expired"), ListOf({}, "20")},
          8, 4);
  CHECK(bed.Query(0).at("limit") == "2");  // the server's cache ignores it at version 0
  CHECK(bed.Query(2).at("resourceVersion") == "10");
  CHECK_FALSE(bed.Query(2).contains("limit"));
  CHECK_FALSE(bed.Query(3).contains("resourceVersion"));
  CHECK(bed.Query(3).at("limit") == "2");
  CHECK(bed.sink.lists() == Log{"cached", "cached", "consistent"});
}

TEST_CASE("garbage is counted and listed over", "[kube][reflector]") {
  const auto* const line = GENERATE(
      R"({"type":"ADDED","object":{"metadata":{"na)", "<html>",
      R"({"type":"ODD","object":{"metadata":{"resourceVersion":"1"}}})",
      R"({"type":"ADDED","object":{"metadata":{"name":"x"}}})", R"({"object":{}})", "\xff\xfe");
  Bed bed;
  const Log log = bed.Run({ListOf({}, "10"), FakeReply::Watch({line}), ListOf({}, "20")}, 7, 4);
  CHECK(log == AfterSync({"!malformed", "begin", "end", "synced"}));
}

TEST_CASE("a line beyond the limit counts as garbage", "[kube][reflector]") {
  Bed bed;
  const Log log = bed.Run(
      {ListOf({}, "10"), FakeReply::Watch({std::string(2'000, ' ')}), ListOf({}, "20")}, 7, 4);
  CHECK(log == AfterSync({"!malformed", "begin", "end", "synced"}));
}

TEST_CASE("lists that are garbage are tried again", "[kube][reflector]") {
  Bed bed;
  const Log log = bed.Run({FakeReply::Json(R"({"items":[{"metadata":)"), FakeReply::Json("[]"),
                           FakeReply::Json(R"({"items":[{"a":tru}]})"), ListOf({"a"}, "10")},
                          7, 5);
  CHECK(log == Log{"begin", "!malformed", "!malformed", "!malformed", "+a", "end", "synced"});
}

TEST_CASE("a silent watch is left and taken up again", "[kube][reflector]") {
  Bed bed;
  bed.config.idle_timeout = Duration(30);
  const Log log = bed.Run({ListOf({}, "10"), FakeReply::Watch({Event("ADDED", "a", "11")})}, 5, 3);
  REQUIRE(log.size() >= 5);
  CHECK(Log(log.begin(), log.begin() + 5) == AfterSync({"+a", "!silent"}));
  CHECK(bed.Query(2).at("resourceVersion") == "11");
}

TEST_CASE("a watch that closes at once without events is an error", "[kube][reflector]") {
  Bed bed;
  const Log log = bed.Run(
      {ListOf({}, "10"), FakeReply::Watch({}, FakeEnd::kKeepAlive), ListOf({}, "20")}, 7, 4);
  CHECK(log == AfterSync({"!short_watch", "begin", "end", "synced"}));
  CHECK(bed.timing.Waits() == std::vector{Duration(800)});
}

TEST_CASE("a refused list is tried again after growing waits", "[kube][reflector]") {
  Bed bed;
  const auto forbidden = [] { return FakeReply::Status(403, "Forbidden"); };
  const Log log = bed.Run({forbidden(), forbidden(), forbidden(), ListOf({}, "1")}, 9, 5);
  CHECK(log == Log{"begin", "!refused", "begin", "!refused", "begin", "!refused", "begin", "end",
                   "synced"});
  CHECK(bed.timing.Waits() == std::vector{Duration(800), Duration(1'600), Duration(3'200)});
}

TEST_CASE("a reflector stops at once in a silent stream", "[kube][reflector]") {
  Bed bed;
  bed.config.idle_timeout = std::chrono::hours(1);
  bed.Run({ListOf({}, "10"), FakeReply::Watch({})}, 3, 2);
  bed.thread.request_stop();
  bed.thread.join();
  SUCCEED("joined");
}

TEST_CASE("restart reasons are distinct labels", "[kube][reflector]") {
  std::vector<std::string_view> names;
  for (int i = 0; i <= static_cast<int>(RestartReason::kWatchListUnsupported); ++i) {
    names.push_back(Name(static_cast<RestartReason>(i)));
  }
  std::ranges::sort(names);
  CHECK(std::ranges::adjacent_find(names) == names.end());
}

}  // namespace
}  // namespace berth::kube
