// Each rule at its exact boundary, on both sides. The queue `a` may have 8 GPUs of a node's 16.
#include "policy/quota.h"

#include <catch2/catch.hpp>

#include "tests/support/builders.h"
#include "tests/support/planning.h"

namespace berth::policy {
namespace {

using cluster::Charge;
using cluster::PodInfo;
using cluster::ReasonId;
using cluster::Verdict;
using testing::MakeNode;
using testing::MakePod;
using testing::MakePolicy;
using testing::MakeQueue;
using testing::Planning;

constexpr cluster::QueueId kQueue = 0;

struct QuotaTest : Planning {
  QuotaTest() : Planning(MakePolicy({MakeQueue("a", {"default"}, 8)})) {
    Node(MakeNode("n").Gpu(16));
  }
  /// Already charged, by its Binding.
  const PodInfo& Running(const char* name, int gpus) {
    return Pod(MakePod(name).Gpu(gpus).On("n"));
  }
  std::vector<const PodInfo*> Waiting(std::vector<int> gpus) {
    std::vector<const PodInfo*> pods;
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      pods.push_back(&Pod(MakePod("w" + std::to_string(i)).Gpu(gpus[i])));
    }
    return pods;
  }
  std::int64_t LeftGpus(const QuotaView& view) const { return view.Of(kQueue).front().left / 1000; }
};

TEST_CASE("what is left of a queue is its cap without what is in use", "[unit][policy]") {
  QuotaTest t;
  const PodInfo& running = t.Running("r", 5);
  QuotaView view(t.store);
  REQUIRE(view.Of(kQueue).size() == 1);
  CHECK(view.Of(kQueue).front().cap == 8'000);
  CHECK(t.LeftGpus(view) == 3);

  SECTION("and without what a decision would take") {
    view.Take(kQueue, running.shape->demand);
    CHECK(t.LeftGpus(view) == -2);
  }
  SECTION("and with what it would give back") {
    view.GiveBack(running);
    CHECK(t.LeftGpus(view) == 8);
  }
  SECTION("a view changes nothing") {
    view.Take(kQueue, running.shape->demand);
    CHECK(t.LeftGpus(QuotaView(t.store)) == 3);
  }
  SECTION("who is in no queue has no cap, and counts against none") {
    view.Take(cluster::kNoQueue, running.shape->demand);
    CHECK(t.LeftGpus(view) == 3);
    CHECK(view.Of(cluster::kNoQueue).empty());
  }
}

TEST_CASE("as many members are granted as the queue has room for", "[unit][policy]") {
  struct Row {
    const char* what;
    int in_use;
    std::vector<int> members;
    int min;
    int fit;  ///< -1: denied.
    ReasonId reason;
    std::int64_t want, have;
  };
  const std::vector<Row> rows{
      {"all, to the last GPU", 4, {2, 2}, 2, 2, ReasonId::kNone, 0, 0},
      {"one GPU more", 4, {2, 3}, 2, -1, ReasonId::kWaitingForQuota, 5'000, 4'000},
      {"the minimum alone", 4, {2, 2, 2}, 2, 2, ReasonId::kNone, 0, 0},
      {"in order: a small one behind a large one", 4, {2, 3, 1}, 1, 1, ReasonId::kNone, 0, 0},
      {"more than the cap, whatever ends", 0, {4, 5}, 2, -1, ReasonId::kExceedsLimit, 9'000, 8'000},
      {"a queue over its cap grants none", 9, {1}, 1, -1, ReasonId::kWaitingForQuota, 1'000, 0},
      {"but for those that ask for none of it", 9, {0, 0}, 2, 2, ReasonId::kNone, 0, 0},
  };
  for (const Row& row : rows) {
    INFO(row.what);
    QuotaTest t;
    if (row.in_use > 0) t.Running("r", row.in_use);
    const auto pods = t.Waiting(row.members);
    int fit = 0;
    const Verdict verdict = GrantMembers(QuotaView(t.store), kQueue, pods, row.min, fit);
    CHECK(verdict.reason == row.reason);
    if (row.fit >= 0) CHECK(fit == row.fit);
    if (row.reason == ReasonId::kNone) continue;
    CHECK(verdict.want == row.want);
    CHECK(verdict.have == row.have);
    CHECK(verdict.subject == testing::kGpu);
  }
}

TEST_CASE("a placement is granted what it takes beyond what its members hold", "[unit][policy]") {
  QuotaTest t;
  t.Running("r", 4);
  const PodInfo& moving = t.Pod(MakePod("m").Gpu(4));
  t.store.SetCharge(moving, t.node("n"), Charge::kPlanned);  // the queue is full
  const Placed placed{.pod = &moving, .node = t.node("n")};
  const auto grant = [&](bool strict) {
    return GrantCharge(QuotaView(t.store), kQueue, {&placed, 1}, strict).reason;
  };
  CHECK(grant(false) == ReasonId::kNone);
  CHECK(grant(true) == ReasonId::kNone);

  SECTION("over the cap it may move, if nothing else says no") {
    t.Running("later", 1);
    CHECK(grant(false) == ReasonId::kNone);
    CHECK(grant(true) == ReasonId::kWaitingForQuota);
  }
  SECTION("more than the cap will never be granted") {
    const PodInfo& huge = t.Pod(MakePod("h").Gpu(9));
    const Placed more{.pod = &huge, .node = t.node("n")};
    const Verdict verdict = GrantCharge(QuotaView(t.store), kQueue, {&more, 1}, false);
    CHECK(verdict.reason == ReasonId::kExceedsLimit);
    CHECK(verdict.have == 8'000);
  }
  SECTION("who holds nothing is counted in full") {
    const PodInfo& fresh = t.Pod(MakePod("f").Gpu(1));
    const Placed more{.pod = &fresh, .node = t.node("n")};
    const Verdict verdict = GrantCharge(QuotaView(t.store), kQueue, {&more, 1}, false);
    CHECK(verdict.reason == ReasonId::kWaitingForQuota);
    CHECK(verdict.want == 1'000);
    CHECK(verdict.have == 0);
  }
}

TEST_CASE("a cap of what the members do not ask for does not matter", "[unit][policy]") {
  QuotaTest t;
  t.Running("r", 9);  // the queue is over its cap of GPUs
  const PodInfo& none = t.Pod(MakePod("none").Cpu("1"));
  const PodInfo& one = t.Pod(MakePod("one").Gpu(1));
  const auto grants = [&](const PodInfo& pod) {
    const Placed placed{.pod = &pod, .node = t.node("n")};
    const QuotaView view(t.store);
    int fit = 0;
    const std::vector<ReasonId> reasons{
        GrantMembers(view, kQueue, std::vector{&pod}, 1, fit).reason,
        GrantCharge(view, kQueue, {&placed, 1}, /*strict=*/false).reason,
        GrantCharge(view, kQueue, {&placed, 1}, /*strict=*/true).reason};
    return reasons;
  };
  CHECK(grants(none) == std::vector(3, ReasonId::kNone));
  CHECK(grants(one) == std::vector(3, ReasonId::kWaitingForQuota));
}

/// `a` is promised 4 GPUs and may use 8, of which 3 of flavor h100 at most. Node h is of that
/// flavor, node o of none.
struct PartsTest : Planning {
  PartsTest() : Planning(Policy()) {
    Node(MakeNode("h").Gpu(8).Label("gpu", "h100"));
    Node(MakeNode("o").Gpu(8));
  }
  static config::PolicyConfiguration Policy() {
    config::Queue a = MakeQueue("a", {"default"}, 8, 4);
    a.quotas = {{.flavor = "h100", .limit = {{testing::kGpu, 3'000}}}};
    auto policy = MakePolicy({a});
    policy.flavors = {{.name = "h100", .node_selector = {{"gpu", "h100"}}}};
    return policy;
  }
  const PodInfo& Waiting(const char* name, int gpus, const char* preemptible = "true") {
    return Pod(MakePod(name).Gpu(gpus).Label("berth.dev/preemptible", preemptible));
  }
  Verdict Members(const PodInfo& pod, cluster::FlavorId flavor) {
    int fit = 0;
    return GrantMembers(QuotaView(store), kQueue, std::vector{&pod}, 1, fit, flavor);
  }
  Verdict Charge(const PodInfo& pod, const char* on) {
    const Placed placed{.pod = &pod, .node = node(on)};
    return GrantCharge(QuotaView(store), kQueue, {&placed, 1}, /*strict=*/false);
  }
};

TEST_CASE("a cap of one flavor counts on its nodes", "[unit][policy]") {
  PartsTest t;
  const PodInfo& three = t.Waiting("three", 3);
  const PodInfo& four = t.Waiting("four", 4);
  CHECK(t.Members(three, 0).reason == ReasonId::kNone);
  CHECK(t.Members(four, 0) == Verdict{.reason = ReasonId::kExceedsLimit,
                                      .want = 4'000,
                                      .have = 3'000,
                                      .subject = "nvidia.com/gpu of flavor h100"});
  CHECK(t.Members(four, cluster::kNoFlavor).reason == ReasonId::kNone);
  CHECK(t.Charge(three, "h").reason == ReasonId::kNone);
  CHECK(t.Charge(four, "h").reason == ReasonId::kExceedsLimit);
  CHECK(t.Charge(four, "o").reason == ReasonId::kNone);
  const auto payable = PayableNodes(QuotaView(t.store), kQueue, std::vector{&four});
  REQUIRE(payable);
  CHECK_FALSE(payable(four, t.node("h")));
  CHECK(payable(four, t.node("o")));
  t.Pod(MakePod("r").Gpu(1).On("h"));
  CHECK(t.Members(three, 0).reason == ReasonId::kWaitingForQuota);
  CHECK(t.Members(t.Waiting("two", 2), 0).reason == ReasonId::kNone);
}

TEST_CASE("non-preemptible work is granted the quota alone", "[unit][policy]") {
  PartsTest t;
  t.Pod(MakePod("r").Gpu(2).On("o").Label("berth.dev/preemptible", "false"));
  t.Pod(MakePod("s").Gpu(2).On("o"));  // does not count against it
  const PodInfo& two = t.Waiting("two", 2, "false");
  const PodInfo& three = t.Waiting("three", 3, "false");
  const PodInfo& plain = t.Waiting("plain", 4);
  CHECK(t.Members(two, cluster::kNoFlavor).reason == ReasonId::kNone);
  CHECK(t.Members(three, cluster::kNoFlavor) ==
        Verdict{.reason = ReasonId::kWaitingForQuota,
                .want = 3'000,
                .have = 2'000,
                .subject = "nvidia.com/gpu for non-preemptible work"});
  CHECK(t.Members(plain, cluster::kNoFlavor).reason == ReasonId::kNone);
  CHECK(t.Charge(two, "o").reason == ReasonId::kNone);
  CHECK(t.Charge(three, "o").reason == ReasonId::kWaitingForQuota);
  CHECK(Sentence(t.Charge(three, "o")) ==
        "It needs 3 of nvidia.com/gpu for non-preemptible work; its queue has 2 left.");
}

config::Queue Under(const char* parent, config::Queue queue) {
  queue.parent = parent;
  return queue;
}

/// `a` may have 8 GPUs and `b` has no cap of its own; both are in `team`, which may have 10, and
/// that is in `org`, which may have 20. Of 16 GPUs, r uses 3 in `a`, and s uses 5 in `b`.
struct TreeTest : Planning {
  TreeTest()
      : Planning(MakePolicy({Under("team", MakeQueue("a", {"default"}, 8)),
                             Under("team", MakeQueue("b", {"default"})),
                             Under("org", MakeQueue("team", {}, 10)), MakeQueue("org", {}, 20)})) {
    Node(MakeNode("n").Gpu(16));
    Pod(MakePod("r").Gpu(3).Queue("a").On("n"));
    Pod(MakePod("s").Gpu(5).Queue("b").On("n"));
  }
  cluster::QueueId Id(const char* queue) const { return store.FindQueue(queue); }
  Verdict Grant(const char* queue, int gpus) {
    const PodInfo* pod = &Pod(MakePod("w").Gpu(gpus).Queue(queue));
    int fit = 0;
    return GrantMembers(QuotaView(store), Id(queue), {&pod, 1}, 1, fit);
  }
};

TEST_CASE("the caps of all queues on the path hold", "[unit][policy]") {
  struct Row {
    const char* what;
    const char* queue;
    int gpus;
    Verdict verdict;
  };
  const std::string gpu = testing::kGpu;
  const std::vector<Row> rows{
      {"the last of team's", "a", 2, {}},
      {"its own would do, team's does not",
       "a",
       3,
       {ReasonId::kWaitingForQuota, 3'000, 2'000, gpu, "team"}},
      {"its own comes first", "a", 6, {ReasonId::kWaitingForQuota, 6'000, 5'000, gpu}},
      {"more than its own, ever", "a", 9, {ReasonId::kExceedsLimit, 9'000, 8'000, gpu}},
      {"no cap of its own", "b", 2, {}},
      {"and still team's", "b", 3, {ReasonId::kWaitingForQuota, 3'000, 2'000, gpu, "team"}},
      {"more than team's, ever", "b", 11, {ReasonId::kExceedsLimit, 11'000, 10'000, gpu, "team"}},
      {"none of it", "b", 0, {}},
  };
  for (const Row& row : rows) {
    INFO(row.what);
    TreeTest t;
    CHECK(t.Grant(row.queue, row.gpus) == row.verdict);
  }
}

TEST_CASE("what a decision takes and gives back counts along the path", "[unit][policy]") {
  TreeTest t;
  const auto left = [&](const QuotaView& view) {
    std::vector<std::int64_t> gpus;
    for (const QuotaView::Allowance& allowance : view.Along(t.Id("a"))) {
      gpus.push_back(allowance.left / 1000);
    }
    return gpus;
  };
  QuotaView view(t.store);
  CHECK(left(view) == std::vector<std::int64_t>{8 - 3, 10 - 8, 20 - 8});
  view.Take(t.Id("b"), t.store.FindPod("uid-r")->shape->demand);
  CHECK(left(view) == std::vector<std::int64_t>{5, 2 - 3, 12 - 3});
  view.GiveBack(*t.store.FindPod("uid-s"));
  CHECK(left(view) == std::vector<std::int64_t>{5, 2 - 3 + 5, 12 - 3 + 5});
}

TEST_CASE("a pod that moves to a sibling gives back to the queues above both", "[unit][policy]") {
  TreeTest t;
  const PodInfo& moving = t.Pod(MakePod("m").Gpu(2).Queue("b"));
  t.store.SetCharge(moving, t.node("n"), Charge::kPlanned);  // team is full
  const Placed placed{.pod = &moving, .node = t.node("n")};
  const auto grant = [&](const char* queue) {
    return GrantCharge(QuotaView(t.store), t.Id(queue), {&placed, 1}, /*strict=*/true);
  };
  CHECK(grant("a") == Verdict{});
  t.Pod(MakePod("later").Gpu(1).Queue("b").On("n"));  // team is over its cap
  CHECK(grant("a") == Verdict{ReasonId::kWaitingForQuota, 0, 0, testing::kGpu, "team"});
}

TEST_CASE("a pod is over the cap of any queue on its path", "[unit][policy]") {
  TreeTest t;
  const PodInfo& r = *t.store.FindPod("uid-r");
  CHECK_FALSE(IsOver(QuotaView(t.store), r));
  t.Pod(MakePod("more").Gpu(3).Queue("b").On("n"));  // team has 11 of 10
  CHECK(IsOver(QuotaView(t.store), r));
}

/// 16 GPUs. `a` is promised 8 and lends 3 of them, `b` is promised 4 and lends all; `c` is promised
/// nothing. All are in `org`, and `in-a` is below `a`.
struct LoanTest : Planning {
  LoanTest() : Planning(Policy()) { Node(MakeNode("n").Gpu(16)); }
  static config::PolicyConfiguration Policy() {
    auto policy =
        MakePolicy({Under("org", MakeQueue("a", {"default"}, -1, 8)),
                    Under("org", MakeQueue("b", {"default"}, -1, 4)),
                    Under("org", MakeQueue("c", {"default"})), MakeQueue("org", {}, -1, 12),
                    Under("a", MakeQueue("in-a", {"default"}))});
    policy.borrowing = true;
    policy.queues[0].lending_limit[testing::kGpu] = 3'000;
    return policy;
  }
  void Use(const char* queue, int gpus) {
    Pod(MakePod("use" + std::to_string(++pods)).Gpu(gpus).Queue(queue).On("n"));
  }
  bool Grants(const char* queue, int gpus) {
    const PodInfo* pod = &Pod(MakePod("w").Gpu(gpus).Queue(queue));
    int fit = 0;
    const auto reason =
        GrantMembers(QuotaView(store), store.FindQueue(queue), {&pod, 1}, 1, fit).reason;
    return reason == ReasonId::kNone;
  }
  /// The most that is granted.
  int Most(const char* queue) {
    int most = 0;
    while (most < 16 && Grants(queue, most + 1)) ++most;
    return most;
  }
  int pods = 0;
};

/// `q` and `d` are promised 4 and 8. Below `d` are `s`, which is promised 2, and `t`, which has no
/// quota. `q` and `s` lend nothing.
struct DepartmentTest : LoanTest {
  explicit DepartmentTest(int gpus) {
    auto policy = MakePolicy({MakeQueue("q", {"default"}, -1, 4), MakeQueue("d", {}, -1, 8),
                              Under("d", MakeQueue("s", {"default"}, -1, 2)),
                              Under("d", MakeQueue("t", {"default"}))});
    policy.borrowing = true;
    for (const std::size_t keeper : {0U, 2U}) {
      policy.queues[keeper].lending_limit[testing::kGpu] = 0;
    }
    store.SetPolicy(policy);
    Node(MakeNode("n").Gpu(gpus));
  }
};

TEST_CASE("a queue without a quota has what is left of the one above it", "[unit][policy]") {
  SECTION("beside what its sibling keeps") {
    DepartmentTest t(8);
    CHECK(t.Most("t") == 8 - 2);  // and not only the 2 that nobody keeps
    t.Use("t", 3);
    CHECK(t.Most("t") == 3);
    t.Use("s", 1);
    CHECK(t.Most("t") == 8 - 3 - 1 - 1);
    CHECK(t.Most("q") == 4);
  }
  SECTION("as far as the sibling's part is free") {
    DepartmentTest t(4);
    CHECK(t.Most("t") == 4 - 2);
    CHECK(t.Most("s") == 2);
    t.Use("t", 2);
    CHECK(t.Most("t") == 0);
    CHECK(t.Most("s") == 2);
  }
}

TEST_CASE("a queue borrows what others lend", "[unit][policy]") {
  LoanTest t;
  // Of 16, `a` keeps 5 for itself.
  CHECK(t.Most("c") == 11);
  CHECK(t.Most("b") == 11);
  CHECK(t.Most("a") == 16);
  CHECK(t.Most("in-a") == 16);  // what `a` keeps is for the queues below it, too
  SECTION("what the lender uses itself it need not keep") {
    t.Use("a", 2);
    CHECK(t.Most("c") == 16 - 2 - 3);
    t.Use("in-a", 3);
    CHECK(t.Most("c") == 16);  // nobody keeps anything: what is free is not asked of quotas
    t.Use("a", 4);             // beyond its quota
    CHECK(t.Most("c") == 16);
  }
  SECTION("what is borrowed") {
    t.Use("c", 11);
    CHECK(t.Most("c") == 0);
    CHECK(t.Most("a") == 16);  // what is kept, it kept itself
    CHECK(t.Most("b") == 1);   // org is promised 12, and 11 are in use: this is promised to b
  }
  SECTION("nodes that take no pods lend nothing") {
    t.Node(MakeNode("n").Gpu(16).Cordoned());
    CHECK(t.Most("b") == 4);  // quota is asked for room, not for free devices
    CHECK(t.Most("c") == 0);  // what is free comes after what `a` keeps
  }
  SECTION("a limit holds for loans") {
    auto policy = LoanTest::Policy();
    policy.queues[2].limit[testing::kGpu] = 6'000;
    t.store.SetPolicy(policy);
    CHECK(t.Most("c") == 6);
  }
  SECTION("without borrowing nothing is lent") {
    auto policy = LoanTest::Policy();
    policy.borrowing = false;
    t.store.SetPolicy(policy);
    CHECK(t.Most("a") == 8);
    CHECK(t.Most("b") == 4);
    CHECK(t.Most("c") == 12);  // it has no quota, org has
  }
}

TEST_CASE("what is given back on a node that holds more than it has is not all free",
          "[unit][policy][bug]") {
  LoanTest t;
  t.Use("c", 8);
  const PodInfo& planned = t.Pod(MakePod("p").Gpu(12).Queue("c"));  // once others have ended
  t.store.SetCharge(planned, t.node("n"), cluster::Charge::kPlanned, 0);
  QuotaView view(t.store);
  view.GiveBack(planned);
  // 8 of 16 are free then, and `a` keeps 5.
  CHECK(view.Loans(t.store.FindQueue("c")).front().left == 3'000);
}

TEST_CASE("what queues keep does not overflow", "[unit][policy][bug]") {
  auto policy = LoanTest::Policy();
  for (const int i : {0, 1}) {
    config::Queue& queue = policy.queues[static_cast<std::size_t>(i)];
    queue.quota[testing::kGpu] = 9'000'000'000'000'000'000;
    queue.lending_limit[testing::kGpu] = 0;
  }
  LoanTest t;
  t.store.SetPolicy(policy);
  CHECK(t.Most("c") == 0);
  CHECK(t.Most("a") == 12);  // org's quota: b keeps all that is free
}

TEST_CASE("what is kept by a queue and by one above it is not added up", "[unit][policy]") {
  auto policy = LoanTest::Policy();
  policy.queues[3].lending_limit[testing::kGpu] = 4'000;  // org keeps 8 of 12, `a` 5 of those
  policy.queues.push_back(MakeQueue("other", {"default"}));
  LoanTest t;
  t.store.SetPolicy(policy);
  CHECK(t.Most("other") == 16 - 8);
  CHECK(t.Most("c") == 16 - 5);  // it is in org
  t.Use("a", 1);
  CHECK(t.Most("other") == 16 - 1 - 7);
  t.Use("b", 6);  // 7 of org's 8 are in use, and `a` still keeps 4
  CHECK(t.Most("other") == 16 - 7 - 4);
}

TEST_CASE("whole-node pods go where their queue can pay", "[unit][policy]") {
  QuotaTest t;
  t.Node(MakeNode("small").Gpu(4));
  t.Node(MakeNode("even").Gpu(8));
  const auto whole = [&](const char* name) { return &t.Pod(MakePod(name).Gpu(1).WholeNode()); };
  const std::vector<const PodInfo*> one{whole("a")};
  const std::vector<const PodInfo*> two{whole("a"), whole("b")};
  const auto pays = [&](const std::vector<const PodInfo*>& pods, const char* node) {
    const auto payable = PayableNodes(QuotaView(t.store), kQueue, pods);
    REQUIRE(payable);
    return payable(*pods.back(), t.node(node));
  };
  const std::vector<const PodInfo*> beside_a_launcher{&t.Pod(MakePod("l")), whole("a")};
  CHECK(pays(one, "even"));  // 8 of 8
  CHECK_FALSE(pays(one, "n"));
  CHECK(pays(two, "small"));  // they share what is left
  CHECK_FALSE(pays(two, "even"));
  CHECK(pays(beside_a_launcher, "even"));  // a launcher takes nothing of it
  CHECK_FALSE(pays(beside_a_launcher, "n"));
  CHECK_FALSE(PayableNodes(QuotaView(t.store), cluster::kNoQueue, one));
  CHECK_FALSE(PayableNodes(QuotaView(t.store), kQueue, t.Waiting({1})));
}

TEST_CASE("a queue is over its cap for pods that take of it", "[unit][policy]") {
  QuotaTest t;
  const PodInfo& takes = t.Running("r", 8);
  const PodInfo& none = t.Running("cpu", 0);
  CHECK_FALSE(IsOver(QuotaView(t.store), takes));
  t.Running("one-more", 1);
  CHECK(IsOver(QuotaView(t.store), takes));
  CHECK_FALSE(IsOver(QuotaView(t.store), none));
  QuotaView without(t.store);
  without.GiveBack(*t.store.FindPod("uid-one-more"));
  CHECK_FALSE(IsOver(without, takes));
}

TEST_CASE("as many jobs of one user as the queue allows", "[unit][policy]") {
  auto policy = MakePolicy({MakeQueue("a", {"*"}), MakeQueue("b", {"*"})});
  policy.queues[0].max_jobs_per_user = 2;
  Planning t(policy);
  t.Node(MakeNode("n").Gpu(64));
  const auto of = [](const char* user, const std::string& name) {
    return MakePod(name).Gpu(1).Queue("a").Label("berth.dev/user", user);
  };
  const cluster::PodInfo& single = t.Pod(of("ann", "single").On("n"));
  const cluster::PodInfo& waits = t.Pod(of("ann", "waits"));
  const auto check = [&](const QuotaView& view) {
    t.store.Refresh();
    return CheckJobs(view, *waits.workload);
  };
  CHECK(check(QuotaView(t.store)).reason == ReasonId::kNone);
  const cluster::PodInfo& m0 = t.Pod(of("ann", "m0").Gang("g", 2).On("n"));
  const cluster::PodInfo& m1 = t.Pod(of("ann", "m1").Gang("g", 2).On("n"));
  const Verdict full{.reason = ReasonId::kWaitingForQuota, .want = 2, .have = 2, .user = "ann"};
  CHECK(check(QuotaView(t.store)) == full);
  t.Pod(of("bob", "other").On("n"));  // another user's
  CHECK(check(QuotaView(t.store)) == full);
  t.store.Refresh();
  CHECK(CheckJobs(QuotaView(t.store), *m0.workload).reason == ReasonId::kNone);  // no new job
  CHECK_FALSE(HasTooManyJobs(QuotaView(t.store), single));
  // A gang is gone when all of its members are.
  QuotaView view(t.store);
  view.GiveBack(m0);
  CHECK(check(view) == full);
  view.GiveBack(m1);
  CHECK(check(view).reason == ReasonId::kNone);
  t.store.SetCharge(waits, t.node("n"), cluster::Charge::kPlanned);
  CHECK(HasTooManyJobs(QuotaView(t.store), waits));
  CHECK_FALSE(HasTooManyJobs(view, waits));
  t.store.Unreserve(waits);
  // Lowered, it counts as it is.
  policy.queues[0].max_jobs_per_user = 1;
  t.store.SetPolicy(policy);
  CHECK(check(QuotaView(t.store)) ==
        Verdict{.reason = ReasonId::kWaitingForQuota, .want = 1, .have = 2, .user = "ann"});
  policy.queues[0].max_jobs_per_user = 0;
  t.store.SetPolicy(policy);
  CHECK(check(QuotaView(t.store)).reason == ReasonId::kNone);
}

}  // namespace
}  // namespace berth::policy
