// Domains and node order after changes are those of an index made from nothing.
#include "cluster/topology_index.h"

#include <string>
#include <vector>

#include "cluster/store.h"
#include "tests/support/builders.h"
#include "tests/support/catch.h"

namespace berth::cluster {
namespace {

using testing::MakeNode;

using Names = std::vector<std::string>;

/// The index of the store, which follows its changes, beside one made from nothing.
struct Both {
  Both() {
    for (const char* name : {"n1", "n2", "n3", "n4"}) Put(MakeNode(name).Block("b").Rack("r"));
  }
  void Put(const kube::Node& node) { store.UpsertNode(node); }
  Names Rebuilt() {
    Store fresh{store.policy()};
    for (const auto& node : store.nodes()) {
      if (node->present) fresh.UpsertNode(node->object);
    }
    fresh.Refresh();
    return ShownBy(fresh);
  }
  Names Now() {
    store.Refresh();
    return ShownBy(store);
  }
  /// The domains, each with its members (`b/r: n1 n2`), then the nodes in their order.
  static Names ShownBy(const Store& of) {
    Names lines;
    for (const Domain& domain : of.domains()) {
      std::string line = domain.name + ':';
      for (const NodeIndex node : domain.nodes) line += ' ' + of.node(node).name;
      lines.push_back(std::move(line));
    }
    Names order(static_cast<std::size_t>(of.present_nodes()));
    for (const auto& node : of.nodes()) {
      if (node->present) order[static_cast<std::size_t>(of.rank(node->index))] = node->name;
    }
    lines.insert(lines.end(), order.begin(), order.end());
    return lines;
  }

  Store store{config::PolicyConfiguration()};
};

TEST_CASE("domains and order follow nodes that come, move and go", "[unit][cluster]") {
  Both t;
  CHECK(t.Now() == t.Rebuilt());
  const auto generation = t.store.topology_generation();
  SECTION("one comes") { t.Put(MakeNode("n5").Block("b").Rack("s")); }
  SECTION("one moves to a rack of its own") { t.Put(MakeNode("n2").Block("b").Rack("s")); }
  SECTION("one moves to a rack of the same name in another block") {
    t.Put(MakeNode("n2").Block("c").Rack("r"));
  }
  SECTION("one loses the label of its rack") { t.Put(MakeNode("n3").Block("b")); }
  SECTION("one goes") { t.store.DeleteNode("n1"); }
  SECTION("one goes, and another one takes its slot") {
    t.store.DeleteNode("n1");
    t.Put(MakeNode("n9").Block("a").Rack("r"));
  }
  SECTION("all go") {
    for (const char* name : {"n1", "n2", "n3", "n4"}) t.store.DeleteNode(name);
  }
  CHECK(t.Now() == t.Rebuilt());
  CHECK(t.store.topology_generation() > generation);
}

TEST_CASE("changes that say nothing of a node's place change no order", "[unit][cluster]") {
  Both t;
  const Names before = t.Now();
  const auto generation = t.store.topology_generation();
  t.Put(MakeNode("n1").Block("b").Rack("r").Gpu(8).Label("other", "x"));
  t.Put(MakeNode("n2").Block("b").Rack("r").Cordoned());
  CHECK(t.Now() == before);
  CHECK(t.store.topology_generation() == generation);
}

TEST_CASE("racks are filled one after the other", "[unit][cluster]") {
  Both t;
  for (const char* name : {"m1", "m2", "m3"}) t.Put(MakeNode(name).Block("b").Rack("s"));
  t.store.Refresh();
  std::string racks;
  Names order(7);
  for (const auto& node : t.store.nodes()) {
    order[static_cast<std::size_t>(t.store.rank(node->index))] = node->name;
  }
  for (const std::string& name : order) racks += name.front();
  CHECK((racks == "nnnnmmm" || racks == "mmmnnnn"));
}

TEST_CASE("under new levels nodes are read in parts, while others come and go", "[unit][cluster]") {
  const int at = GENERATE(0, 1, 2, 3, 4, 5, 6);
  const bool needed = GENERATE(false, true);
  Both t;
  for (const char* name : {"m1", "m2"}) {
    t.Put(MakeNode(name).Block("b").Rack("s").Label("example.com/row", name));
  }
  t.store.Refresh();
  config::PolicyConfiguration edited = t.store.policy();
  edited.levels.front().node_label = "example.com/row";
  if (at == 3) edited.levels.erase(edited.levels.begin());
  REQUIRE(t.store.BeginPolicy(edited));
  for (int part = 0; t.store.reading(); ++part) {
    if (part == at) {
      t.store.DeleteNode("n1");
      t.Put(MakeNode("n9").Block("b").Rack("s").Label("example.com/row", "m1"));
      t.Put(MakeNode("n2").Block("c").Rack("r").Label("example.com/row", "m2"));
      if (needed) {
        t.store.RefreshTopology();
        CHECK(Both::ShownBy(t.store) == t.Rebuilt());
      }
    }
    t.store.Refresh();
    for (const auto& node : t.store.nodes()) CHECK(t.store.rank(node->index) >= 0);
    t.store.ReadMore(1);
  }
  CHECK(t.Now() == t.Rebuilt());
  CHECK(t.store.domains().front().name != "b");
}

// A label value that nobody has any more is forgotten at some time.
TEST_CASE("nodes that come once leave nothing behind", "[unit][cluster]") {
  Both t;
  for (int i = 0; i < 10'000; ++i) {
    const std::string name = "guest-" + std::to_string(i);
    t.Put(MakeNode(name).Block("block-" + name).Rack("rack-" + name));
    t.store.Refresh();
    t.store.DeleteNode(name);
  }
  CHECK(t.Now() == t.Rebuilt());
  CHECK(t.store.nodes().size() == 5);
}

}  // namespace
}  // namespace berth::cluster
