// Gangs in the tree: the ranks in every domain are contiguous, and the largest gang is exact.
#include <rapidcheck.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "policy/largest_gang.h"
#include "tests/support/catch.h"
#include "tests/support/planning.h"

namespace berth {
namespace {

using testing::MakeNode;
using testing::MakePod;
using testing::Planning;

/// A cluster drawn from numbers: any label may be missing, and a rack may be labelled with two
/// different blocks.
void AddNodes(Planning& t, const std::vector<int>& numbers) {
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const int number = numbers[i];
    const auto bits = [&number](int shift, int count) { return number / shift % count; };
    auto node = MakeNode("n" + std::to_string(i)).Gpu(1 + bits(1, 8)).Cpu(2 + bits(8, 8));
    if (bits(64, 4) != 0) node.Block("b" + std::to_string(bits(256, 2)));
    if (bits(512, 4) != 0) node.Rack("r" + std::to_string(bits(2048, 3)));
    if (bits(6144, 8) == 0) node.Cordoned();
    if (bits(49152, 8) == 0) node.Taint("x");
    if (bits(393216, 8) == 0) node.Label("kubernetes.io/hostname", bits(7, 2) == 0 ? "" : "twin");
    t.Node(node);
    if (bits(11, 3) == 0) {
      t.Pod(MakePod("used" + std::to_string(i)).Gpu(1).On("n" + std::to_string(i)));
    }
  }
}

std::vector<int> AnyNumbers(std::size_t most) {
  return *rc::gen::container<std::vector<int>>(*rc::gen::inRange<std::size_t>(1, most),
                                               rc::gen::resize(100, rc::gen::inRange(0, 1 << 22)));
}

std::vector<kube::Pod> PodsOf(const std::shared_ptr<const kube::PodSpec>& spec, int count) {
  std::vector<kube::Pod> pods;
  for (int i = 0; i < count; ++i) {
    kube::Pod pod = MakePod("m" + std::to_string(i)).Rank(i);
    pod.spec = spec;
    pods.push_back(std::move(pod));
  }
  return pods;
}

bool Fits(Planning& t, const policy::PodSize& size, const std::string& level, int count) {
  auto request = t.Request(PodsOf(size.shape->spec, count));
  request.topology_required = level;
  request.explain = false;
  return t.Place(request).ok();
}

TEST_CASE("the largest gang fits, and none larger", "[property][policy]") {
  REQUIRE(rc::check("by level and size", [] {
    Planning t;
    AddNodes(t, AnyNumbers(7));
    t.Pod(MakePod("seen").Gpu(2).Cpu("3").Tolerate("x"));
    t.Pod(MakePod("odd").Gpu(3));
    t.store.Refresh();
    const auto sizes = t.PodSizes();
    for (const auto& gang : policy::LargestGangs(t.store, sizes)) {
      const auto size = std::ranges::find(sizes, gang.devices, &policy::PodSize::devices);
      const std::string level =
          gang.level < 0 ? "" : t.store.policy().levels[static_cast<std::size_t>(gang.level)].name;
      int most = 0;
      while (Fits(t, *size, level, most + 1)) ++most;
      RC_ASSERT(gang.pods == most);
    }
  }));
}

/// Whether equal values are adjacent; kNoDomain does not count as a value.
bool InRows(const std::vector<cluster::DomainId>& values) {
  std::set<cluster::DomainId> left;
  for (std::size_t i = 1; i < values.size(); ++i) {
    if (values[i] == values[i - 1]) continue;
    if (values[i - 1] != cluster::kNoDomain) left.insert(values[i - 1]);
    if (left.contains(values[i])) return false;
  }
  return true;
}

TEST_CASE("ranks are rows in every domain of every level", "[property][policy]") {
  REQUIRE(rc::check("members of one shape", [] {
    Planning t;
    AddNodes(t, AnyNumbers(24));
    auto member = MakePod("").Gpu(*rc::gen::inRange(1, 4));
    if (*rc::gen::inRange(0, 3) == 0) {
      member.Label("app", "x").NotNear("app", "x", "kubernetes.io/hostname");
    }
    auto pods = testing::Members("m", *rc::gen::inRange(2, 30), member);
    auto request = t.Request(pods, 1);
    const std::vector<std::string> levels{"", "block", "rack", "host"};
    request.topology_required = levels[static_cast<std::size_t>(*rc::gen::inRange(0, 3))];
    request.topology_preferred = levels[static_cast<std::size_t>(*rc::gen::inRange(0, 4))];
    request.explain = false;
    const auto placement = t.Place(request);
    for (std::size_t level = 0; level < 3; ++level) {
      std::vector<cluster::DomainId> domains;
      for (const auto& placed : placement.placed) {
        domains.push_back(t.store.node(placed.node).domains[level]);
      }
      RC_ASSERT(InRows(domains));
    }
  }));
}

}  // namespace
}  // namespace berth
