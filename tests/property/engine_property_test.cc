// Properties that hold for every cluster and every order of events (docs/fault-search.md).
#include <rapidcheck.h>
#include <simdjson.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/replay/decision_line.h"
#include "engine/replay/player.h"
#include "engine/replay/recorder.h"
#include "tests/support/catch.h"
#include "tests/support/planning.h"
#include "tests/support/story.h"

namespace berth {
namespace {

using testing::MakeNode;
using testing::MakePod;
using testing::Members;
using testing::Planning;
using testing::Story;

/// The numbers from which a Story or a cluster is made; they shrink.
std::vector<int> Numbers(int most) {
  auto numbers = *rc::gen::scale(2.0, rc::gen::container<std::vector<int>>(
                                          rc::gen::resize(100, rc::gen::inRange(0, 1 << 20))));
  if (numbers.size() > static_cast<std::size_t>(most))
    numbers.resize(static_cast<std::size_t>(most));
  return numbers;
}

void CheckInvariants(bool failover) {
  Story story(failover);
  for (const int number : Numbers(150)) {
    story.Step(number);
    RC_ASSERT(story.Violation() == "");
  }
  story.EndAll();
  RC_ASSERT(story.Violation() == "");
  RC_ASSERT(story.world().store().LedgerString() == Story().world().store().LedgerString());
  RC_ASSERT(story.world().engine().parked_binds() == 0U);
  RC_ASSERT(story.world().engine().PlanCounts() == std::pair(0, 0));
  RC_ASSERT(story.world().store().workloads().empty());
}

TEST_CASE("engine invariants over random stories", "[property][engine]") {
  REQUIRE(rc::check("I1-I5 after every step, I6 at the end", [] { CheckInvariants(false); }));
}

TEST_CASE("engine invariants when kube-scheduler fails over", "[property][engine][bug]") {
  REQUIRE(rc::check("I1-I5 after every step, I6 at the end", [] { CheckInvariants(true); }));
}

TEST_CASE("I8: same inputs, same actions", "[property][engine]") {
  REQUIRE(rc::check("two runs of one story are one", [] {
    const auto numbers = Numbers(120);
    std::vector<std::string> logs[2];
    for (auto& log : logs) {
      Story story;
      // Make addresses differ from those of the first run.
      const std::vector<std::string> noise(&log == &logs[1] ? 1000 : 0, "noise");
      for (const int number : numbers) story.Step(number);
      log = story.world().log();
    }
    RC_ASSERT(logs[0] == logs[1]);
  }));
}

TEST_CASE("I8: recorded inputs lead to the same decisions", "[property][engine][replay]") {
  REQUIRE(rc::check("a recorded story is decided again", [] {
    std::vector<std::string> lines;
    replay::Recorder recorder([&lines](std::string line) { lines.push_back(std::move(line)); });
    Story story(/*failover=*/true, {.explain_decisions = true, .listener = &recorder});
    for (const int number : Numbers(120)) story.Step(number);
    std::vector<std::string> decided;
    for (const auto& [now, decision] : story.world().decisions()) {
      decided.push_back(replay::DecisionLine(decision, now));
    }
    replay::Player player;
    simdjson::dom::parser parser;
    std::vector<std::string> again;
    for (const std::string& line : lines) {
      const auto made = player.Feed(parser.parse(line));
      RC_ASSERT(made.has_value());
      again.insert(again.end(), made->begin(), made->end());
    }
    RC_ASSERT(decided == again);
  }));
}

TEST_CASE("all work gets in when the trouble stops", "[property][engine]") {
  REQUIRE(rc::check("I10: nobody waits who would be placed if asked again", [] {
    Story story;
    for (const int number : Numbers(40)) story.Step(number);
    story.Calm();
    // A second planner with the same facts and no history finds no more workloads to place.
    const int bound = story.world().BoundPods();
    story.world().Restart();
    story.world().Schedule();
    RC_ASSERT(story.world().BoundPods() == bound);
  }));
}

TEST_CASE("a workload at rest would not start", "[property][engine][bug]") {
  // What is remembered of failures, and which events end a rest, changes only what an answer costs.
  REQUIRE(rc::check("judging everybody again with an empty memo starts nobody", [] {
    Story story;
    for (const int number : Numbers(150)) {
      story.Step(number);
      testing::World& world = story.world();
      world.Tick();  // all that the events put in line is judged
      for (const auto& [key, workload] : world.store().workloads()) {
        if (!world.engine().Rests(workload)) continue;
        RC_ASSERT(!world.engine().WouldStart(workload, world.now()));
      }
    }
  }));
}

// --- The ledger ----------------------------------------------------------------------------------

/// Any pod of ten names, in any state that the API server may report.
kube::Pod AnyPod(int number, bool may_terminate) {
  const std::string name = "p" + std::to_string(number % 10);
  auto pod = MakePod(name).Gpu(1 + number / 10 % 4).Cpu(std::to_string(number / 40 % 5));
  if (number / 200 % 3 == 0) pod.Uid("uid-" + name + "-again");
  const int state = number / 600 % 6;
  // Properties that never change once the pod exists depend only on its UID.
  if (number % 3 == 0) pod.Queue("b");
  if (number % 5 == 0) pod.WholeNode();
  if (number % 7 == 0) pod.Scheduler("other");
  const std::string node = "n" + std::to_string(number / 3600 % 4);
  if (state >= 2) pod.On(node);
  if (state == 1) pod.Nominated(node);
  if (state == 4 && may_terminate) pod.Terminating();
  if (state == 5) pod.Phase(kube::PodPhase::kSucceeded);
  return pod;
}

void CheckLedger(bool may_terminate) {
  const auto policy = testing::MakePolicy(
      {testing::MakeQueue("a", {"default"}), testing::MakeQueue("b", {"default"})});
  cluster::Store store(policy);
  std::map<std::string, kube::Node> nodes;
  std::map<std::string, kube::Pod> pods;  // by name: the final state at the API server
  for (const int number : Numbers(120)) {
    const int rest = number / 8;
    if (number % 8 == 0) {
      const kube::Node node =
          MakeNode("n" + std::to_string(rest % 4)).Gpu(4 << (rest / 4 % 3)).Cpu(16);
      nodes[node.meta.name] = node;
      store.UpsertNode(node);
    } else if (number % 8 == 1) {
      const std::string name = "n" + std::to_string(rest % 4);
      nodes.erase(name);
      store.DeleteNode(name);
    } else if (number % 8 == 2) {
      const std::string name = "p" + std::to_string(rest % 10);
      if (const auto it = pods.find(name); it != pods.end()) {
        store.DeletePod(it->second.meta.uid);
        pods.erase(it);
      }
    } else {
      kube::Pod pod = AnyPod(rest, may_terminate);
      const auto old = pods.find(pod.meta.name);
      if (old != pods.end() && old->second.meta.uid == pod.meta.uid) {
        // A pod is bound once and ends once, and its spec does not change.
        const kube::Pod& was = old->second;
        pod.spec = was.spec;
        pod.meta.labels = was.meta.labels;
        pod.meta.annotations = was.meta.annotations;
        pod.scheduler_name = was.scheduler_name;
        if (!was.node_name.empty()) pod.node_name = was.node_name;
        if (was.meta.deletion) pod.meta.deletion = was.meta.deletion;
      }
      pod.spec = std::make_shared<const kube::PodSpec>(*pod.spec);
      if (pod.phase == kube::PodPhase::kSucceeded) {
        pods.erase(pod.meta.name);
      } else {
        pods[pod.meta.name] = pod;
      }
      store.UpsertPod(pod);
    }
    store.Refresh();
  }
  cluster::Store fresh(policy);
  for (const auto& [name, node] : nodes) fresh.UpsertNode(node);
  for (const auto& [name, pod] : pods) fresh.UpsertPod(pod);
  // A nomination of another scheduler's pod counts only if its node is known: that depends on the
  // order.
  for (const auto& [name, pod] : pods) {
    if (!pod.node_name.empty() || pod.nominated_node.empty()) continue;
    store.DeletePod(pod.meta.uid);
    fresh.DeletePod(pod.meta.uid);
  }
  RC_ASSERT(store.LedgerString() == fresh.LedgerString());
}

TEST_CASE("I7: the ledger is what the objects say", "[property][engine]") {
  REQUIRE(rc::check("step by step = at once", [] { CheckLedger(/*may_terminate=*/false); }));
}

TEST_CASE("I7: with pods that are ending", "[property][engine][bug]") {
  REQUIRE(rc::check("step by step = at once", [] { CheckLedger(/*may_terminate=*/true); }));
}

// --- Placement -----------------------------------------------------------------------------------

struct Cluster {
  struct Node {
    std::string name;
    int gpus;
    int cpus;
    std::string rack;
    int used_gpus;
    int used_cpus;
  };
  std::vector<Node> nodes;

