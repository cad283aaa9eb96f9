// Which queue gets free room next. Numbers are GPUs.
#include "policy/queue_order.h"

#include <catch2/catch.hpp>

#include "tests/support/builders.h"
#include "tests/support/planning.h"

namespace berth::policy {
namespace {

using testing::MakeNode;
using testing::MakePod;
using testing::MakePolicy;
using testing::MakeQueue;
using testing::Planning;

struct Asker {
  int quota;  ///< -1: none.
  int used;
  int wants;
  int weight = 1;
  int priority = 0;
  int past = -1;   ///< What it held on average; -1: without fairness.halfLife.
  int share = 16;  ///< Its fair share; only read with `past`.
};

struct OrderTest : Planning {
  OrderTest(const Asker& a, const Asker& b, bool borrowing = true)
      : Planning(Policy(a, b, borrowing)) {
    Node(MakeNode("n").Gpu(16));
    if (a.used > 0) Pod(MakePod("a").Gpu(a.used).Queue("a").On("n"));
    if (b.used > 0) Pod(MakePod("b").Gpu(b.used).Queue("b").On("n"));
    first = StandingOf(store, store.FindQueue("a"), Wants(a), PastOf(a, b));
    second = StandingOf(store, store.FindQueue("b"), Wants(b), PastOf(a, b));
  }
  cluster::Demand Wants(const Asker& asker) const {
    if (asker.wants == 0) return {};
    return {{gpu(), asker.wants * 1000}};
  }
  PastUse PastOf(const Asker& a, const Asker& b) const {
    PastUse past;
    if (a.past < 0) return past;
    for (const Asker* asker : {&a, &b}) {
      PastUse::Of& of = past.queues.emplace_back();
      of.held.Add(gpu(), asker->past * 1000);
      of.share.Add(gpu(), asker->share * 1000);
    }
    return past;
  }
  static config::PolicyConfiguration Policy(const Asker& a, const Asker& b, bool borrowing) {
    auto policy = MakePolicy(
        {MakeQueue("a", {"default"}, -1, a.quota), MakeQueue("b", {"default"}, -1, b.quota)});
    policy.borrowing = borrowing;
    policy.queues[0].weight = a.weight * 1000;
    policy.queues[1].weight = b.weight * 1000;
    policy.queues[0].priority = a.priority;
    policy.queues[1].priority = b.priority;
    return policy;
  }
  Standing first, second;
};

struct Row {
  const char* what;
  Asker a, b;
  int before;  ///< 1: a comes first; -1: b does; 0: age decides.
};

void CheckRows(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    INFO(row.what);
    const OrderTest t(row.a, row.b);
    CHECK((t.first < t.second) == (row.before == 1));
    CHECK((t.second < t.first) == (row.before == -1));
  }
}

TEST_CASE("claims within quota come first, then the queue that has least beyond it",
          "[unit][policy]") {
  CheckRows({
      {"within quota, to the last GPU", {4, 3, 1}, {-1, 0, 1}, 1},
      {"one more is beyond it", {4, 3, 2}, {-1, 0, 1}, 0},
      {"both within: nothing else counts", {8, 1, 1}, {4, 3, 1}, 0},
      {"both within: priority", {8, 1, 1, 1, 0}, {4, 3, 1, 1, 2}, -1},
      {"least beyond, the job counted", {4, 4, 2}, {4, 5, 2}, 1},
      {"a small job of who has more", {-1, 2, 1}, {-1, 0, 4}, 1},
      {"twice the weight, twice as much", {-1, 3, 1, 2}, {-1, 1, 1, 1}, 0},
      {"one more", {-1, 4, 1, 2}, {-1, 1, 1, 1}, -1},
      {"priority counts between equals", {-1, 1, 1, 1, 0}, {-1, 1, 1, 1, 1}, -1},
      {"and only there", {-1, 1, 1, 1, 0}, {-1, 2, 1, 1, 9}, 1},
      {"without weight: last", {-1, 0, 1, 0}, {-1, 9, 4, 1}, -1},
      {"but not within quota", {2, 0, 1, 0}, {-1, 0, 1, 9}, 1},
      {"two without weight", {-1, 0, 1, 0}, {-1, 1, 1, 0}, 1},
      {"who asks for no device", {-1, 9, 0}, {-1, 0, 1}, 1},
  });
}

// quota, used, wants, weight, priority, past, share
TEST_CASE("with a half-life the past counts as much as the present", "[unit][policy]") {
  CheckRows({
      // (8 + 1) / 2 against (0 + 1) / 2
      {"who held more comes later", {-1, 0, 1, 1, 0, 8}, {-1, 0, 1, 1, 0, 0}, -1},
      // (0 + 9) / 2 against (8 + 1) / 2
      {"who holds as much more now", {-1, 8, 1, 1, 0, 0}, {-1, 0, 1, 1, 0, 8}, 0},
      {"and one more", {-1, 9, 1, 1, 0, 0}, {-1, 0, 1, 1, 0, 8}, -1},
      {"within quota it does not count", {4, 3, 1, 1, 0, 16}, {-1, 0, 1, 1, 0, 0}, 1},
      // (6 + 10) / 2 = 8 is its quota; (7 + 10) / 2 is not.
      {"what it was promised is no debt", {8, 8, 2, 1, 0, 6}, {8, 8, 2, 1, 0, 7}, 1},
      {"twice the weight", {-1, 0, 1, 2, 0, 7}, {-1, 0, 1, 1, 0, 3}, 0},
      {"priority counts between equals", {-1, 0, 1, 1, 0, 3}, {-1, 0, 1, 1, 1, 3}, -1},
  });
}

// quota, used, wants, weight, priority, past, share
TEST_CASE("a queue that would lose the room by a fair share yields", "[unit][policy]") {
  const auto yields = [](const Asker& a, const Asker& b) {
    const OrderTest t(a, b);
    return Yields(t.first, t.second);
  };
  CHECK(yields({-1, 4, 1, 1, 0, 0, 4}, {-1, 3, 1, 1, 0, 9, 4}));
  CHECK_FALSE(yields({-1, 4, 1, 1, 0, 0, 5}, {-1, 3, 1, 1, 0, 9, 4}));  // within its own share
  CHECK_FALSE(yields({-1, 4, 1, 1, 0, 0, 4}, {-1, 3, 2, 1, 0, 9, 4}));  // so is not the other one
  CHECK_FALSE(yields({-1, 4, 1, 1, 0, 0, 4}, {-1, 4, 1, 1, 0, 9, 5}));  // not among equals
  CHECK(yields({-1, 4, 1, 1, 0, 0, 4}, {-1, 4, 1, 2, 0, 9, 5}));        // but for its weight
  CHECK_FALSE(yields({5, 4, 1, 1, 0, 0, 4}, {-1, 3, 1, 1, 0, 9, 4}));   // within its quota
  CHECK_FALSE(yields({-1, 4, 1}, {-1, 3, 1}));                          // without a half-life
}

TEST_CASE("without borrowing all queues rank equal", "[unit][policy]") {
  const OrderTest t({4, 4, 2, 1, 0}, {8, 0, 1, 3, 5}, /*borrowing=*/false);
  CHECK(t.first == t.second);
}

// 8 GPUs and 80 NICs: `a` has 2 of 8 GPUs, `b` 10 of 80 NICs.
TEST_CASE("of several kinds of devices the dominant one counts", "[unit][policy]") {
  auto policy = MakePolicy({MakeQueue("a", {"*"}), MakeQueue("b", {"*"})});
  policy.borrowing = true;
  policy.devices.push_back({.name = "example.com/nic"});
  Planning t(policy);
  kube::Node node = MakeNode("n").Gpu(8);
  node.allocatable["example.com/nic"] = 80'000;
  t.Node(node);
  const cluster::ResourceId nic = t.store.device_ids().back();
  const auto before = [&](std::int64_t gpus, std::int64_t nics) {
    return StandingOf(t.store, 0, {{t.gpu(), gpus * 1000}}, {}) <
           StandingOf(t.store, 1, {{nic, nics * 1000}}, {});
  };
  CHECK(before(2, 21));
  CHECK_FALSE(before(2, 20));  // a quarter of either
  CHECK_FALSE(before(2, 10));
}

TEST_CASE("the largest part of any kind of devices", "[unit][policy]") {
  CHECK(LargestPart({3'000}, {16'000}) == 3'000);
  CHECK(LargestPart({3'000}, {0}) == 3'000);
  CHECK(LargestPart({4'000, 1'000}, {16'000, 4'000}) == 250'000'000);
  CHECK(LargestPart({4'000, 2'000}, {16'000, 4'000}) == 500'000'000);
  CHECK(LargestPart({0, 0}, {16'000, 4'000}) == 0);
}

TEST_CASE("what a user would have of a queue with a job", "[unit][policy]") {
  auto policy = MakePolicy({MakeQueue("a", {"*"})});
  policy.queues[0].fair_within = config::FairWithin::kUser;
  Planning t(policy);
  t.Node(MakeNode("n").Gpu(16));
  t.Pod(MakePod("p").Gpu(3).Queue("a").Label("berth.dev/user", "ann").On("n"));
  CHECK(HeldBy(t.store, 0, "ann", {}) == DeviceAmounts{3'000});
  CHECK(HeldBy(t.store, 0, "ann", {{t.gpu(), 2'000}}) == DeviceAmounts{5'000});
  CHECK(HeldBy(t.store, 0, "bob", {{t.gpu(), 2'000}}) == DeviceAmounts{2'000});
  CHECK(TotalDevices(t.store) == DeviceAmounts{16'000});
}

}  // namespace
}  // namespace berth::policy
