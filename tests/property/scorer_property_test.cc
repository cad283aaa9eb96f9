// What the scorer has cached equals what it would compute again.
#include <rapidcheck.h>

#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/planning.h"

namespace berth {
namespace {

using testing::MakeNode;
using testing::MakePod;
using testing::Planning;

constexpr int kNodes = 6;

std::string NodeName(int i) { return "n" + std::to_string(i % kNodes); }

kube::Node AnyNode(int number) {
  auto node = MakeNode(NodeName(number)).Gpu(1 + number / kNodes % 8).Cpu(32);
  if (number / 50 % 2 == 0) node.Model("H100");
  if (number / 100 % 5 == 0) node.Taint("x");
  if (number / 500 % 5 == 0) node.Cordoned();
  if (number / 2'500 % 4 != 0) node.Block("b").Rack("r" + std::to_string(number / 2'500 % 4));
  return node;
}

kube::Pod AnyPod(int number) {
  auto pod = MakePod("p" + std::to_string(number % 12)).Gpu(number / 12 % 4);
  pod.Cpu(std::to_string(1 + number / 48 % 3));
  if (number / 144 % 3 == 0)
    pod.Annotation("berth.dev/gpu-milli", std::to_string(100 + number % 800));
  if (number / 432 % 4 == 0) pod.Selector("nvidia.com/gpu.product", "H100");
  return pod;
}

/// One change of the cluster, or of what the scorer knows about it.
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
      t.store.DeletePod("uid-p" + std::to_string(rest % 12));
      break;
    case 3:
      for (int i = 0; i < 40; ++i) t.scorer.mix().Observe(t.Pod(AnyPod(rest)).shape);
      break;
    default: {
      auto& pod = t.Pod(AnyPod(rest));
      const auto placement = t.Place(t.Request({pod.object}));
      if (!placement.ok()) break;
      const auto& at = placement.placed.front();
      t.store.SetCharge(pod, at.node, cluster::Charge::kPlanned, at.devices);
    }
  }
}

void Compare(Planning& t, int number) {
  const auto shape = t.Pod(AnyPod(number)).shape;
  t.store.Refresh();
  t.scorer.Refresh();
  const policy::Overlay overlay(t.store);
  policy::Scorer fresh(t.store);
  fresh.mix() = t.scorer.mix();
  for (const auto& node : t.store.nodes()) {
    RC_ASSERT(t.scorer.Of(shape, overlay, node->index) == fresh.Of(shape, overlay, node->index));
    RC_ASSERT(t.scorer.Of(shape, overlay, node->index).has_value() ==
              (policy::FitsNode(*shape->spec, *node) &&
               policy::Capacity(*shape, overlay, node->index, 1) == 1));
  }
}

void Check(bool shares) {
  Planning t({}, {.shares = shares});
  for (int i = 0; i < kNodes; ++i) t.Node(AnyNode(i + kNodes * 7));
  const auto numbers =
      *rc::gen::container<std::vector<int>>(rc::gen::resize(100, rc::gen::inRange(0, 1 << 20)));
  for (const int number : numbers) {
    Change(t, number);
    Compare(t, number / 3);
  }
}

TEST_CASE("remembered scores are right", "[property][policy]") {
  REQUIRE(rc::check("whole devices", [] { Check(false); }));
  REQUIRE(rc::check("shares", [] { Check(true); }));
}

}  // namespace
}  // namespace berth