  static Cluster Any() {
    Cluster cluster;
    const int count = *rc::gen::inRange(1, 9);
    for (int i = 0; i < count; ++i) {
      const int gpus = *rc::gen::element(4, 8, 8, 16);
      const int cpus = *rc::gen::inRange(1, 65);
      cluster.nodes.push_back({.name = "n" + std::to_string(i),
                               .gpus = gpus,
                               .cpus = cpus,
                               .rack = "r" + std::to_string(*rc::gen::inRange(0, 3)),
                               .used_gpus = *rc::gen::inRange(0, gpus + 1),
                               .used_cpus = *rc::gen::inRange(0, cpus + 1)});
    }
    return cluster;
  }

  void Build(Planning& t, bool backward = false) const {
    auto order = nodes;
    if (backward) std::ranges::reverse(order);
    for (const Node& n : order) t.Node(MakeNode(n.name).Gpu(n.gpus).Cpu(n.cpus).Rack(n.rack));
    for (const Node& n : nodes) {
      for (int i = 0; i < n.used_gpus; ++i) {
        t.Pod(MakePod("g-" + n.name + "-" + std::to_string(i)).Gpu(1).On(n.name));
      }
      if (n.used_cpus > 0) {
        t.Pod(MakePod("c-" + n.name).Cpu(std::to_string(n.used_cpus)).On(n.name));
      }
    }
  }

