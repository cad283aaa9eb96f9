// Elastic gangs whose members want different nodes start exactly if enough of them have a place
// (engine/decide_start.cc), against plain counting: with members of one size, as many fit as the
// members for each kind of node have places there, and the others in what is left.
#include <fmt/format.h>
#include <rapidcheck.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/draw.h"
#include "tests/support/world.h"

namespace berth::engine {
namespace {

using testing::In;
using testing::MakeNode;
using testing::MakePod;
using testing::MakeQueue;
using testing::World;

constexpr std::array<const char*, 3> kKinds{"f", "h", ""};

/// GPUs of the nodes of each kind that are free, or that a limit leaves.
using Rooms = std::array<int, 3>;

int MostThatFit(const std::array<int, 3>& members, const Rooms& rooms) {
  const int f = std::min(members[0], rooms[0]);
  const int h = std::min(members[1], rooms[1]);
  return f + h + std::min(members[2], rooms[0] - f + rooms[1] - h + rooms[2]);
}

/// Some nodes of each kind, of which the queue uses some GPUs. `limits`: by kind.
Rooms AddNodes(World& world, std::array<int, 3> limits) {
  Rooms rooms{};
  for (std::size_t kind = 0; kind < kKinds.size(); ++kind) {
    for (int i = In(0, 2); i > 0; --i) {
      const std::string name = fmt::format("{}{}", kind, i);
      const int gpus = In(1, 3);
      const int busy = In(0, gpus);
      world.Add(MakeNode(name).Gpu(gpus).Label("k", kKinds[kind]));
      if (busy > 0) world.Add(MakePod("busy-" + name).Gpu(busy).On(name));
      rooms[kind] += gpus - busy;
      limits[kind] -= busy;
    }
    rooms[kind] = std::clamp(limits[kind], 0, rooms[kind]);
  }
  return rooms;
}

/// `with_limits`: of the flavors f and h; then no member goes without a selector, as all would have
/// to go to nodes of one flavor.
void CheckSomeGang(bool with_limits) {
  config::Queue queue = MakeQueue("q", {"default"}, -1, -1);
  config::PolicyConfiguration policy;
  std::array<int, 3> limits{100, 100, 100};
  if (with_limits) {
    for (std::size_t kind = 0; kind < 2; ++kind) {
      limits[kind] = In(0, 5);
      policy.flavors.push_back({.name = kKinds[kind], .node_selector = {{"k", kKinds[kind]}}});
      queue.quotas.push_back(
          {.flavor = kKinds[kind], .limit = {{testing::kGpu, 1000 * limits[kind]}}});
    }
  }
  policy.queues = {queue};
  World world(policy);
  const Rooms rooms = AddNodes(world, limits);
  world.Start();
  const int size = In(1, 7);
  const int min = In(1, size);
  std::array<int, 3> members{};
  for (int i = 0; i < size; ++i) {
    const auto kind = static_cast<std::size_t>(In(0, with_limits ? 1 : 2));
    auto pod = MakePod(fmt::format("m{}", i)).Gpu(1).Gang("g", size).Min(min).Gated();
    if (*kKinds[kind] != '\0') pod.Selector("k", kKinds[kind]);
    world.Add(pod);
    ++members[kind];
  }
  world.Tick();
  int planned = 0;
  for (int i = 0; i < size; ++i) planned += world.Planned(fmt::format("m{}", i)).empty() ? 0 : 1;
  const int most = MostThatFit(members, rooms);
  RC_LOG() << "members " << members[0] << ' ' << members[1] << ' ' << members[2] << ", rooms "
           << rooms[0] << ' ' << rooms[1] << ' ' << rooms[2] << ", minimum " << min << ", planned "
           << planned << '\n';
  RC_ASSERT((planned > 0) == (most >= min));
  RC_ASSERT(planned == 0 || (planned >= min && planned <= most));
}

TEST_CASE("an elastic gang starts if enough of its members have places", "[property][engine]") {
  CHECK(rc::check([] { CheckSomeGang(/*with_limits=*/false); }));
  CHECK(rc::check([] { CheckSomeGang(/*with_limits=*/true); }));
}

}  // namespace
}  // namespace berth::engine
