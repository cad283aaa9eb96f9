// Who may take room from whom, by hand-worked numbers of GPUs. The node has 16.
#include "policy/claims.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "policy/queue_demand.h"
#include "tests/support/builders.h"
#include "tests/support/planning.h"

namespace berth::policy {
namespace {

using cluster::PodInfo;
using testing::MakeNode;
using testing::MakePod;
using testing::MakePolicy;
using testing::MakeQueue;
using testing::Planning;

struct QueueRow {
  std::string name;
  int quota = -1;
  std::string parent{};
  std::int64_t weight = 1'000;
};

struct ClaimsTest : Planning {
  explicit ClaimsTest(const std::vector<QueueRow>& queues) : Planning(PolicyOf(queues)) {
    Node(MakeNode("n").Gpu(16));
  }
  explicit ClaimsTest(config::PolicyConfiguration policy) : Planning(std::move(policy)) {}
  static config::PolicyConfiguration PolicyOf(const std::vector<QueueRow>& rows) {
    std::vector<config::Queue> queues;
    for (const QueueRow& row : rows) {
      queues.push_back(MakeQueue(row.name, {row.name}, -1, row.quota));
      queues.back().parent = row.parent;
      queues.back().weight = row.weight;
    }
    config::PolicyConfiguration policy = MakePolicy(queues);
    policy.borrowing = true;
    return policy;
  }
  /// A pod of the queue that runs.
  const PodInfo* Running(const std::string& queue, int gpus) {
    return &Pod(MakePod(fmt::format("r{}", ++pods_)).Ns(queue).Gpu(gpus).On("n"));
  }
  const PodInfo* Waiting(const std::string& queue, int gpus) {
    return &Pod(MakePod(fmt::format("w{}", ++pods_)).Ns(queue).Gpu(gpus));
  }
  Exchange For(const std::string& queue) {
    store.Refresh();
    QueueDemands demands;
    for (const auto& [key, workload] : store.workloads()) demands.Add(store, workload);
    shares = FairShareTable(store, demands.TreeOf(store));
    const QuotaView use(store);
    return {shares, use, use, store.FindQueue(queue)};
  }
  std::optional<int> Straddlers(const std::string& queue, std::vector<const PodInfo*> lost) {
    const Exchange exchange = For(queue);
    const std::vector<Loss> losses = LossesOf(lost);
    Losable losable(exchange);
    for (const Loss& loss : losses) {
      const std::optional<int> alone = exchange.Straddlers({&loss, 1});
      CHECK(losable(loss) == alone.has_value());
      CHECK(losable.IsWhole(loss) == (alone == 0));
    }
    return exchange.Straddlers(losses);
  }
  Claim ClaimFor(const std::string& queue, const PodInfo* waiting,
                 std::vector<const PodInfo*> lost) {
    const Exchange exchange = For(queue);
    const Placed placed{.pod = waiting, .node = node("n")};
    const std::vector<Loss> losses = LossesOf(lost);
    const QuotaView use = exchange.UseWithout(losses);
    const Claim claim = exchange.ClaimOf({&placed, 1}, losses, use);
    CHECK(exchange.BestClaimOf(waiting->shape->demand, losses, use) == claim);
    return claim;
  }
  Reach ReachOf(const std::string& queue, const PodInfo* waiting, std::vector<const PodInfo*> all) {
    of_reach.emplace(For(queue));
    return Reach(*of_reach, waiting->shape->demand, LossesOf(all));
  }
  /// Each pod is a job.
  std::vector<Loss> LossesOf(const std::vector<const PodInfo*>& pods) {
    kept = pods;
    std::vector<Loss> losses;
    for (const PodInfo* const& pod : kept) {
      losses.push_back({.queue = pod->charged_queue, .pods = {&pod, 1}});
    }
    return losses;
  }

