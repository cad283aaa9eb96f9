// What was used is read when a term begins, and written while it lasts and at its end.
#include "server/drivers/usage_keeper.h"

#include <atomic>
#include <nlohmann/json.hpp>

#include "server/drivers/usage_text.h"
#include "server/version.h"
#include "tests/support/builders.h"
#include "tests/support/catch.h"
#include "tests/support/fake_api_server.h"
#include "tests/support/no_api.h"
#include "tests/support/raw_client.h"

namespace berth::server {
namespace {

using std::chrono::milliseconds;
using test::Eventually;
using testing::FakeApiServer;
using testing::FakeEnd;
using testing::FakeReply;
using testing::FakeRequest;
using testing::kGpu;
using testing::MakeNode;
using testing::MakePod;
using Json = nlohmann::json;

/// The ConfigMap `berth-usage` in namespace `sys`.
class Cluster {
 public:
  Cluster() {
    server.Handle([this](const FakeRequest& request) { return Answer(request); });
  }
  std::atomic<int> read_status = 200;
  std::atomic<int> write_status = 200;
  std::atomic<int> reads = 0;
  std::atomic<int> writes = 0;

  void Put(const std::string& text) {
    const std::scoped_lock lock(mutex_);
    text_ = text;
  }
  std::string Text() const {
    const std::scoped_lock lock(mutex_);
    return text_.value_or("");
  }
  std::int64_t Used(const std::string& queue) const {
    for (const auto& entry : DecodeUsage(Text()).record.queues) {
      if (entry.queue == queue) return entry.used.at(kGpu);
    }
    return -1;
  }

 private:
  FakeReply Answer(const FakeRequest& request) {
    const std::string maps = "/api/v1/namespaces/sys/configmaps";
    const bool post = request.method == "POST";
    if (request.path != (post ? maps : maps + "/berth-usage")) {
      return FakeReply::Status(400, "BadRequest");
    }
    const std::scoped_lock lock(mutex_);
    if (request.method == "GET") {
      ++reads;
      if (read_status != 200) return FakeReply::Status(read_status, "Trouble");
      if (!text_) return FakeReply::Status(404, "NotFound");
      return FakeReply::Json(Json{{"data", {{"usage.json", *text_}}}}.dump());
    }
    if (!post && !text_) return FakeReply::Status(404, "NotFound");
    ++writes;
    if (write_status != 200) return FakeReply::Status(write_status, "Trouble");
    text_ = Json::parse(request.body)["data"]["usage.json"].get<std::string>();
    return FakeReply::Json(request.body);
  }

  mutable std::mutex mutex_;
  std::optional<std::string> text_;

 public:
  FakeApiServer server;
};

/// A pod of the queue `default` holds 2 GPUs. Time passes as the test says.
struct Bed {
  explicit Bed(UsageKeeper::Pace pace = {.between_writes = milliseconds(1),
                                         .before_retry = milliseconds(1)})
      : client(ClientOf(cluster.server)),
        keeper(host, *client, tenure, "sys", metrics, logger, pace) {
    host.Apply([](engine::Engine& e, engine::TimePoint at) {
      e.OnNode(MakeNode("n").Gpu(8), at);
      e.OnPod(MakePod("p").Gpu(2).On("n"), at);
    });
    host.Start();
  }
  void Pass(std::int64_t ms) { now += ms; }
  bool Counts() const {
    return host.Look(
        [](const engine::Engine& e, auto at) { return e.store().UsageUntil(at).has_value(); });
  }

