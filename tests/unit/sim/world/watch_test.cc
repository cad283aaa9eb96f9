// A watch loses nothing and reorders nothing of its kind, whatever happens to it.
#include "sim/world/watch.h"

#include <map>
#include <vector>

#include "tests/support/builders.h"
#include "tests/support/catch.h"

namespace berth::sim {
namespace {

using testing::MakeNode;
using testing::MakePod;

struct WatchTest {
  Environment env{5, 1'000'000, 50};
  std::map<std::string, std::string> mirror{};  ///< UID to resource version.
  std::vector<std::string> versions{};
  int synced = 0;
  std::unique_ptr<WatchStream> stream{};

  void Connect() {
    stream = std::make_unique<WatchStream>(
        env, Kind::kPod,
        WatchStream::Sink{
            .upsert =
                [this](const Change& c) {
                  mirror[c.key] = c.pod->meta.resource_version;
                  versions.push_back(c.pod->meta.resource_version);
                },
            .remove = [this](const std::string& key, const Change&) { mirror.erase(key); },
            .synced = [this] { ++synced; }});
  }
  void Run(Duration duration) {
    const TimePoint end = env.now() + duration;
    while (!env.timeline.empty() && env.timeline.next() <= end) env.timeline.Step();
    env.timeline.At(end, [] {});
    env.timeline.Step();
  }
  std::map<std::string, std::string> Truth() const {
    std::map<std::string, std::string> truth;
    for (const auto& [name, pod] : env.api.pods()) {
      truth[pod->meta.uid] = pod->meta.resource_version;
    }
    return truth;
  }
  engine::PodRef Add(const std::string& name) {
    const auto reply = env.api.CreatePod(MakePod(name).Build());
    return {.ns = "default", .name = name, .uid = reply.pod->meta.uid};
  }
};

TEST_CASE_METHOD(WatchTest, "a list, then what changes", "[unit][sim]") {
  Add("a");
  Connect();
  Run(1'000);
  CHECK(synced == 1);
  const auto b = Add("b");
  CHECK(mirror != Truth());  // not at once
  Run(1'000);
  CHECK(mirror == Truth());
  env.api.DeletePod(b);
  Run(1'000);
  CHECK(mirror == Truth());
}

TEST_CASE_METHOD(WatchTest, "a pod that ends leaves the selection", "[unit][sim]") {
  Connect();
  const auto a = Add("a");
  Run(1'000);
  env.api.Patch(a, [](kube::Pod& pod) {
    pod.phase = kube::PodPhase::kSucceeded;
    return true;
  });
  Run(1'000);
  CHECK(mirror.empty());
}

TEST_CASE_METHOD(WatchTest, "a broken watch resumes without a gap", "[unit][sim]") {
  Connect();
  Run(1'000);
  Add("a");
  stream->Break(3'000, /*expired=*/false);
  Add("b");
  Run(2'000);
  CHECK(mirror.empty());
  Run(2'000);
  CHECK(mirror == Truth());
  CHECK(versions == std::vector<std::string>{"1", "2"});
}

TEST_CASE_METHOD(WatchTest, "after 410 a list makes up the deletions", "[unit][sim]") {
  Connect();
  const auto a = Add("a");
  Add("b");
  Run(1'000);
  stream->Break(500, /*expired=*/true);
  env.api.DeletePod(a);
  Add("c");
  Run(5'000);
  CHECK(mirror == Truth());
  CHECK(synced == 1);  // once, for the first list
}

TEST_CASE_METHOD(WatchTest, "a slow watch keeps its order", "[unit][sim]") {
  Connect();
  Run(1'000);
  stream->SlowDown(4'000, env.now() + 5'000);
  Add("a");
  Run(3'000);
  CHECK(mirror.empty());
  Add("b");
  Run(10'000);
  CHECK(versions == std::vector<std::string>{"1", "2"});
}

TEST_CASE_METHOD(WatchTest, "events may come twice", "[unit][sim]") {
  Connect();
  Run(1'000);
  stream->Duplicate(env.now() + 5'000);
  Add("a");
  Run(1'000);
  CHECK(versions == std::vector<std::string>{"1", "1"});
  CHECK(mirror == Truth());
}

}  // namespace
}  // namespace berth::sim
