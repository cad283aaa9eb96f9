// The host as its driver sees it: calls in, orders out.
#include "host/host.h"

#include <catch2/catch.hpp>

#include "tests/support/builders.h"
#include "tests/unit/host/order_text.h"

namespace berth::host {
namespace {

using kube::WriteOutcome;
using testing::MakeNode;
using testing::MakePod;

constexpr TimePoint kStart = 1'000'000;

/// Two nodes of one GPU each, a gang of two that needs both, and a single pod.
struct HostTest {
  HostTest() {
    Add(MakeNode("n1").Gpu(1));
    Add(MakeNode("n2").Gpu(1));
    for (const char* name : {"a", "b"}) Add(MakePod(name).Gpu(1).Gang("g", 2));
  }
  void Add(const kube::Node& node) {
    host.Apply([&](engine::Engine& e, TimePoint at) { e.OnNode(node, at); }, now);
  }
  void Add(const kube::Pod& pod) {
    host.Apply([&](engine::Engine& e, TimePoint at) { e.OnPod(pod, at); }, now);
  }
  /// Begins to lead, lets the engine plan all workloads, and drops the orders.
  void Lead() {
    host.Lead(now);
    host.Advance(now);
    host.TakeOrders();
  }
  void Resign() {
    host.Resign();
    while (host.Forget(now)) {
    }
  }
  void Pass(Duration time) {
    now += time;
    host.Advance(now);
  }
  /// The node that filter keeps. "none": refused; "503".
  std::string NodeFor(const std::string& pod) {
    const std::string uid = "uid-" + pod;
    const std::vector<std::string_view> offered{"n1", "n2"};
    const auto answer = host.Filter({.uid = uid, .offered = offered}, now);
    if (!answer) return "503";
    return answer->kept.size() == 1 ? std::string(offered[answer->kept.front()]) : "none";
  }
  Id Bind(const std::string& pod, const std::string& node) {
    return host.Bind({.ns = "default", .name = pod, .uid = "uid-" + pod}, node, now);
  }
  /// Makes a bind call for the planned node.
  Id Bind(const std::string& pod) { return Bind(pod, NodeFor(pod)); }
  void Finish(Id order, WriteOutcome outcome, std::string message = {}) {
    host.Finished(order, {.outcome = outcome, .message = std::move(message)}, now);
  }
  /// The orders since the last call.
  Texts Orders() {
    const auto orders = host.TakeOrders();
    if (!orders.empty()) last = IdOf(orders.back());
    return TextsOf(orders);
  }
  std::string Ledger() const { return host.engine().store().LedgerString(); }

