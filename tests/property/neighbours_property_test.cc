// The counts of neighbours that are kept equal those that are made from nothing, and an overlay
// says what the store would say after the same changes.
#include <rapidcheck.h>

#include <string>
#include <vector>

#include "policy/neighbours.h"
#include "tests/support/catch.h"
#include "tests/support/planning.h"

namespace berth {
namespace {

using testing::MakeNode;
using testing::MakePod;
using testing::Planning;

constexpr int kNodes = 6;
constexpr int kPods = 10;

std::string NodeName(int number) { return "n" + std::to_string(number % kNodes); }
std::string PodName(int number) { return "p" + std::to_string(number % kPods); }

kube::Node AnyNode(int number) {
  auto node = MakeNode(NodeName(number)).Gpu(8);
  if (number / 6 % 4 != 0) node.Label("zone", "z" + std::to_string(number / 6 % 4));
  if (number / 24 % 3 != 0) node.Label("pool", "gpu");
  return node;
}

/// One of a few kinds, with labels that the terms look at.
kube::Pod AnyPod(int number) {
  auto pod = MakePod(PodName(number)).Gpu(1).Label("app", number / 10 % 2 == 0 ? "x" : "y");
  pod.Ns(number % kPods % 4 == 0 ? "other" : "default");  // a pod stays in its namespace
  if (number / 80 % 2 == 0) pod.Label("rev", std::to_string(number / 160 % 2));
  const std::string key = number / 320 % 2 == 0 ? "zone" : "kubernetes.io/hostname";
  switch (number / 640 % 8) {
    case 0:
      pod.NotNear("app", "x", key);
      break;
    case 1:
      pod.NotNear("app", "y", key);
      pod.spec().required_pod_anti_affinity[0].match_label_keys = {"rev"};
      break;
    case 2:
      pod.NotNear("app", "x", key);
      pod.spec().required_pod_anti_affinity[0].namespace_selector =
          kube::LabelSelector{{{.key = "team", .values = {"a"}}}};
      break;
    case 3:
      pod.Near("app", "x", key);
      break;
    case 4:
      pod.Near("app", "x", key).Near("rev", "1", "zone");
      break;
    case 5:
      pod.Spread("app", "x", key, 1, 1 + number / 5120 % 3);
      break;
    case 6:
      pod.Spread("app", "y", "zone").Selector("pool", "gpu");
      break;
    default:
      break;
  }
  return pod;
}

void Change(Planning& t, int number) {
  const int rest = number / 8;
  switch (number % 8) {
    case 0:
      t.Node(AnyNode(rest));
      break;
    case 1:
      t.store.DeleteNode(NodeName(rest));
      break;
    case 2:
      t.store.DeletePod("uid-" + PodName(rest));
      break;
    case 3:
      t.store.UpsertNamespace(
          testing::MakeNamespace("other", {{"team", rest % 2 == 0 ? "a" : "b"}}));
      break;
    case 4: {
      kube::Pod pod = AnyPod(rest);
      pod.node_name = NodeName(rest / 3);
      if (rest % 5 == 0) pod.meta.deletion = 2000;
      t.Pod(pod);
      break;
    }
    default: {
      const auto& pod = t.Pod(AnyPod(rest));
      const auto node = t.node(NodeName(rest / 7));
      if (node == cluster::kNoNode || pod.bound() || pod.terminating()) break;
      t.store.SetCharge(pod, node, cluster::Charge::kPlanned);
    }
  }
}

using Answers = std::vector<bool>;

Answers Ask(const cluster::PodInfo& pod, const policy::Overlay& overlay,
            policy::NeighbourCache& cache) {
  const policy::Neighbours neighbours(pod, overlay, cache);
  Answers answers;
  for (const auto& node : overlay.store().nodes()) answers.push_back(neighbours.Allow(node->index));
  return answers;
}

TEST_CASE("kept counts of neighbours are right", "[property][policy]") {
  REQUIRE(rc::check([] {
    Planning t;
    policy::NeighbourCache kept(t.store);
    for (int i = 0; i < kNodes; ++i) t.Node(AnyNode(i + kNodes * i));
    const auto numbers =
        *rc::gen::container<std::vector<int>>(rc::gen::resize(100, rc::gen::inRange(0, 1 << 20)));
    for (const int number : numbers) {
      Change(t, number);
      const policy::Overlay overlay = t.overlay();
      for (const auto& [uid, pod] : t.store.pods()) {
        policy::NeighbourCache rebuilt(t.store);
        RC_ASSERT(Ask(pod, overlay, kept) == Ask(pod, overlay, rebuilt));
      }
    }
  }));
}

TEST_CASE("an overlay's neighbours are those after its changes", "[property][policy]") {
  REQUIRE(rc::check([] {
    Planning t;
    policy::NeighbourCache kept(t.store);
    for (int i = 0; i < kNodes; ++i) t.Node(AnyNode(i + kNodes * i));
    for (const int number :
         *rc::gen::container<std::vector<int>>(rc::gen::resize(40, rc::gen::inRange(0, 1 << 20)))) {
      Change(t, number);
    }
    const auto& asks = t.Pod(AnyPod(*rc::gen::inRange(0, 1 << 20)));
    const auto& comes = t.Pod(AnyPod(*rc::gen::inRange(0, 1 << 20)));
    RC_PRE(&asks != &comes && !comes.bound() && !comes.terminating());
    const auto node = t.node(NodeName(*rc::gen::inRange(0, kNodes)));
    policy::Overlay overlay = t.overlay();
    overlay.Remove(comes);
    if (*rc::gen::arbitrary<bool>()) {
      overlay.Place(comes, node);
      const Answers said = Ask(asks, overlay, kept);
      t.store.SetCharge(comes, node, cluster::Charge::kPlanned);
      RC_ASSERT(said == Ask(asks, t.overlay(), kept));
    } else {
      const Answers said = Ask(asks, overlay, kept);
      t.store.Unreserve(comes);
      RC_ASSERT(said == Ask(asks, t.overlay(), kept));
    }
  }));
}

}  // namespace
}  // namespace berth
