// The order of nodes, and their domains.
#include <set>
#include <string>

#include "tests/support/builders.h"
#include "tests/support/catch.h"
#include "tests/unit/cluster/store_fixture.h"

namespace berth::cluster {
namespace {

using testing::MakeNode;

TEST_CASE("nodes have one hashed order, however they came", "[unit][cluster]") {
  StoreTest forward;
  StoreTest backward;
  for (int i = 0; i < 20; ++i) {
    forward.store.UpsertNode(MakeNode("n" + std::to_string(i)));
    backward.store.UpsertNode(MakeNode("n" + std::to_string(19 - i)));
  }
  forward.store.Refresh();
  backward.store.Refresh();
  std::set<int> ranks;
  bool shuffled = false;
  for (int i = 0; i < 20; ++i) {
    const std::string name = "n" + std::to_string(i);
    const int rank = forward.store.rank(forward.node(name));
    CHECK(rank == backward.store.rank(backward.node(name)));
    shuffled |= rank != i;
    ranks.insert(rank);
  }
  CHECK(ranks.size() == 20);
  CHECK(*ranks.rbegin() == 19);
  CHECK(shuffled);
}

TEST_CASE("domains: same label and same wider domains", "[unit][cluster]") {
  StoreTest t;
  t.store.UpsertNode(MakeNode("a").Block("b1").Rack("r1"));
  t.store.UpsertNode(MakeNode("b").Block("b1").Rack("r1"));
  t.store.UpsertNode(MakeNode("c").Block("b2").Rack("r1"));  // another r1
  t.store.UpsertNode(MakeNode("d").Block("b2"));             // no rack
  t.store.Refresh();
  std::map<std::string, std::size_t> sizes;
  for (const Domain& domain : t.store.domains()) {
    if (domain.level < 2) sizes[domain.name] = domain.nodes.size();
  }
  CHECK(sizes ==
        std::map<std::string, std::size_t>{{"b1", 2}, {"b1/r1", 2}, {"b2", 2}, {"b2/r1", 1}});
  CHECK(t.store.node(t.node("d")).domains[1] == kNoDomain);
  CHECK(t.store.node(t.node("a")).domains[1] == t.store.node(t.node("b")).domains[1]);
  t.store.DeleteNode("c");
  t.store.Refresh();
  CHECK(std::ranges::none_of(t.store.domains(), [](const Domain& d) { return d.name == "b2/r1"; }));
}

TEST_CASE("domains: a gap in the labels joins no nodes", "[unit][cluster]") {
  StoreTest t;
  t.store.UpsertNode(MakeNode("whole").Block("b1").Rack("r1"));
  t.store.UpsertNode(MakeNode("no-block").Rack("r1"));
  t.store.UpsertNode(MakeNode("empty-block").Block("").Rack("r1"));
  t.store.UpsertNode(
      MakeNode("no-host").Block("b1").Rack("r1").Label("kubernetes.io/hostname", ""));
  t.store.Refresh();
  const auto domains = [&t](const char* name) { return t.store.node(t.node(name)).domains; };
  CHECK(domains("no-block")[0] == kNoDomain);
  CHECK(domains("no-block")[1] != kNoDomain);
  CHECK(domains("no-block")[1] != domains("whole")[1]);
  CHECK(domains("no-block")[1] == domains("empty-block")[1]);  // as far as is known, the same
  CHECK(domains("no-host")[1] == domains("whole")[1]);
  CHECK(domains("no-host")[2] == kNoDomain);
}

TEST_CASE("domains: labels that run in a circle are no tree, and do no harm", "[unit][cluster]") {
  StoreTest t;
  t.store.UpsertNode(MakeNode("a").Block("x").Rack("y"));
  t.store.UpsertNode(MakeNode("b").Block("y").Rack("x"));
  t.store.UpsertNode(MakeNode("c").Block("x").Rack("x"));
  t.store.Refresh();
  std::map<std::string, int> levels;
  for (const Domain& domain : t.store.domains()) {
    if (domain.level < 2) levels[domain.name] = domain.level;
    CHECK(domain.nodes.size() == (domain.name == "x" ? 2 : 1));
  }
  CHECK(levels ==
        std::map<std::string, int>{{"x", 0}, {"y", 0}, {"x/y", 1}, {"y/x", 1}, {"x/x", 1}});
}

// Cloned machines that kept their host name.
TEST_CASE("domains: two nodes of one host name are two hosts", "[unit][cluster][bug]") {
  StoreTest t;
  for (const char* name : {"a", "b"}) {
    t.store.UpsertNode(MakeNode(name).Block("b").Rack("r").Label("kubernetes.io/hostname", "same"));
  }
  t.store.Refresh();
  CHECK(t.store.node(t.node("a")).domains[1] == t.store.node(t.node("b")).domains[1]);
  CHECK(t.store.node(t.node("a")).domains[2] != t.store.node(t.node("b")).domains[2]);
}

}  // namespace
}  // namespace berth::cluster