  TimePoint now = kStart;
  bool leads = true;
  Host host{{}, {.instance = "x"}, [this] { return leads; }};
  Id last = 0;  ///< The last order that Orders() returned.
};

TEST_CASE_METHOD(HostTest, "who follows knows the cluster, answers 503 and wants nothing done",
                 "[unit]") {
  Add(MakePod("c").Gpu(1).On("n1"));
  CHECK(Ledger().find("uid-c") != std::string::npos);
  CHECK_FALSE(host.due());
  CHECK(NodeFor("a") == "503");
  CHECK_FALSE(host.PlannedNode("uid-a"));
  Bind("a", "n1");
  host.Preempt("uid-a", {}, now);
  CHECK(Orders() == Texts{"answer 503", "keep 503"});
  CHECK(host.idle());
}

TEST_CASE_METHOD(HostTest, "what has changed is planned at once, and then nothing is due",
                 "[unit]") {
  host.Lead(now);
  CHECK(host.due() <= now);
  host.Advance(now);
  CHECK(Orders().size() == 4);  // one nomination each, and which Jobs and JobSets are suspended
  CHECK(host.due() > now);
  now += 50;
  Add(MakePod("c").Gpu(1));
  CHECK(host.due() == now);
  now += 50;
  Add(MakePod("d").Gpu(1));
  CHECK(host.due() == now - 50);  // the deadline of the first of them
}

TEST_CASE_METHOD(HostTest, "in the midst of a round the next pass is due, whatever happens",
                 "[unit]") {
  Host small{{}, {.instance = "y", .pass_budget = 1}, [] { return true; }};
  small.Apply(
      [](engine::Engine& e, TimePoint at) {
        for (int i = 0; i < 4; ++i) e.OnNode(MakeNode("n" + std::to_string(i)).Gpu(1), at);
        for (int i = 0; i < 6; ++i) e.OnPod(MakePod("p" + std::to_string(i)).Gpu(1).Gated(), at);
      },
      now);
  small.Lead(now);
  small.Advance(now);
  REQUIRE(small.engine().unfinished());
  CHECK(small.due() == now);
  small.Apply([](engine::Engine&, TimePoint) {}, now + 10);
  CHECK(small.due() == now);
  for (int pass = 0; pass < 100 && small.engine().unfinished(); ++pass) small.Advance(now);
  CHECK_FALSE(small.engine().unfinished());
  CHECK(small.due() != now);
}

TEST_CASE_METHOD(HostTest, "a single is bound: asked, posted, answered", "[unit]") {
  Add(MakePod("filler").Gpu(1).On("n1"));
  Add(MakePod("c").Gpu(1));
  Lead();
  const Id call = Bind("c");
  CHECK(Orders() == Texts{"post c n2"});
  CHECK(last == call);
  CHECK(host.Wants(call));
  CHECK(host.FindsOut("uid-c"));
  SECTION("done") {
    Finish(call, WriteOutcome::kDone);
    CHECK(Orders() == Texts{"answer bound"});
  }
  SECTION("refused: it may try again") {
    Finish(call, WriteOutcome::kRefused, "no");
    CHECK(Orders() == Texts{"answer berth: no"});
    CHECK(NodeFor("c") == "n2");
  }
  SECTION("refused, and the term is over by then") {
    leads = false;
    CHECK_FALSE(host.Wants(call));
    Finish(call, WriteOutcome::kRefused, "not the leader any more");
    CHECK(Orders() == Texts{"answer 503"});
  }
  CHECK_FALSE(host.FindsOut("uid-c"));
  CHECK(host.ParkedBinds().empty());
}

TEST_CASE_METHOD(HostTest, "members are parked until their gang is there", "[unit]") {
  Lead();
  const std::string node = NodeFor("a");
  const Id first = Bind("a", node);
  CHECK(Orders().empty());
  CHECK(host.ParkedBinds() == std::vector{std::pair(std::string("uid-a"), node)});
  CHECK_FALSE(host.idle());
  const Id second = Bind("b");
  CHECK(Orders().size() == 2);
  CHECK(host.ParkedBinds().empty());
  Finish(second, WriteOutcome::kDone);
  Finish(first, WriteOutcome::kDone);
  CHECK(Orders() == Texts{"answer bound", "answer bound"});
}

TEST_CASE_METHOD(HostTest, "a call for a pod that our watch has not brought yet waits for it",
                 "[unit]") {
  Add(MakePod("filler").Gpu(1).On("n1"));
  Lead();
  Bind("late", "n2");
  host.Preempt("uid-late", {}, now);
  CHECK(Orders().empty());
  CHECK(host.due() == now + 1'000);
  SECTION("it comes") {
    Add(MakePod("late").Gpu(1));
    CHECK(Orders() == Texts{"answer berth: this pod is not planned on this node", "keep 0 nodes"});
  }
  SECTION("it does not: the engine answers without it") {
    Pass(999);
    CHECK(Orders().empty());
    Pass(1);
    const Texts orders = Orders();
    REQUIRE(orders.size() == 2);
    CHECK(orders[0].starts_with("answer "));
    CHECK(orders[0] != "answer bound");
    CHECK(orders[1] == "keep 0 nodes");
  }
  SECTION("the term ends") {
    host.Resign();
    CHECK(Orders() == Texts{"answer 503", "keep 503"});
  }
  SECTION("the term is over, and nobody has said so yet") {
    leads = false;
    Pass(1'000);
    CHECK(Orders() == Texts{"answer 503", "keep 503"});
  }
}

TEST_CASE_METHOD(HostTest, "a caller that has gone is not parked", "[unit]") {
  Lead();
  const Id call = Bind("a");
  SECTION("while it is parked") {
    host.CallerGone(call, now);
    CHECK(Orders() == Texts{"answer berth: the caller has gone"});
    CHECK(host.ParkedBinds().empty());
    CHECK(host.engine().parked_binds() == 0);
    host.CallerGone(call, now);
    CHECK(Orders().empty());
  }
  SECTION("while its Binding is posted: its room is charged, and the outcome wanted") {
    Bind("b");
    CHECK(Orders().size() == 2);
    host.CallerGone(call, now);
    CHECK(Orders().empty());
    CHECK(host.Wants(call));
    Finish(call, WriteOutcome::kDone);
    CHECK(Orders() == Texts{"answer bound"});
  }
  SECTION("while it waits for its pod") {
    const Id late = Bind("late", "n1");
    host.CallerGone(late, now);
    CHECK(Orders() == Texts{"answer berth: the caller has gone"});
    Add(MakePod("late").Gpu(1));
    Pass(1'000);
    CHECK(Orders().empty());
  }
}

TEST_CASE_METHOD(HostTest, "an unknown outcome is asked for until it is known", "[unit]") {
  Add(MakePod("filler").Gpu(1).On("n1"));
  Add(MakePod("c").Gpu(1));
  Lead();
  const Id call = Bind("c");
  Orders();
  Finish(call, WriteOutcome::kUnknown, "timed out");
  CHECK(Orders() ==
        Texts{"answer berth: the outcome of the Binding is unknown: timed out", "read c"});
  const std::string held = Ledger();
  CHECK(host.FindsOut("uid-c"));
  for (const Duration delay : {500, 1'000, 2'000, 4'000, 8'000, 16'000, 30'000, 30'000, 30'000}) {
    Finish(last, WriteOutcome::kRefused, "HTTP 500");
    Pass(delay - 1);
    CHECK(Orders().empty());
    Pass(1);
    CHECK(Orders() == Texts{"read c"});
    CHECK(Ledger() == held);
  }
  SECTION("bound") {
    host.Finished(last, {.outcome = WriteOutcome::kDone, .pod = MakePod("c").Gpu(1).On("n2")}, now);
    CHECK(host.engine().store().FindPod("uid-c")->charge == cluster::Charge::kBound);
  }
  SECTION("not bound") {
    host.Finished(last, {.outcome = WriteOutcome::kDone, .pod = MakePod("c").Gpu(1)}, now);
    CHECK(host.engine().store().FindPod("uid-c")->charge != cluster::Charge::kBinding);
  }
  SECTION("gone") {
    Finish(last, WriteOutcome::kNotFound);
    CHECK(host.engine().store().FindPod("uid-c") == nullptr);
  }
  // Seed 1107951 of all: no event would ever have taken the pod away again.
  SECTION("gone, as the watch has shown while the answer was on its way") {
    host.Apply([](engine::Engine& e, TimePoint at) { e.OnPodDeleted("uid-c", at); }, now);
    host.Finished(last, {.outcome = WriteOutcome::kDone, .pod = MakePod("c").Gpu(1).On("n2")}, now);
    CHECK(host.engine().store().FindPod("uid-c") == nullptr);
  }
  SECTION("another pod has its name") {
    host.Finished(
        last, {.outcome = WriteOutcome::kDone, .pod = MakePod("c").Uid("uid-new").Gpu(1).On("n2")},
        now);
    CHECK(host.engine().store().FindPod("uid-c") == nullptr);
  }
  CHECK_FALSE(host.FindsOut("uid-c"));
  CHECK(host.idle());
}

TEST_CASE_METHOD(HostTest, "at the end of a term calls are answered and plans dropped", "[unit]") {
  const std::string idle = Ledger();
  Lead();
  const std::string plan = host.engine().store().FindPod("uid-a")->workload->plan;
  Bind("a");
  host.Resign();
  CHECK(Orders() == Texts{"answer 503"});
  CHECK_FALSE(host.in_term());
  CHECK_FALSE(host.Forget(now));
  CHECK(Ledger() == idle);
  CHECK_FALSE(host.due());
  CHECK(host.idle());

  Lead();
  CHECK(host.engine().store().FindPod("uid-a")->workload->plan != plan);
  Bind("a");
  Bind("b");
  CHECK(Orders().size() == 2);
}

TEST_CASE_METHOD(HostTest, "while it forgets a host decides nothing, and misses no event",
                 "[unit]") {
  Host slow{{}, {.instance = "y", .pass_budget = 1}, [] { return true; }};
  const auto apply = [&](const auto& event) {
    slow.Apply([&](engine::Engine& e, TimePoint at) { event(e, at); }, now);
  };
  apply([](engine::Engine& e, TimePoint at) {
    for (int i = 0; i < 4; ++i) e.OnNode(MakeNode("n" + std::to_string(i)).Gpu(1), at);
    for (int i = 0; i < 3; ++i) e.OnPod(MakePod("p" + std::to_string(i)).Gpu(1).Gated(), at);
  });
  slow.Lead(now);
  while (slow.engine().unfinished()) slow.Advance(now);
  slow.TakeOrders();
  REQUIRE(slow.engine().PlanCounts().first == 3);

  slow.Resign();
  REQUIRE(slow.Forget(now));
  CHECK(slow.forgetting());
  apply([](engine::Engine& e, TimePoint at) { e.OnPodDeleted("uid-p0", at); });
  apply([](engine::Engine& e, TimePoint at) { e.OnPod(MakePod("late").Gpu(1).On("n3"), at); });
  // Its plan was made for a node that is gone: nobody is told of it any more.
  apply([](engine::Engine& e, TimePoint at) { e.OnNodeDeleted("n0", at); });
  apply([](engine::Engine& e, TimePoint at) { e.OnNodeDeleted("n1", at); });
  slow.Advance(now + 60'000);
  CHECK(slow.TakeOrders().empty());
  CHECK_FALSE(slow.due());
  while (slow.Forget(now)) {
  }
  CHECK_FALSE(slow.forgetting());
  const auto orders = slow.TakeOrders();
  REQUIRE(orders.size() == 1);
  CHECK(std::holds_alternative<Discard>(orders.front()));
  CHECK(slow.engine().PlanCounts() == std::pair(0, 0));
  CHECK(slow.engine().store().FindPod("uid-p0") == nullptr);
  CHECK(slow.engine().store().FindPod("uid-late")->node != cluster::kNoNode);
  slow.Lead(now);
  while (slow.engine().unfinished()) slow.Advance(now);
  CHECK(slow.engine().PlanCounts().first == 1);  // one node is left for two pods
}

TEST_CASE_METHOD(HostTest,
                 "a Binding of a past term is not wanted, and its outcome changes nothing",
                 "[unit]") {
  Add(MakePod("filler").Gpu(1).On("n1"));
  Add(MakePod("c").Gpu(1));
  Lead();
  const Id old = Bind("c");
  CHECK(Orders() == Texts{"post c n2"});
  Resign();
  CHECK(Orders().empty());  // its caller waits for the outcome
  CHECK_FALSE(host.Wants(old));
  CHECK_FALSE(host.FindsOut("uid-c"));
  Lead();
  CHECK_FALSE(host.Wants(old));
  const Id fresh = Bind("c");
  CHECK(Orders() == Texts{"post c n2"});
  const std::string held = Ledger();
  SECTION("done: its caller hears so") {
    Finish(old, WriteOutcome::kDone);
    CHECK(Orders() == Texts{"answer bound"});
  }
  SECTION("else it is the new leader's to say") {
    Finish(old, GENERATE(WriteOutcome::kRefused, WriteOutcome::kUnknown), "no");
    CHECK(Orders() == Texts{"answer 503"});
  }
  CHECK(Ledger() == held);
  CHECK(host.Wants(fresh));
}

TEST_CASE_METHOD(HostTest, "nothing is wanted once the term is over by the clock", "[unit]") {
  Lead();
  Add(MakePod("filler").Gpu(1).On("n1"));
  Add(MakePod("c").Gpu(1).Gated());
  host.Advance(now);
  CHECK(Orders() == Texts{"nominate c n2"});
  CHECK(host.Wants(last));
  leads = false;  // for example, the process was frozen; Resign has not been called yet
  CHECK_FALSE(host.Wants(last));
  CHECK(NodeFor("c") == "503");
  Add(MakePod("late").Gpu(1).Gated());
  Pass(10'000);
  CHECK(Orders().empty());
}

TEST_CASE_METHOD(HostTest, "who has stopped says so, and never leads again", "[unit]") {
  Lead();
  Bind("a");
  host.Stop();
  CHECK(Orders() == Texts{"answer berth: shutting down"});
  host.Lead(now);
  CHECK(NodeFor("a") == "503");
}

}  // namespace
}  // namespace berth::host