  FairShareTable shares;
  std::optional<Exchange> of_reach;
  std::vector<const PodInfo*> kept;
  int pods_ = 0;
};

TEST_CASE("a claim by quota ends at the quota, one by share at the fair share", "[unit][policy]") {
  ClaimsTest t({{"a", 4}, {"b", 4}, {"c"}});
  const PodInfo* lost = t.Running("a", 12);
  t.Running("b", 3);
  const PodInfo* one = t.Waiting("b", 1);
  const PodInfo* two = t.Waiting("b", 2);
  CHECK(t.ClaimFor("b", one, {lost}) == Claim::kQuota);      // 3 + 1 = 4 of 4
  CHECK(t.ClaimFor("b", two, {lost}) == Claim::kFairShare);  // 5, and b asks for 3 + 1 + 2 in all
  const PodInfo* none = t.Waiting("c", 1);
  CHECK(t.ClaimFor("c", none, {lost}) == Claim::kFairShare);
  const PodInfo* all = t.Waiting("c", 16);  // more than its share can be
  CHECK(t.ClaimFor("c", all, {lost}) == Claim::kNone);
}

TEST_CASE("without weight there is no claim beyond the quota", "[unit][policy]") {
  ClaimsTest t({{"a", 4}, {"b", 4, "", 0}});
  const PodInfo* lost = t.Running("a", 12);
  t.Running("b", 4);
  CHECK(t.ClaimFor("b", t.Waiting("b", 1), {lost}) == Claim::kNone);
}

TEST_CASE("for a fair share nothing is exchanged among equals", "[unit][policy]") {
  ClaimsTest t({{"a"}, {"b"}});
  const PodInfo* lost = t.Running("b", 12);
  // Only one of them can have its job. The share is that of `a`, by name; but as much as `a` would
  // have with it, `b` has now.
  CHECK(t.ClaimFor("a", t.Waiting("a", 12), {lost}) == Claim::kNone);
  CHECK(t.ClaimFor("a", t.Waiting("a", 4), {lost}) == Claim::kFairShare);
}

TEST_CASE("out of reach is a queue that would lose by no claim, whichever others lose",
          "[unit][policy]") {
  ClaimsTest t({{"d", 8, "", 0}, {"a", 4, "d"}, {"b", 0, "d"}, {"c", 0}});
  const PodInfo* borrowed = t.Running("b", 4);
  const PodInfo* other = t.Running("c", 8);
  t.Running("a", 4);
  const PodInfo* waiting = t.Waiting("a", 2);
  const cluster::QueueId b = t.store.FindQueue("b");
  const cluster::QueueId c = t.store.FindQueue("c");
  // `a` has its quota, and its fair share is 6 of the 8 that `b` and it have.
  CHECK(t.ReachOf("a", waiting, {borrowed, other}).Of(b) == Claim::kFairShare);
  // With the job `d` would have 10 of 8, unless `b` loses, too.
  CHECK(t.ReachOf("a", waiting, {other}).Of(c) == Claim::kNone);
  CHECK(t.ReachOf("a", waiting, {borrowed, other}).Of(c) != Claim::kNone);
  CHECK(t.ClaimFor("a", waiting, {other}) == Claim::kNone);
  CHECK(t.ClaimFor("a", waiting, {borrowed, other}) != Claim::kNone);
}

TEST_CASE("no queue is taken below the larger of quota and fair share", "[unit][policy]") {
  ClaimsTest t({{"a", 6, "", 0}, {"b", 10, "", 0}});
  const PodInfo* four = t.Running("a", 4);
  const PodInfo* two = t.Running("a", 2);
  const PodInfo* other = t.Running("a", 2);
  t.Waiting("b", 10);
  CHECK(t.Straddlers("b", {two}) == 0);          // 6 of 6 stay
  CHECK(t.Straddlers("b", {four}) == 1);         // 4 stay, 6 would be more: 8 > 6
  CHECK_FALSE(t.Straddlers("b", {two, other}));  // 4 stay: without either of them it has its 6
  CHECK_FALSE(t.Straddlers("b", {four, two}));   // 2 stay, and 2 + 4 = 6 is not above the floor
  CHECK(t.Straddlers("b", {}) == 0);
}

TEST_CASE("a straddler leaves its queue below its floor", "[unit][policy]") {
  ClaimsTest t({{"a", 6, "", 0}, {"b", 10, "", 0}});
  const PodInfo* four = t.Running("a", 4);
  const PodInfo* two = t.Running("a", 2);
  t.Running("a", 2);
  t.Waiting("b", 10);
  const Exchange exchange = t.For("b");
  CHECK(exchange.UndercutBy(t.LossesOf({two})).empty());  // 6 of 6 stay
  const std::vector<Undercut> undercut = exchange.UndercutBy(t.LossesOf({four}));
  REQUIRE(undercut.size() == 1);  // 4 stay
  CHECK(undercut.front().of == Claimant{.queue = t.store.FindQueue("a")});
  CHECK(undercut.front().floor == 6'000);
}

TEST_CASE("a straddler excuses no job that its queue's quota covers", "[unit][policy]") {
  ClaimsTest t({{"a", 1, "", 0}, {"b", 8, "", 0}});
  const PodInfo* three = t.Running("a", 3);
  const PodInfo* one = t.Running("a", 1);
  t.Waiting("b", 8);
  CHECK(t.Straddlers("b", {three}) == 0);        // 1 of 1 stays
  CHECK(t.Straddlers("b", {one}) == 0);          // 3 stay
  CHECK_FALSE(t.Straddlers("b", {three, one}));  // the second one could have stayed
}

TEST_CASE("what is only planned counts for the claimant, and for no floor", "[unit][policy]") {
  ClaimsTest t({{"a", 2, "", 0}, {"b", 8, "", 0}});
  const PodInfo* two = t.Running("a", 2);
  const PodInfo* planned = t.Running("a", 4);
  t.For("b");
  const QuotaView use(t.store);
  QuotaView running(t.store);
  running.GiveBack(*planned);
  const Exchange exchange(t.shares, use, running, t.store.FindQueue("b"));
  CHECK_FALSE(exchange.Straddlers(t.LossesOf({two})));  // 2 of 2 run
  CHECK(exchange.Excess(t.store.FindQueue("a")) == 0);
}

TEST_CASE("jobs of the own queue meet no floor", "[unit][policy]") {
  ClaimsTest t({{"a", 8}, {"b", 8}});
  const PodInfo* own = t.Running("b", 8);
  CHECK(t.Straddlers("b", {own}) == 0);
  CHECK(t.ClaimFor("b", t.Waiting("b", 16), {own}) == Claim::kQuota);  // it takes from nobody else
}

TEST_CASE("only levels below the common ancestor count", "[unit][policy]") {
  //   d: quota 8           e: quota 8
  //   a: -   b: quota 4    c: quota 8
  ClaimsTest t({{"d", 8}, {"e", 8}, {"a", -1, "d"}, {"b", 4, "d"}, {"c", 8, "e"}});
  const PodInfo* sibling = t.Running("a", 10);
  const PodInfo* lost = t.Running("c", 6);
  const PodInfo* waiting = t.Waiting("b", 4);
  // Inside d: b would have 4 of 4. d has 10 > 8 whoever of its teams holds them.
  CHECK(t.ClaimFor("b", waiting, {sibling}) == Claim::kQuota);
  CHECK(t.Straddlers("b", {sibling}).has_value());
  // Across departments d would have 14: more than its quota, and more than it has a share of.
  CHECK(t.ClaimFor("b", waiting, {lost}) == Claim::kNone);
  CHECK_FALSE(t.Straddlers("b", {lost}));  // c has 6 of its 8
}

TEST_CASE("the own work of a parent is a sibling of its children with a quota of 0",
          "[unit][policy]") {
  ClaimsTest t({{"p", 16}, {"c", 4, "p"}});
  const PodInfo* own = t.Running("p", 8);
  t.Running("p", 8);
  const PodInfo* child = t.Waiting("c", 4);
  CHECK(t.ClaimFor("c", child, {own}) == Claim::kQuota);
  CHECK(t.Straddlers("c", {own}).has_value());
  // The other way round it has no quota: only its fair share, 16 - 4.
  const PodInfo* more = t.Waiting("p", 4);
  t.Running("c", 4);
  CHECK(t.ClaimFor("p", more, {t.Running("c", 1)}) == Claim::kNone);
}

TEST_CASE("against other queues the quota of a parent covers its own work", "[unit][policy]") {
  ClaimsTest t({{"p", 4}, {"c", -1, "p"}, {"o", -1}});
  const PodInfo* lost = t.Running("o", 12);
  t.Running("p", 3);
  CHECK(t.ClaimFor("p", t.Waiting("p", 1), {lost}) == Claim::kQuota);  // p has 3 + 1 of 4
  CHECK(t.ClaimFor("c", t.Waiting("c", 1), {lost}) == Claim::kQuota);  // c has none, p 3 + 1
  CHECK(t.ClaimFor("p", t.Waiting("p", 2), {lost}) == Claim::kFairShare);
}

/// Node h of flavor h100 has 16 GPUs, node a of flavor a100 has 16.
struct FlavoredClaims : ClaimsTest {
  struct Row {
    std::string name;
    int h100 = 0;
    int a100 = 0;
    int total = -1;
    std::int64_t weight = 1'000;
  };
  explicit FlavoredClaims(const std::vector<Row>& rows) : ClaimsTest(PolicyWith(rows)) {
    Node(MakeNode("h").Gpu(16).Label("gpu", "h100"));
    Node(MakeNode("a").Gpu(16).Label("gpu", "a100"));
  }
  static config::PolicyConfiguration PolicyWith(const std::vector<Row>& rows) {
    std::vector<config::Queue> queues;
    for (const Row& row : rows) {
      config::Queue queue = MakeQueue(row.name, {row.name}, -1, row.total);
      for (const auto& [flavor, gpus] :
           {std::pair("h100", row.h100), std::pair("a100", row.a100)}) {
        if (gpus == 0) continue;
        queue.quotas.push_back({.flavor = flavor, .quota = {{"nvidia.com/gpu", gpus * 1'000}}});
      }
      queue.weight = row.weight;
      queues.push_back(queue);
    }
    config::PolicyConfiguration policy = MakePolicy(queues);
    policy.borrowing = true;
    policy.devices = {{.name = "nvidia.com/gpu"}, {.name = "example.com/fpga"}};
    policy.flavors = {{.name = "h100", .node_selector = {{"gpu", "h100"}}},
                      {.name = "a100", .node_selector = {{"gpu", "a100"}}}};
    return policy;
  }
  const PodInfo* RunningOn(const std::string& node, const std::string& queue, int gpus) {
    return &Pod(MakePod(fmt::format("f{}", ++pods_)).Ns(queue).Gpu(gpus).On(node));
  }
  Claim ClaimOn(const std::string& on, const std::string& queue, int gpus,
                std::vector<const PodInfo*> lost) {
    const PodInfo* waiting = Waiting(queue, gpus);
    const Exchange exchange = For(queue);
    const Placed placed{.pod = waiting, .node = node(on)};
    const std::vector<Loss> losses = LossesOf(lost);
    return exchange.ClaimOf({&placed, 1}, losses, exchange.UseWithout(losses));
  }
};

TEST_CASE("what is promised of a flavor is claimed on its nodes", "[unit][policy]") {
  FlavoredClaims t({{.name = "a", .a100 = 8}, {.name = "b", .h100 = 8}});
  const PodInfo* lent = t.RunningOn("h", "a", 8);
  t.RunningOn("h", "a", 8);
  t.RunningOn("a", "b", 12);  // borrowed: it takes nothing from the promise on h100
  CHECK(t.ClaimOn("h", "b", 8, {lent}) == Claim::kQuota);
  CHECK(t.ClaimOn("h", "b", 9, {lent}) == Claim::kNone);
  // What a has of h100 is no part of the 8 that it is promised of a100.
  CHECK(t.Straddlers("b", {lent}) == 0);
  CHECK(t.For("b").Excess(t.store.FindQueue("a")) == 8'000);  // its fair share is 16, so 8 beyond
  CHECK(t.For("b").Lacks());
}

TEST_CASE("what is promised of a flavor is not taken", "[unit][policy]") {
  FlavoredClaims t({{.name = "a", .h100 = 4, .weight = 0}, {.name = "b", .h100 = 12}});
  const PodInfo* first = t.RunningOn("h", "a", 4);
  const PodInfo* second = t.RunningOn("h", "a", 4);
  CHECK(t.ClaimOn("h", "b", 4, {first}) == Claim::kQuota);
  CHECK(t.Straddlers("b", {first}) == 0);           // 4 of 4 are left
  CHECK_FALSE(t.Straddlers("b", {first, second}));  // 0 of 4
}

TEST_CASE("a quota in total covers what goes beyond those of flavors", "[unit][policy]") {
  FlavoredClaims t({{.name = "a", .a100 = 4, .total = 6}, {.name = "b", .h100 = 16}});
  const PodInfo* three = t.RunningOn("h", "a", 3);
  const PodInfo* two = t.RunningOn("h", "a", 2);
  // 6 in total are 4 of a100, and 2 of any.
  CHECK(t.Straddlers("b", {three}) == 0);
  CHECK(t.Straddlers("b", {two}) == 0);
  CHECK_FALSE(t.Straddlers("b", {three, two}));
}

TEST_CASE("a job without devices of that kind straddles no floor of them", "[unit][policy][bug]") {
  FlavoredClaims t({{.name = "a", .a100 = 4, .total = 6, .weight = 0}, {.name = "b", .h100 = 16}});
  t.Node(MakeNode("f").Allocatable("example.com/fpga", 4'000));
  const PodInfo* straddler = t.RunningOn("h", "a", 4);  // from 4 to 0, and 2 are of any flavor
  // Of weight 0 and without a quota of these, its queue may keep none.
  const PodInfo* other = &t.Pod(MakePod("o").Ns("a").Request("example.com/fpga", "1").On("f"));
  CHECK(t.Straddlers("b", {other}) == 0);
  CHECK(t.Straddlers("b", {straddler, other}) == 1);
}

TEST_CASE("no claim is better than the best one that was to be expected", "[unit][policy]") {
  const int h100 = GENERATE(0, 4, 8);
  const int a100 = GENERATE(0, 4);
  const int total = GENERATE(-1, 12);
  const int on_h = GENERATE(0, 4);
  const int on_a = GENERATE(0, 4);
  FlavoredClaims t({{.name = "c"}, {.name = "b", .h100 = h100, .a100 = a100, .total = total}});
  std::vector<const PodInfo*> lost{t.RunningOn("h", "c", 8), t.RunningOn("a", "c", 8)};
  if (on_h > 0) t.RunningOn("h", "b", on_h);
  if (on_a > 0) t.RunningOn("a", "b", on_a);
  for (const int gpus : {1, 4, 9}) {
    const PodInfo* waiting = t.Waiting("b", gpus);
    const Exchange exchange = t.For("b");
    const cluster::Demand& wants = waiting->shape->demand;
    for (const char* node : {"h", "a"}) {
      const Placed placed{.pod = waiting, .node = t.node(node)};
      const std::vector<Loss> losses = t.LossesOf(lost);
      const QuotaView use = exchange.UseWithout(losses);
      const Claim claim = exchange.ClaimOf({&placed, 1}, losses, use);
      CHECK(claim <= exchange.BestClaimOf(wants, losses, use));
      CHECK(claim <= Reach(exchange, wants, t.LossesOf(lost)).Of(t.store.FindQueue("c")));
      CHECK((claim == Claim::kNone || exchange.MayClaim(wants)));
    }
  }
}

TEST_CASE("two queues without a promise on a flavor do not exchange it", "[unit][policy]") {
  FlavoredClaims t({{.name = "a", .a100 = 8}, {.name = "b", .a100 = 8}});
  const PodInfo* of_a = t.RunningOn("h", "a", 8);
  const PodInfo* of_b = t.RunningOn("h", "b", 8);
  CHECK(t.ClaimOn("h", "b", 1, {of_a}) == Claim::kNone);
  CHECK(t.ClaimOn("h", "a", 1, {of_b}) == Claim::kNone);
}

TEST_CASE("jobs that are taken one after the other never pass a floor", "[unit][policy]") {
  ClaimsTest t({{"a", 4, "", 0}, {"b", 12, "", 0}});
  std::vector<const PodInfo*> jobs;
  for (int i = 0; i < 4; ++i) jobs.push_back(t.Running("a", 3));  // 12, 8 above the quota
  t.Waiting("b", 12);
  const Exchange exchange = t.For("b");
  const auto losses = t.LossesOf(jobs);
  Floors floors(exchange);
  CHECK(floors.Take(losses[0], false));        // 9
  CHECK(floors.Take(losses[1], false));        // 6
  CHECK_FALSE(floors.Take(losses[2], false));  // 3 < 4
  CHECK(floors.Take(losses[2], true));         // it reaches from 6 to 3
  CHECK_FALSE(floors.Take(losses[3], true));   // the second one at that floor
}

TEST_CASE("the excess is what is above quota and share, and what lacks is below",
          "[unit][policy]") {
  ClaimsTest t({{"a", 4, "", 0}, {"b", 4, "", 0}});
  t.Running("a", 6);
  t.Running("b", 3);
  const Exchange exchange = t.For("b");
  CHECK(exchange.Excess(t.store.FindQueue("a")) == 2'000);
  CHECK(exchange.Excess(t.store.FindQueue("b")) == 0);
  CHECK(exchange.Lacks());
  CHECK_FALSE(t.For("a").Lacks());
}

// a has used what it is promised; the 9th GPU is beyond that.
TEST_CASE("a queue may lose something once it has more than it is entitled to", "[unit][policy]") {
  ClaimsTest t({{.name = "a", .quota = 8}, {.name = "b", .quota = 8}});
  t.Running("a", 8);
  t.Waiting("b", 8);
  t.For("b");
  CHECK_FALSE(AnyMayLose(t.store, t.shares));
  t.Running("a", 1);
  t.For("b");
  CHECK(AnyMayLose(t.store, t.shares));
}

}  // namespace
}  // namespace berth::policy