  Cluster cluster;
  std::atomic<engine::TimePoint> now = 1'000'000;
  Logger logger{LogFormat::kText, 0, [](std::string_view) {}};
  Metrics metrics{ThisBuild()};
  DecisionLog decisions{{}};
  NoApi api;
  Tenure tenure;
  HostDriver host{{}, {}, api, metrics, logger, decisions, [this] { return now.load(); }};
  std::unique_ptr<kube::RestClient> client;
  UsageKeeper keeper;
};

TEST_CASE("what was used is created, written as time passes, and goes on", "[usage]") {
  Bed bed;
  CHECK_FALSE(bed.Counts());
  bed.keeper.Begin();
  REQUIRE(Eventually([&] { return bed.cluster.Used("default") == 0; }));
  bed.Pass(5'000);
  REQUIRE(Eventually([&] { return bed.cluster.Used("default") == 10'000; }));
  // Metrics show what is kept, and followers show nothing.
  const auto shows = [&](const char* line) {
    return bed.metrics.Serialize().find(line) != std::string::npos;
  };
  REQUIRE(Eventually([&] { return shows("resource=\"nvidia.com/gpu\"} 10\n"); }));
  CHECK(shows("berth_user_device_seconds_total{"));
  // Another leader counted until 1,100 s, and then 20 s pass until we lead again.
  bed.keeper.End();
  CHECK_FALSE(shows("device_seconds_total{"));
  bed.cluster.Put(EncodeUsage(
      {.until = 1'100'000, .queues = {{.queue = "default", .used = {{kGpu, 50'000}}}}}));
  bed.Pass(115'000);
  bed.keeper.Begin();
  // Nobody says since when the pod runs, so it counts since we lead.
  REQUIRE(Eventually([&] { return DecodeUsage(bed.cluster.Text()).record.until == 1'120'000; }));
  CHECK(bed.cluster.Used("default") == 50'000);
  bed.Pass(1'000);
  REQUIRE(Eventually([&] { return bed.cluster.Used("default") == 52'000; }));
}

TEST_CASE("at its end a term writes once more, unless it may not any more", "[usage]") {
  const UsageKeeper::Pace slow{.between_writes = std::chrono::hours(1),
                               .before_retry = milliseconds(1)};
  Bed bed(slow);
  REQUIRE(Eventually([&] {  // the keeper may not know yet that it has written when its term ends
    const int writes = bed.cluster.writes;
    bed.keeper.Begin();
    REQUIRE(Eventually([&] { return bed.cluster.writes > writes; }));
    const std::int64_t used = bed.cluster.Used("default");
    bed.Pass(3'000);
    bed.keeper.End();
    return bed.cluster.Used("default") == used + 6'000;
  }));
  bed.keeper.Begin();
  bed.Pass(3'000);
  bed.tenure.End();
  bed.keeper.End();
  CHECK(bed.cluster.Used("default") >= 6'000);
  const std::int64_t used = bed.cluster.Used("default");
  bed.Pass(3'000);
  bed.keeper.Begin();
  bed.keeper.End();
  CHECK(bed.cluster.Used("default") == used);
}

TEST_CASE("nothing counts, and nothing is overwritten, before it was read", "[usage]") {
  Bed bed;
  bed.cluster.Put(EncodeUsage({.until = 1, .queues = {{.queue = "old", .used = {{kGpu, 9}}}}}));
  bed.cluster.read_status = 503;
  bed.keeper.Begin();
  REQUIRE(Eventually([&] { return bed.cluster.reads > 3; }));
  CHECK_FALSE(bed.Counts());
  CHECK(bed.cluster.writes == 0);
  bed.cluster.read_status = 200;
  bed.Pass(1'000);
  REQUIRE(Eventually([&] { return bed.cluster.Used("default") >= 0; }));
  CHECK(bed.cluster.Used("old") == 9);
}

TEST_CASE("garbage is left out, and a refused write is tried again", "[usage]") {
  Bed bed;
  bed.cluster.Put("}{");
  bed.cluster.write_status = 403;
  bed.keeper.Begin();
  REQUIRE(Eventually([&] { return bed.cluster.writes > 3; }));
  CHECK(bed.cluster.Text() == "}{");
  bed.cluster.write_status = 200;
  REQUIRE(Eventually([&] { return bed.cluster.Used("default") == 0; }));
}

}  // namespace
}  // namespace berth::server