  /// By plain counting.
  int Room(int gpus, int cpus, const std::string& rack = "") const {
    int room = 0;
    for (const Node& n : nodes) {
      if (!rack.empty() && n.rack != rack) continue;
      int fit = 1000;
      if (gpus > 0) fit = std::min(fit, (n.gpus - n.used_gpus) / gpus);
      if (cpus > 0) fit = std::min(fit, (n.cpus - n.used_cpus) / cpus);
      room += fit;
    }
    return room;
  }
};

struct Ask {
  int size = *rc::gen::inRange(1, 13);
  int min = *rc::gen::inRange(1, size + 1);
  int gpus = *rc::gen::element(1, 2, 3, 4, 8);
  int cpus = *rc::gen::inRange(0, 9);
  testing::PodBuilder pod() const { return MakePod("").Gpu(gpus).Cpu(std::to_string(cpus)); }
};

TEST_CASE("placement is complete for members that are alike", "[property][policy]") {
  REQUIRE(rc::check("placed if and only if there is room", [] {
    const Cluster cluster = Cluster::Any();
    const Ask ask;
    Planning t;
    cluster.Build(t);
    const auto placed = t.Place(Members("m", ask.size, ask.pod()), ask.min);
    const int room = cluster.Room(ask.gpus, ask.cpus);
    RC_ASSERT(static_cast<int>(placed.size()) == (room < ask.min ? 0 : std::min(room, ask.size)));
    std::map<std::string, int> counts;
    for (const std::string& node : placed) ++counts[node];
    for (const auto& n : cluster.nodes) {
      RC_ASSERT(counts[n.name] * ask.gpus <= n.gpus - n.used_gpus);
      RC_ASSERT(counts[n.name] * ask.cpus <= n.cpus - n.used_cpus);
    }
  }));
  REQUIRE(rc::check("in one rack if and only if a rack has room", [] {
    const Cluster cluster = Cluster::Any();
    const Ask ask;
    Planning t;
    cluster.Build(t);
    auto request = t.Request(Members("m", ask.size, ask.pod()), ask.min);
    request.topology_required = "rack";
    const auto placed = t.Nodes(t.Place(request));
    int best = 0;
    for (const char* rack : {"r0", "r1", "r2"}) {
      best = std::max(best, cluster.Room(ask.gpus, ask.cpus, rack));
    }
    RC_ASSERT(static_cast<int>(placed.size()) == (best < ask.min ? 0 : std::min(best, ask.size)));
    std::set<std::string> racks;
    for (const std::string& node : placed) racks.insert(cluster.nodes[node[1] - '0'].rack);
    RC_ASSERT(racks.size() <= 1U);
  }));
}

TEST_CASE("a verdict is true", "[property][policy]") {
  REQUIRE(rc::check("its numbers are those of the cluster", [] {
    const Cluster cluster = Cluster::Any();
    const Ask ask;
    Planning t;
    cluster.Build(t);
    const auto placement = t.Place(t.Request(Members("m", ask.size, ask.pod())));
    if (placement.ok()) return;
    Cluster empty = cluster;
    int free = 0;
    for (auto& n : empty.nodes) {
      free += n.gpus - n.used_gpus;
      n.used_gpus = n.used_cpus = 0;
    }
    using enum cluster::ReasonId;
    const auto& verdict = placement.verdict;
    const int ever = empty.Room(ask.gpus, ask.cpus);
    RC_ASSERT((verdict.reason == kNeverFits) == (ever < ask.size));
    if (verdict.reason == kInsufficientDevices) {
      RC_ASSERT(verdict.have == free * 1000);
      RC_ASSERT(verdict.want == ask.gpus * ask.size * 1000);
      RC_ASSERT(free < ask.gpus * ask.size);
    }
    if (verdict.reason == kFragmented) {
      RC_ASSERT(free >= ask.gpus * ask.size);
      RC_ASSERT(cluster.Room(ask.gpus, 0) < ask.size);
    }
    if (verdict.reason == kInsufficientCpuOrMemory) {
      RC_ASSERT(cluster.Room(ask.gpus, 0) >= ask.size);
      RC_ASSERT(verdict.have == cluster.Room(ask.gpus, ask.cpus));
    }
    RC_ASSERT(verdict.reason != kSearchExhausted);
  }));
}

TEST_CASE("more room is never less", "[property][policy]") {
  REQUIRE(rc::check("a freed GPU makes nothing unplaceable", [] {
    const Cluster cluster = Cluster::Any();
    const Ask ask;
    Planning t;
    cluster.Build(t);
    const auto members = Members("m", ask.size, ask.pod());
    const std::size_t before = t.Place(members, ask.min).size();
    for (const auto& n : cluster.nodes) {
      if (n.used_gpus > 0) t.store.DeletePod("uid-g-" + n.name + "-0");
      const std::size_t after = t.Place(members, ask.min).size();
      RC_ASSERT(after >= before);
    }
  }));
}

std::vector<std::string> PlaceInOrder(const Cluster& cluster, const Ask& ask, bool backward) {
  Planning t;
  cluster.Build(t, backward);
  return t.Place(Members("m", ask.size, ask.pod()), ask.min);
}

TEST_CASE("the order in which nodes came decides nothing for one pod", "[property][policy]") {
  REQUIRE(rc::check("forward = backward", [] {
    const Cluster cluster = Cluster::Any();
    Ask ask;
    ask.size = ask.min = 1;
    RC_ASSERT(PlaceInOrder(cluster, ask, false) == PlaceInOrder(cluster, ask, true));
  }));
}

TEST_CASE("the order in which nodes came decides nothing for a gang", "[property][policy][bug]") {
  REQUIRE(rc::check("forward = backward", [] {
    const Cluster cluster = Cluster::Any();
    const Ask ask;
    RC_ASSERT(PlaceInOrder(cluster, ask, false) == PlaceInOrder(cluster, ask, true));
  }));
}

}  // namespace
}  // namespace berth
