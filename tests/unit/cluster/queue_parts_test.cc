// What queues are charged beside the whole amounts: devices of one flavor, and what non-preemptible
// work holds.
#include <string>
#include <vector>

#include "cluster/store.h"
#include "tests/support/builders.h"
#include "tests/support/catch.h"

namespace berth::cluster {
namespace {

using testing::kGpu;
using testing::MakeNode;
using testing::MakePod;
using testing::MakePolicy;
using testing::MakeQueue;

constexpr const char* kH100 = "nvidia.com/gpu of flavor h100";
constexpr const char* kNonPreemptible = "nvidia.com/gpu for non-preemptible work";
constexpr const char* kBoth = "nvidia.com/gpu of flavor h100 for non-preemptible work";

/// Nodes with the label gpu: h100 are of flavor h100, and all others of flavor rest. Queue `a`,
/// below `top`, is promised 8 GPUs, 4 of them of flavor h100.
config::PolicyConfiguration TwoFlavors() {
  config::Queue a = MakeQueue("a", {"default"}, -1, 8);
  a.parent = "top";
  a.quotas = {{.flavor = "h100", .quota = {{kGpu, 4'000}}}};
  auto policy = MakePolicy({a, MakeQueue("top", {})});
  policy.flavors = {{.name = "h100", .node_selector = {{"gpu", "h100"}}}, {.name = "rest"}};
  policy.classes = {{.name = "interactive", .preemptible = false}, {.name = "training"}};
  return policy;
}

struct PartsTest {
  PartsTest() {
    store.UpsertNode(MakeNode("h").Gpu(8).Label("gpu", "h100"));
    store.UpsertNode(MakeNode("o").Gpu(8));
  }
  void Add(const kube::Pod& pod) { store.UpsertPod(pod); }
  /// GPUs, or a part of them, of a queue and of the one above it.
  std::vector<std::int64_t> Used(std::string_view what) const {
    const auto id = store.resources().Find(what);
    if (!id) return {};
    return {store.queue(store.FindQueue("a")).used[*id] / 1000,
            store.queue(store.FindQueue("top")).used[*id] / 1000};
  }
  FlavorId FlavorOf(const char* node) const { return store.node(store.FindNode(node)).flavor; }
  std::string Rebuilt() const {
    Store fresh(store.policy());
    for (const auto& node : store.nodes()) {
      if (node->present) fresh.UpsertNode(node->object);
    }
    for (const auto& [uid, pod] : store.pods()) fresh.UpsertPod(pod.object);
    return fresh.LedgerString();
  }

  Store store{TwoFlavors()};
};

using Amounts2 = std::vector<std::int64_t>;

TEST_CASE("a node is of the first flavor that it matches", "[unit][cluster]") {
  PartsTest t;
  CHECK(t.FlavorOf("h") == 0);
  CHECK(t.FlavorOf("o") == 1);
  auto policy = t.store.policy();
  policy.queues[0].quotas.clear();
  policy.flavors = {{.name = "h100", .node_selector = {{"gpu", "h100"}, {"zone", "z"}}}};
  t.store.SetPolicy(policy);
  CHECK(t.FlavorOf("h") == kNoFlavor);
  CHECK(t.FlavorOf("o") == kNoFlavor);
}

TEST_CASE("queues are charged for parts along the path", "[unit][cluster]") {
  PartsTest t;
  t.Add(MakePod("x").Gpu(1).On("h"));
  t.Add(MakePod("y").Gpu(2).On("o").Label("berth.dev/preemptible", "false"));
  t.Add(MakePod("z").Gpu(3).On("h").Label("berth.dev/class", "interactive"));
  CHECK(t.Used(kGpu) == Amounts2{6, 6});
  CHECK(t.Used(kH100) == Amounts2{4, 4});
  CHECK(t.Used(kNonPreemptible) == Amounts2{5, 5});
  CHECK(t.Used(kBoth) == Amounts2{3, 3});
  CHECK(t.store.LedgerString() == t.Rebuilt());

  SECTION("they are given back with the pod") {
    t.store.DeletePod("uid-z");
    CHECK(t.Used(kH100) == Amounts2{1, 1});
    CHECK(t.Used(kBoth) == Amounts2{0, 0});
  }
  SECTION("the node gets another flavor") {
    t.store.UpsertNode(MakeNode("h").Gpu(8));
    CHECK(t.Used(kGpu) == Amounts2{6, 6});
    CHECK(t.Used(kH100) == Amounts2{0, 0});
    CHECK(t.Used(kNonPreemptible) == Amounts2{5, 5});
    CHECK(t.store.LedgerString() == t.Rebuilt());
  }
  SECTION("the node goes, and comes back") {
    t.store.DeleteNode("h");
    CHECK(t.Used(kH100) == Amounts2{0, 0});
    CHECK(t.store.LedgerString() == t.Rebuilt());
    t.store.UpsertNode(MakeNode("h").Gpu(8).Label("gpu", "h100"));
    CHECK(t.Used(kH100) == Amounts2{4, 4});
  }
  SECTION("the policy gives up the amount, and has it again") {
    auto policy = t.store.policy();
    policy.queues[0].quotas.clear();
    t.store.SetPolicy(policy);
    CHECK(t.Used(kGpu) == Amounts2{6, 6});
    CHECK(t.Used(kH100) == Amounts2{0, 0});
    CHECK(t.store.LedgerString() == t.Rebuilt());
    t.store.SetPolicy(TwoFlavors());
    CHECK(t.Used(kH100) == Amounts2{4, 4});
    CHECK(t.store.LedgerString() == t.Rebuilt());
  }
  SECTION("the class becomes preemptible: pods without a claim follow") {
    auto policy = t.store.policy();
    policy.classes[0].preemptible = true;
    t.store.SetPolicy(policy);
    CHECK(t.Used(kNonPreemptible) == Amounts2{2, 2});
    CHECK(t.store.LedgerString() == t.Rebuilt());
  }
}

TEST_CASE("how a pod is charged is fixed by its Binding", "[unit][cluster]") {
  PartsTest t;
  const auto bound = [](const char* said) {
    return MakePod("p").Gpu(1).On("h").Annotation(
        "berth.dev/plan", std::string("v1;plan=x;node=h;queue=a;rank=0;preemptible=") + said);
  };
  t.Add(bound("true").Label("berth.dev/preemptible", "false"));
  CHECK(t.Used(kNonPreemptible) == Amounts2{0, 0});
  t.Add(bound("false").Label("berth.dev/preemptible", "true"));
  CHECK(t.Used(kNonPreemptible) == Amounts2{1, 1});
  CHECK(t.store.LedgerString() == t.Rebuilt());
}

TEST_CASE("a planned pod that is relabelled is charged as it was planned", "[unit][cluster]") {
  PartsTest t;
  t.Add(MakePod("p").Gpu(1));
  t.store.Refresh();
  t.store.SetCharge(*t.store.FindPod("uid-p"), t.store.FindNode("h"), Charge::kPlanned);
  CHECK(t.Used(kNonPreemptible) == Amounts2{0, 0});
  t.Add(MakePod("p").Gpu(1).Label("berth.dev/preemptible", "false"));
  CHECK(t.Used(kNonPreemptible) == Amounts2{0, 0});
  t.store.Unreserve(*t.store.FindPod("uid-p"));  // it is planned again
  t.store.SetCharge(*t.store.FindPod("uid-p"), t.store.FindNode("h"), Charge::kPlanned);
  CHECK(t.Used(kNonPreemptible) == Amounts2{1, 1});
  CHECK(t.Used(kBoth) == Amounts2{1, 1});
}

TEST_CASE("without a quota in total, the sum of its flavors is promised", "[unit][cluster]") {
  config::Queue a = MakeQueue("a", {"default"});
  a.quotas = {{.flavor = "h100", .quota = {{kGpu, 4'000}}},
              {.flavor = "rest", .quota = {{kGpu, 1'000}}}};
  auto policy = MakePolicy({a});
  policy.flavors = {{.name = "h100", .node_selector = {{"gpu", "h100"}}}, {.name = "rest"}};
  const Store store(policy);
  const QueueInfo& info = store.queue(store.FindQueue("a"));
  CHECK(info.quota[*store.resources().Find(kGpu)] == 5'000);
  const std::pair<ResourceId, std::int64_t> cap{*store.resources().Find(kNonPreemptible), 5'000};
  CHECK(std::ranges::find(info.non_preemptible_caps, cap) != info.non_preemptible_caps.end());
}

TEST_CASE("a class that the policy does not have is the pod's error", "[unit][cluster]") {
  PartsTest t;
  const PodInfo* pod = t.store.UpsertPod(MakePod("p").Gpu(1).Label("berth.dev/class", "trainin"));
  CHECK(pod->refusal.reason == ReasonId::kInvalidRequest);
  CHECK(Sentence(pod->refusal) == "berth.dev/class: the policy has no class \"trainin\".");
  auto policy = t.store.policy();
  policy.classes.clear();
  t.store.SetPolicy(policy);
  CHECK(t.store.FindPod("uid-p")->refusal.reason == ReasonId::kNone);
}

TEST_CASE("a value of preemptible that is neither true nor false is the pod's error",
          "[unit][cluster]") {
  PartsTest t;
  const PodInfo* pod = t.store.UpsertPod(MakePod("p").Gpu(1).Label("berth.dev/preemptible", "no"));
  CHECK(pod->refusal.reason == ReasonId::kInvalidRequest);
}

TEST_CASE("no node and no pod has a part of a resource", "[unit][cluster]") {
  PartsTest t;
  t.store.UpsertNode(MakeNode("odd").Gpu(1).Allocatable(kH100, 8'000));
  const auto id = *t.store.resources().Find(kH100);
  CHECK(t.store.node(t.store.FindNode("odd")).allocatable[id] == 0);
  const PodInfo* pod = t.store.UpsertPod(MakePod("p").Gpu(1).Request(kH100, "1"));
  CHECK(
      std::ranges::none_of(pod->shape->demand, [&](const auto& part) { return part.first == id; }));
}

}  // namespace
}  // namespace berth::cluster
