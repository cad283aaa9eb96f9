// Nodes by topology level or node label.
#include "policy/node_groups.h"

#include <map>
#include <string>

#include "tests/support/catch.h"
#include "tests/support/planning.h"

namespace berth::policy {
namespace {

using testing::MakeNode;
using testing::Planning;
using Sizes = std::map<std::string, std::size_t>;

Sizes SizesOf(const cluster::Store& store, const std::string& level_or_label) {
  Sizes sizes;
  for (const auto& [name, nodes] : GroupBy(store, level_or_label)) {
    sizes[std::string(name)] = nodes.size();
  }
  return sizes;
}

TEST_CASE("nodes are grouped by level, or by label", "[unit][policy]") {
  Planning t;
  t.Node(MakeNode("a").Gpu(8).Block("b").Rack("r1"));
  t.Node(MakeNode("b").Gpu(8).Block("b").Rack("r2"));
  t.Node(MakeNode("c").Gpu(8).Block("b").Rack("r2").Label("island", "i"));
  t.store.Refresh();
  CHECK(SizesOf(t.store, "rack") == Sizes{{"b/r1", 1}, {"b/r2", 2}});
  CHECK(SizesOf(t.store, "island") == Sizes{{"i", 1}});
  CHECK(GroupBy(t.store, "lake").empty());
}

TEST_CASE("a level has a name and a label", "[unit][policy]") {
  const Planning t;
  CHECK(LevelIndex(t.store, "rack") == 1);
  CHECK(LevelIndex(t.store, "cloud.provider.com/topology-rack") == 1);
  CHECK(LevelIndex(t.store, "island") == -1);
}

}  // namespace
}  // namespace berth::policy
