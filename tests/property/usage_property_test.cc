// What queues and users have used is counted change by change. It must be the sum, second by
// second, of what they hold; and a restart in between may change nothing for what runs.
#include <rapidcheck.h>

#include <map>
#include <string>
#include <utility>

#include "cluster/store.h"
#include "tests/support/builders.h"
#include "tests/support/catch.h"
#include "tests/support/draw.h"

namespace berth::cluster {
namespace {

using testing::In;
using testing::kGpu;
using testing::MakeNode;
using testing::MakePod;
using testing::MakePolicy;
using testing::MakeQueue;

config::PolicyConfiguration SomePolicy() {
  auto policy = MakePolicy({MakeQueue("q0", {"*"}), MakeQueue("q1", {"*"})});
  if (In(0, 2) > 0) policy.queues.push_back(MakeQueue("q2", {"*"}));
  const int below = In(0, 2);
  if (below == 1) policy.queues[0].parent = "q1";
  if (below == 2) policy.queues[1].parent = "q0";
  policy.devices = {{.name = kGpu}};
  return policy;
}

using Sums = std::map<std::pair<std::string, std::string>, std::int64_t>;  // by queue and user

class Walk {
 public:
  Walk() : store_(SomePolicy()) {
    store_.UpsertNode(MakeNode("n").Gpu(64));
    store_.BeginUsage({});
  }

  void Step() {
    Pass(In(0, 5));
    const std::string name = "p" + std::to_string(In(0, 7));
    const PodInfo* pod = store_.FindPod("uid-" + name);
    switch (In(0, 7)) {
      case 0:
        return (void)store_.SetPolicy(SomePolicy());
      case 1:
        return store_.DeletePod("uid-" + name);
      case 2:
        return Restart();
      case 3:
        if (pod != nullptr && pod->charge == Charge::kNone && pod->workload != nullptr) {
          store_.SetCharge(*pod, store_.FindNode("n"), Charge::kPlanned);
        }
        return;
      case 4:
        if (pod == nullptr || pod->bound()) return;
        return Bind(pod->object);
      default:
        if (pod == nullptr) store_.UpsertPod(SomePod(name));
    }
  }

  Sums Counted() const {
    Sums sums;
    const UsageRecord record = *store_.UsageUntil(now_);
    for (const auto* entries : {&record.queues, &record.users}) {
      for (const UsageEntry& entry : *entries) {
        for (const auto& [resource, used] : entry.used) {
          if (used != 0) sums[{entry.queue, entry.user}] += used;
        }
      }
    }
    return sums;
  }
  const Sums& Summed() const { return summed_; }

 private:
  void Bind(kube::Pod pod) {
    pod.node_name = "n";
    pod.pod_scheduled =
        kube::PodScheduled{.status = true, .reason = {}, .message = {}, .since = now_};
    store_.UpsertPod(pod);
  }
  /// A second passes: everybody gets what they hold.
  void Pass(int seconds) {
    for (const auto& [uid, pod] : store_.pods()) {
      if (pod.charge != Charge::kBound || pod.charged_queue == kNoQueue) continue;
      std::int64_t gpus = 0;
      for (const auto& [id, amount] : pod.charged) {
        if (store_.resources().Name(id) == kGpu) gpus = amount;
      }
      if (gpus * seconds == 0) continue;
      const QueueInfo& queue = store_.queue(pod.charged_queue);
      summed_[{queue.config.name, pod.user}] += gpus * seconds;
      for (const QueueId id : queue.path)
        summed_[{store_.queue(id).config.name, ""}] += gpus * seconds;
    }
    now_ += 1000 * seconds;
    store_.SetTime(now_);
  }
  /// Counting begins again from what was written a while ago, when everything ran that runs now.
  void Restart() {
    const UsageRecord record = *store_.UsageUntil(now_);
    Pass(In(0, 3));
    store_.BeginUsage(record);
  }
  kube::Pod SomePod(const std::string& name) {
    auto pod = MakePod(name).Created(++created_).Ns(In(0, 1) == 0 ? "a" : "b");
    if (In(0, 3) > 0) pod.Gpu(In(1, 4));
    if (In(0, 2) > 0) pod.Label("berth.dev/user", In(0, 1) == 0 ? "ann" : "bob");
    return pod.Queue("q" + std::to_string(In(0, 2)));
  }

  Store store_;
  TimePoint now_ = 1'000'000;
  Sums summed_;
  kube::Millis created_ = 0;
};

TEST_CASE("use is what a sum over all seconds finds", "[property][cluster]") {
  CHECK(rc::check([] {
    Walk walk;
    for (int step = In(1, 60); step > 0; --step) {
      walk.Step();
      RC_ASSERT(walk.Counted() == walk.Summed());
    }
  }));
}

}  // namespace
}  // namespace berth::cluster
