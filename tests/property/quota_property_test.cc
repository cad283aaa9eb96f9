// What queues keep for themselves is added up along the tree as pods come and go. It must be what a
// walk over all queues finds.
#include <rapidcheck.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "policy/quota.h"
#include "tests/support/builders.h"
#include "tests/support/catch.h"
#include "tests/support/draw.h"
#include "tests/support/planning.h"

namespace berth::policy {
namespace {

using cluster::QueueId;
using testing::In;
using testing::MakeNode;
using testing::MakePod;
using testing::MakePolicy;
using testing::MakeQueue;
using testing::Planning;

std::string Name(int queue) { return "q" + std::to_string(queue); }

/// Each queue is below one before it, or at the top; every other one keeps some of its quota.
config::PolicyConfiguration SomeTree(int queues) {
  std::vector<config::Queue> made;
  for (int i = 0; i < queues; ++i) {
    const int quota = In(0, 6);
    config::Queue queue = MakeQueue(Name(i).c_str(), {"default"}, -1, quota);
    if (const int parent = In(-1, i - 1); parent >= 0) queue.parent = Name(parent);
    if (In(0, 1) == 1) queue.lending_limit[testing::kGpu] = 1000 * In(0, quota);
    made.push_back(std::move(queue));
  }
  auto policy = MakePolicy(made);
  policy.borrowing = true;
  return policy;
}

/// What queues have in use, with a change that a decision makes.
class Walk {
 public:
  Walk(const cluster::Store& store, cluster::ResourceId id) : store_(store), id_(id) {
    for (const QueueId queue : store.queues()) used_[queue] = store.queue(queue).used[id];
  }
  void Take(QueueId queue, std::int64_t amount) {
    for (const QueueId charged : store_.queue(queue).path) used_[charged] += amount;
    taken_ += amount;
  }
  /// On the node, which may hold more than it has.
  void GiveBack(QueueId queue, std::int64_t amount) {
    for (const QueueId charged : store_.queue(queue).path) used_[charged] -= amount;
    given_ += amount;
  }
  /// What `queue` has left of what others lend, or of what it is promised; nullopt: no other queue
  /// keeps anything.
  std::optional<std::int64_t> Left(QueueId queue) const {
    const auto& path = store_.queue(queue).path;
    const auto on = [](QueueId one, const std::vector<QueueId>& some) {
      return std::ranges::find(some, one) != some.end();
    };
    std::map<QueueId, std::int64_t> kept;  // by others
    std::map<QueueId, std::int64_t> below;
    for (const QueueId keeper : store_.keepers()) {
      const std::int64_t most = store_.queue(keeper).kept.front().second;
      const std::int64_t unused =
          std::max<std::int64_t>(0, most - used_.at(keeper) - below[keeper]);
      for (const QueueId above : store_.queue(keeper).path) below[above] += unused;
      if (!on(keeper, path)) kept[keeper] = unused;
    }
    const std::int64_t free =
        std::max<std::int64_t>(0, store_.node(store_.FindNode("n")).free(id_) + given_);
    // The narrowest quota is shared with what others below it keep.
    std::optional<std::int64_t> promised;
    std::int64_t all = 0;
    for (const auto& [keeper, amount] : kept) all += amount;
    if (all == 0) return std::nullopt;
    for (const QueueId charged : path) {
      const std::int64_t quota = store_.queue(charged).quota[id_];
      if (quota == 0) continue;
      std::int64_t left = quota - used_.at(charged);
      std::int64_t others = 0;
      for (const auto& [keeper, amount] : kept) {
        if (!promised && on(charged, store_.queue(keeper).path)) others += amount;
      }
      if (others > 0) left = std::min(left, free - taken_) - others;
      promised = std::min(promised.value_or(left), left);
    }
    return std::max(promised.value_or(-used_.at(queue)), free - taken_ - all);
  }

 private:
  const cluster::Store& store_;
  cluster::ResourceId id_;
  std::map<QueueId, std::int64_t> used_;
  std::int64_t taken_ = 0;
  std::int64_t given_ = 0;
};

void CompareAll(const Planning& t, const QuotaView& view, const Walk& walk) {
  for (const QueueId queue : t.store.queues()) {
    std::vector<std::int64_t> left;  // no queue has a limit
    for (const QuotaView::Allowance& allowance : view.Along(queue)) {
      if (allowance.id == t.gpu()) left.push_back(allowance.left);
    }
    std::vector<std::int64_t> expected;
    if (const auto most = walk.Left(queue)) expected.push_back(*most);
    RC_ASSERT(left == expected);
  }
}

TEST_CASE("what queues keep is added up as a walk over all of them would", "[property][policy]") {
  CHECK(rc::check([] {
    const int queues = In(1, 8);
    Planning t(SomeTree(queues));
    t.Node(MakeNode("n").Gpu(In(0, 40)));
    for (int step = In(0, 20); step > 0; --step) {
      const std::string pod = "p" + std::to_string(In(0, 9));
      if (In(0, 3) == 0) {
        t.store.DeletePod("uid-" + pod);
      } else if (In(0, 9) == 0) {
        t.store.SetPolicy(SomeTree(queues));  // another tree of the same queues
      } else if (t.store.FindPod("uid-" + pod) == nullptr) {
        t.Pod(MakePod(pod).Gpu(In(1, 4)).Queue(Name(In(0, queues - 1))).On("n"));
      }
    }
    QuotaView view(t.store);
    Walk walk(t.store, t.gpu());
    CompareAll(t, view, walk);
    for (int step = In(1, 3); step > 0; --step) {
      const QueueId queue = t.store.FindQueue(Name(In(0, queues - 1)));
      const std::int64_t amount = 1000 * In(1, 4);
      view.Take(queue, {{t.gpu(), amount}});
      walk.Take(queue, amount);
    }
    for (const auto& [uid, pod] : t.store.pods()) {
      if (pod.charged_queue == cluster::kNoQueue || In(0, 2) != 0) continue;
      view.GiveBack(pod);
      for (const auto& [id, amount] : pod.queue_charge) {
        if (id == t.gpu()) walk.GiveBack(pod.charged_queue, amount);
      }
    }
    CompareAll(t, view, walk);
  }));
}

}  // namespace
}  // namespace berth::policy
