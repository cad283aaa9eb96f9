// Which waiting work autoscalers see (engine/shown_work.h), against plain counting: as much as
// quotas cover, and no more.
#include <fmt/format.h>
#include <rapidcheck.h>

#include <map>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/draw.h"
#include "tests/support/world.h"

namespace berth::engine {
namespace {

using testing::In;
using testing::MakeNode;
using testing::MakePod;
using testing::MakePolicy;
using testing::MakeQueue;
using testing::World;

std::string Name(int queue) { return fmt::format("q{}", queue); }

/// Each queue is below one before it, or at the top. Nobody evicts anybody.
config::PolicyConfiguration SomeTree(int queues) {
  std::vector<config::Queue> made;
  for (int i = 0; i < queues; ++i) {
    config::Queue queue = MakeQueue(Name(i), {"default"}, -1, In(0, 2) == 0 ? -1 : In(0, 9));
    if (const int parent = In(-1, i - 1); parent >= 0) queue.parent = Name(parent);
    queue.preemption = {.within = config::Within::kNever, .reclaim = config::Reclaim::kNever};
    made.push_back(std::move(queue));
  }
  config::PolicyConfiguration policy = MakePolicy(made);
  policy.borrowing = true;
  return policy;
}

struct Work {
  std::string first;  ///< Its first pod.
  int queue = 0;
  int members = 1;
  int gpus = 1;  ///< Of each member.
};

/// What counts against the quota of each queue: what is bound or planned, and what waits without a
/// gate.
class Count {
 public:
  Count(World& world, const std::vector<Work>& all, const config::PolicyConfiguration& policy)
      : policy_(policy) {
    for (const Work& work : all) {
      const bool gated = !world.pod(work.first).scheduling_gates.empty();
      if (gated && world.Planned(work.first).empty()) continue;
      for (const int queue : PathOf(work.queue)) counted_[queue] += work.members * work.gpus;
    }
  }
  std::vector<int> PathOf(int queue) const {
    std::vector<int> path{queue};
    while (!At(path.back()).parent.empty())
      path.push_back(std::stoi(At(path.back()).parent.substr(1)));
    return path;
  }
  /// Whether the quotas on its path cover `more` as well; false if there is none.
  bool Covers(int queue, int more) const {
    bool any = false;
    for (const int charged : PathOf(queue)) {
      const auto quota = At(charged).quota.find(testing::kGpu);
      if (quota == At(charged).quota.end() || quota->second == 0) continue;
      any = true;
      const auto counted = counted_.find(charged);
      const int has = counted == counted_.end() ? 0 : counted->second;
      if (1000 * (has + more) > quota->second) return false;
    }
    return any;
  }

 private:
  const config::Queue& At(int queue) const {
    return policy_.queues[static_cast<std::size_t>(queue)];
  }

  const config::PolicyConfiguration& policy_;
  std::map<int, int> counted_;
};

void Settle(World& world) {
  for (int i = 0; i < 4; ++i) {
    world.Tick();
    world.Advance(1'001);
  }
}

TEST_CASE("autoscalers see as much of the waiting work as quotas cover", "[property][engine]") {
  CHECK(rc::check([] {
    const int queues = In(1, 5);
    const config::PolicyConfiguration policy = SomeTree(queues);
    World world(policy);
    world.Add(MakeNode("n").Gpu(8));
    world.Start();
    std::vector<Work> all;
    const auto add = [&](int count, int most_gpus) {
      for (; count > 0; --count) {
        Work work{.first = fmt::format("p{}", all.size()),
                  .queue = In(0, queues - 1),
                  .members = In(0, 2) == 0 ? In(2, 3) : 1,
                  .gpus = In(most_gpus < 9 ? 1 : 9, most_gpus)};
        for (int i = 0; i < work.members; ++i) {
          const std::string name = i == 0 ? work.first : fmt::format("{}-{}", work.first, i);
          auto pod = MakePod(name).Gpu(work.gpus).Queue(Name(work.queue)).Gated();
          if (work.members > 1) pod.Gang("g" + work.first, work.members);
          world.Add(pod);
        }
        all.push_back(work);
      }
    };
    add(In(1, 12), 4);
    Settle(world);
    if (In(0, 1) == 1) {
      world.Restart();
      add(In(0, 4), 9);  // none of these starts, which would change what the others may
      Settle(world);
    }
    const Count count(world, all, policy);
    for (const Work& work : all) {
      if (!world.Planned(work.first).empty()) continue;
      const bool gated = !world.pod(work.first).scheduling_gates.empty();
      // Those that were shown are counted already.
      RC_LOG() << work.first << " of " << Name(work.queue) << ": " << work.members << " x "
               << work.gpus << (gated ? " gated" : " shown") << '\n';
      RC_ASSERT(count.Covers(work.queue, gated ? work.members * work.gpus : 0) != gated);
    }
  }));
}

}  // namespace
}  // namespace berth::engine
