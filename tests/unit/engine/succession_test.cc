// The engine of the next term, told of the cluster in parts while the cluster changes.
#include "engine/succession.h"

#include <fmt/format.h>

#include <set>
#include <string>

#include "tests/support/catch.h"
#include "tests/support/world.h"

namespace berth::engine {
namespace {

using testing::MakeNode;
using testing::MakePod;
using testing::MakePolicy;
using testing::MakeQueue;
using testing::World;

config::PolicyConfiguration TwoQueues(int limit) {
  return MakePolicy({MakeQueue("a", {"*"}, limit), MakeQueue("default", {"*"})});
}

/// A leader in the midst of its work, and what an engine knows of a cluster besides nodes and pods.
class Leading : public World {
 public:
  Leading() : World(TwoQueues(40)) {
    for (int i = 0; i < 4; ++i) Add(MakeNode("n" + std::to_string(i)).Gpu(8));
    for (const char* name : {"default", "other"})
      engine().OnNamespace(testing::MakeNamespace(name));
    for (const char* name : {"one", "two"}) {
      engine().OnDisruptionBudget(testing::MakeBudget(name, "app", name, 1));
    }
    for (const char* name : {"g", "h"}) engine().OnDialectObject(Group(name), now());
    Add(MakePod("run").Gpu(4).On("n0"));
    Add(MakePod("old").Gpu(2).Queue("a").On("n1"));
    for (const char* name : {"m0", "m1"}) Add(Member(name).On("n2"));
    Add(Member("m2"));
    Add(MakePod("wait").Gpu(8).Gated());
    Start();
    Change("m1", [](kube::Pod& pod) { pod.phase = kube::PodPhase::kSucceeded; });
  }
  static testing::PodBuilder Member(const std::string& name) {
    return MakePod(name).Gpu(1).Gang("g", 3).Claim("x-1", "n2", "default");
  }
  static kube::DialectObject Group(const std::string& name) {
    return {.kind = kube::DialectKind::kSigsPodGroup,
            .ns = "default",
            .name = name,
            .uid = "uid-of-" + name};
  }
};

/// What follows from the cluster alone, as text.
std::string Known(const Engine& engine) {
  const cluster::Store& store = engine.store();
  std::string text = store.LedgerString();
  text += fmt::format("{} pods {} ended {} namespaces {} budgets {} objects\n", store.pods().size(),
                      store.ended().size(), store.namespaces().size(),
                      store.disruption_budgets().size(), store.dialect_objects().by_uid().size());
  std::set<std::string> nodes;
  for (const auto& node : store.nodes()) {
    if (node->present) nodes.insert(fmt::format("{} {}\n", node->name, node->object.unschedulable));
  }
  for (const std::string& node : nodes) text += node;
  for (const auto& [key, workload] : store.workloads()) {
    text += fmt::format("{} {} {} {} {}\n", key, workload.members.size(), workload.faulty.size(),
                        workload.finished, workload.plan.empty());
  }
  return text;
}

using Event = void (*)(Leading& w);
struct NamedEvent {
  const char* name;
  Event happen;
};
const NamedEvent kEvents[] = {
    {"nothing", [](Leading&) {}},
    {"a node comes", [](Leading& w) { w.Add(MakeNode("n4").Gpu(8)); }},
    {"a node goes", [](Leading& w) { w.Remove("n0"); }},
    {"one goes, and another takes its slot",
     [](Leading& w) {
       w.Remove("n3");
       w.Add(MakeNode("n4").Gpu(2));
     }},
    {"a node is cordoned", [](Leading& w) { w.Add(MakeNode("n1").Gpu(8).Cordoned()); }},
    {"a pod comes", [](Leading& w) { w.Add(MakePod("new").Gpu(8).Gated()); }},
    {"a pod goes", [](Leading& w) { w.Delete("run"); }},
    {"pods go",
     [](Leading& w) {
       for (const char* pod : {"run", "old", "m0"}) w.Delete(pod);
     }},
    {"a pod is bound", [](Leading& w) { w.Add(MakePod("wait").Gpu(8).On("n3")); }},
    {"a pod is another one",
     [](Leading& w) { w.Add(MakePod("old").Uid("uid-again").Gpu(1).On("n1")); }},
    {"a member has succeeded",
     [](Leading& w) {
       w.Change("m0", [](kube::Pod& pod) { pod.phase = kube::PodPhase::kSucceeded; });
     }},
    {"one that had ended is gone", [](Leading& w) { w.Delete("m1"); }},
    {"namespaces",
     [](Leading& w) {
       w.engine().OnNamespaceDeleted("default");
       w.engine().OnNamespace(testing::MakeNamespace("a"));
       w.engine().OnNamespace(testing::MakeNamespace("z"));
     }},
    {"budgets",
     [](Leading& w) {
       w.engine().OnDisruptionBudgetDeleted(testing::MakeBudget("one", "app", "one", 1).meta.uid);
       w.engine().OnDisruptionBudget(testing::MakeBudget("a", "app", "a", 1));
     }},
    {"groups",
     [](Leading& w) {
       w.engine().OnDialectObjectDeleted("uid-of-g", w.now());
       w.engine().OnDialectObject(Leading::Group("a"), w.now());
     }},
    {"the policy is edited", [](Leading& w) { w.engine().OnPolicy(TwoQueues(4), w.now()); }},
    {"and pods mean something else",
     [](Leading& w) { w.engine().OnPolicy(MakePolicy({MakeQueue("default", {"*"})}), w.now()); }},
};

TEST_CASE("the next engine knows what happened while it was told of the cluster",
          "[unit][engine]") {
  const NamedEvent event = GENERATE(from_range(std::begin(kEvents), std::end(kEvents)));
  int parts = 0;
  for (int at = 0; at <= parts + 1; ++at) {
    Leading w;
    Succession succession(w.engine(), {.instance = "next", .pass_budget = 1});
    w.engine().SetListener(&succession);
    bool more = true;
    for (int part = 0; more; ++part) {
      if (part == at) event.happen(w);
      more = succession.GoOn(w.now());
      parts = std::max(parts, part);
    }
    w.engine().SetListener(nullptr);
    const auto next = succession.Take();
    const auto rebuilt = Engine::WithClusterOf(w.engine(), {.instance = "rebuilt"}, w.now());
    CHECK_FALSE(next->started());
    CHECK(next->PlanCounts() == std::pair(0, 0));
    for (Engine* engine : {next.get(), rebuilt.get()}) {
      engine->Start(w.now());
      do engine->Step(w.now());
      while (engine->unfinished());
    }
    INFO(event.name << " before part " << at);
    CHECK(Known(*next) == Known(*rebuilt));
    CHECK(next->store().policy() == w.store().policy());
  }
  CHECK(parts > 10);
}

TEST_CASE("a part of a succession is as large as the budget of a pass", "[unit][engine]") {
  World w;
  for (int i = 0; i < 450; ++i) w.Add(MakePod("p" + std::to_string(i)).Gpu(1).Gated());
  Succession small(w.engine(), {.instance = "next", .pass_budget = 20'000});
  CHECK(small.GoOn(w.now()));
  CHECK(small.GoOn(w.now()));
  CHECK_FALSE(small.GoOn(w.now()));
  CHECK(small.Take()->store().pods().size() == 450);
  Succession roomy(w.engine(), {.instance = "next", .expected_pods = 50'000});
  CHECK(roomy.Take()->store().pods().bucket_count() >= 50'000);
}

TEST_CASE("what follows from pods for their workloads is not left to one call before the start",
          "[unit][engine]") {
  Engine engine({}, {.instance = "x"});
  std::size_t most = 0;
  for (int i = 0; i < 450; ++i) {
    engine.OnPod(MakePod("p" + std::to_string(i)).Gpu(1).Gated(), 1'000);
    most = std::max(most, engine.store().stale_workloads());
  }
  CHECK(most == 200);
}

}  // namespace
}  // namespace berth::engine
