// What users create and delete for ever must not stay in memory.
#include <fmt/format.h>
#include <malloc.h>

#include <cstdlib>
#include <string>

#include "tests/support/catch.h"
#include "tests/support/world.h"

namespace berth::engine {
namespace {

using testing::MakeNode;
using testing::MakePod;

constexpr int kNodes = 20;

/// An engine under pods that have nothing in common but that they come and go.
class Churn {
 public:
  Churn() {
    for (int i = 0; i < kNodes; ++i) {
      engine.OnNode(MakeNode(fmt::format("n{}", i)).Gpu(8), now);
      names.push_back(fmt::format("n{}", i));
    }
    offered.assign(names.begin(), names.end());
    engine.Start(now);
  }

  void ComeAndGo(int from, int to) {
    for (int i = from; i < to; ++i) {
      now += 100;
      ComeAndGo(i);
    }
    now += 3'600'000;  // all timers are over
    engine.Step(now);
    (void)engine.TakeActions();
  }

  std::size_t Heap() { return mallinfo2().uordblks; }

  TimePoint now = 1'000'000;
  Engine engine{{}, {}};
  std::vector<std::string> names;
  std::vector<std::string_view> offered;

 private:
  void ComeAndGo(int i) {
    const std::string name = fmt::format("p{}", i);
    auto pod = MakePod(name)
                   .Gpu(1 + i % 8)
                   .Cpu(fmt::format("{}m", 1 + i % 10'000))
                   .Label("berth.dev/queue", i % 7 == 0 ? "made-up" : "default")
                   .Label("app", fmt::format("a{}", i));
    if (i % 3 == 0) pod.Selector(fmt::format("key{}", i), "value");
    if (i % 5 == 0) pod.Request(fmt::format("example.com/r{}", i), "1");
    if (i % 11 == 0) pod.NotNear("app", fmt::format("a{}", i), "kubernetes.io/hostname");
    if (i % 4 == 0) pod.Gang(fmt::format("g{}", i), 1 + i % 2);
    const kube::Pod object = pod;
    const FilterQuery query{
        .uid = object.meta.uid, .offered = offered, .request_pod = [&object] { return &object; }};
    if (i % 2 == 0) (void)engine.Filter(query, now);  // before the informer knows it
    engine.OnPod(object, now);
    const FilterAnswer answer = engine.Filter(query, now);
    if (!answer.kept.empty() && i % 4 != 0) {
      kube::Pod bound = object;
      bound.node_name = names[answer.kept.front()];
      engine.OnPod(bound, now);
      if (i % 13 == 0) {
        bound.phase = kube::PodPhase::kFailed;
        bound.status_reason = "UnexpectedAdmissionError";
        engine.OnPod(bound, now);
      }
    }
    engine.OnPodDeleted(object.meta.uid, now);
    engine.Step(now);
    (void)engine.TakeActions();
  }
};

// 1,000,000 with BERTH_CHURN=1000000; what a table keeps shows after a few thousand.
TEST_CASE("pods that come and go leave nothing behind", "[unit][engine][bug]") {
  const char* asked = std::getenv("BERTH_CHURN");
  const int pods = asked == nullptr ? 12'000 : std::stoi(asked);
  Churn churn;
  churn.ComeAndGo(0, 6'000);  // the tables fill up to their bounds
  const std::size_t before = churn.Heap();
  churn.ComeAndGo(6'000, 6'000 + pods);
  INFO(before << " bytes, then " << churn.Heap());
  CHECK(churn.Heap() < before + before / 4 + 1'000'000);
  CHECK(churn.engine.store().pods().empty());
  CHECK(churn.engine.store().workloads().empty());
  CHECK(churn.engine.store().resources().size() < 10);
}

}  // namespace
}  // namespace berth::engine
