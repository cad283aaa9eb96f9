// The score, worked out by hand. Thousandths of a device in, millionths out.
#include "policy/score.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/planning.h"

namespace berth::policy {
namespace {

using testing::MakeNode;
using testing::MakePod;
using testing::Planning;

/// The fragment of `node` with that much CPU and devices free, both in thousandths.
std::int64_t FragmentOf(Planning& t, cluster::NodeIndex node, std::int64_t cpu,
                        std::int64_t devices) {
  t.store.Refresh();
  t.scorer.Refresh();
  return Fragment(t.scorer.mix().Class(t.scorer.mix().ClassOf(node)), cpu, devices, {});
}

/// Only rank-free terms: one node, so its rank is 0.
std::map<std::string, Score> TermsOn(int all, int used, const kube::Pod& pod) {
  config::PolicyConfiguration policy;
  policy.placement.score.odd_remainder = 500;
  policy.placement.score.empty_node = 1000;
  Planning t(policy);
  const auto n1 = t.Node(MakeNode("n1").Gpu(all));
  if (used > 0) t.Pod(MakePod("used").Gpu(used).On("n1"));
  const auto& shape = *t.Pod(pod).shape;
  return t.scorer.Terms(shape, t.overlay(), n1);
}

TEST_CASE("the built-in mix: 1, 2, 4 and 8 devices, equally popular", "[unit][policy]") {
  Planning t;
  const auto n1 = t.Node(MakeNode("n1").Gpu(8));
  REQUIRE(t.scorer.mix().entries().size() == 4);
  CHECK(t.scorer.mix().cpu_per_device() == 0);
  // Free x share of the sizes that do not fit into it.
  const std::vector<std::pair<int, int>> rows = {{0, 0},    {1, 750},  {2, 1000}, {3, 1500},
                                                 {4, 1000}, {5, 1250}, {6, 1500}, {7, 1750},
                                                 {8, 0},    {16, 0}};
  for (const auto& [free, fragment] : rows) {
    INFO(free);
    CHECK(FragmentOf(t, n1, 64'000, free * 1000) == fragment);
  }
  CHECK(FragmentOf(t, n1, 64'000, -2000) == 0);
}

struct TermRow {
  int free;
  int takes;
  Score fragmentation;
  Score odd;
  Score empty;
};

TEST_CASE("terms of one placement on a node of 8", "[unit][policy]") {
  const std::vector<TermRow> rows = {
      // F 0 -> 1.75; 7 stay, which is odd; a whole node is broken into.
      {8, 1, -1'750'000, -500'000, -1'000'000},
      {8, 2, -1'500'000, 0, -1'000'000},
      {8, 3, -1'250'000, -500'000, -1'000'000},
      {8, 4, -1'000'000, 0, -1'000'000},
      {8, 8, 0, 0, 0},  // all of it: nothing is broken
      {7, 1, 250'000, 500'000, 0},
      {6, 1, 250'000, -500'000, 0},
      {5, 1, 250'000, 500'000, 0},
      {4, 1, -500'000, -500'000, 0},
      {3, 1, 500'000, 500'000, 0},
      {2, 1, 250'000, -500'000, 0},
      {1, 1, 750'000, 500'000, 0},
      {7, 2, 500'000, 0, 0},
      {3, 2, 750'000, 0, 0},
      {2, 2, 1'000'000, 0, 0},
      {4, 4, 1'000'000, 0, 0},
  };
  for (const TermRow& row : rows) {
    INFO(row.takes << " of " << row.free);
    const auto terms = TermsOn(8, 8 - row.free, MakePod("p").Gpu(row.takes));
    CHECK(terms.at("fragmentation") == row.fragmentation);
    CHECK(terms.at("oddRemainder") == row.odd);
    CHECK(terms.at("emptyNode") == row.empty);
    CHECK(terms.at("stranding") == 0);
    CHECK(terms.at("scarcity") == 0);
    CHECK(terms.at("rank") == 0);
  }
}

TEST_CASE("a pod without devices shuns free devices", "[unit][policy]") {
  // 0.2 x free
  CHECK(TermsOn(8, 0, MakePod("p").Cpu("1")).at("emptyNode") == -1'600'000);
  CHECK(TermsOn(8, 4, MakePod("p").Cpu("1")).at("emptyNode") == -800'000);
  CHECK(TermsOn(8, 8, MakePod("p").Cpu("1")).at("emptyNode") == 0);
  CHECK(TermsOn(0, 0, MakePod("p").Cpu("1")).at("emptyNode") == 0);
  CHECK(TermsOn(8, 4, MakePod("p").Cpu("1")).at("fragmentation") == 0);
}

TEST_CASE("a whole-node pod takes what is there", "[unit][policy]") {
  const auto terms = TermsOn(8, 0, MakePod("p").Gpu(1).WholeNode());
  CHECK(terms.at("fragmentation") == 0);
  CHECK(terms.at("emptyNode") == 0);
}

TEST_CASE("Of is the sum of the terms, and knows what does not fit", "[unit][policy]") {
  Planning t;
  const auto n1 = t.Node(MakeNode("n1").Gpu(8));
  const auto n2 = t.Node(MakeNode("n2").Gpu(8).Taint("x"));
  const auto n3 = t.Node(MakeNode("n3").Gpu(8));
  t.Pod(MakePod("used").Gpu(8).On("n3"));
  const auto shape = t.Pod(MakePod("p").Gpu(1)).shape;
  Overlay overlay = t.overlay();
  const auto score = t.scorer.Of(shape, overlay, n1);
  REQUIRE(score.has_value());
  Score sum = 0;
  for (const auto& [name, term] : t.scorer.Terms(*shape, overlay, n1)) sum += term;
  CHECK(*score == sum);
  CHECK_FALSE(t.scorer.Of(shape, overlay, n2).has_value());
  CHECK_FALSE(t.scorer.Of(shape, overlay, n3).has_value());

  SECTION("what the overlay placed is seen, and not remembered") {
    overlay.Place(t.Pod(MakePod("q").Gpu(7)), n1);
    CHECK(*t.scorer.Of(shape, overlay, n1) - *score == 1'250'000 + 3'250'000);
    CHECK(*t.scorer.Of(shape, t.overlay(), n1) == *score);
  }
  SECTION("what the ledger changed is seen") {
    t.Pod(MakePod("q").Gpu(7).On("n1"));
    CHECK(*t.scorer.Of(shape, t.overlay(), n1) - *score == 1'250'000 + 3'250'000);
  }
  SECTION("new weights are seen") {
    config::PolicyConfiguration policy;
    policy.placement.score.odd_remainder = 0;
    t.store.SetPolicy(policy);
    const auto again = t.store.FindPod("uid-p")->shape;
    CHECK(*t.scorer.Of(again, t.overlay(), n1) - *score == 500'000);
  }
}

TEST_CASE("rank: graded first-fit over the hashed order", "[unit][policy]") {
  Planning t;
  for (const char* name : {"n1", "n2", "n3", "n4"}) t.Node(MakeNode(name).Gpu(8));
  const auto& shape = *t.Pod(MakePod("p").Gpu(8)).shape;
  const Overlay overlay = t.overlay();
  for (const char* name : {"n1", "n2", "n3", "n4"}) {
    // 5 x rank / 256: in a small cluster the order is all but a tie-break
    CHECK(t.scorer.Terms(shape, overlay, t.node(name)).at("rank") ==
          -5'000'000LL * t.rank(name) / 256);
  }
}

void Observe(Planning& t, const kube::Pod& like, int times) {
  const auto shape = t.Pod(like).shape;
  for (int i = 0; i < times; ++i) t.scorer.mix().Observe(shape);
}

TEST_CASE("rank fades where as many pods leave as come", "[unit][policy]") {
  Planning t;
  t.Node(MakeNode("n1").Gpu(8));
  t.store.Refresh();
  // The first mix only looks at how many pods there are: nothing is known of growth yet.
  Observe(t, MakePod("a").Gpu(1), 32);
  t.scorer.Refresh();
  CHECK(t.scorer.mix().growth() == 1000);
  // 250 arrivals, none of which got room: a quarter of what was known is replaced, each time.
  Observe(t, MakePod("a").Gpu(1), 250);
  t.scorer.Refresh();
  CHECK(t.scorer.mix().growth() == 750);
  // 250 arrivals, 5 of them got room: 20 thousandths.
  for (int i = 0; i < 5; ++i) t.Pod(MakePod("b" + std::to_string(i)).Gpu(1).On("n1"));
  Observe(t, MakePod("a").Gpu(1), 250);
  t.scorer.Refresh();
  CHECK(t.scorer.mix().growth() == (3 * 750 + 20) / 4);
}

// --- The learned mix
// ------------------------------------------------------------------------------

TEST_CASE("the mix is learned from arrivals, but not from a handful", "[unit][policy]") {
  Planning t;
  const auto n1 = t.Node(MakeNode("n1").Gpu(8));
  t.store.Refresh();
  Observe(t, MakePod("a").Gpu(2).Cpu("16"), 24);
  Observe(t, MakePod("b").Gpu(1).Cpu("4"), 7);
  t.scorer.Refresh();
  CHECK(t.scorer.mix().entries().front().shape == nullptr);  // 31
  Observe(t, MakePod("b").Gpu(1).Cpu("4"), 1);
  t.scorer.Refresh();
  const auto& entries = t.scorer.mix().entries();
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].devices == 2000);
  CHECK(entries[0].cpu == 16'000);
  CHECK(entries[0].millionths == 750'000);
  CHECK(entries[1].millionths == 250'000);
  // (24 x 16 + 8 x 4) cores over (24 x 2 + 8 x 1) devices: 416 / 56 = 7.428 cores
  CHECK(t.scorer.mix().cpu_per_device() == 7428);
  // 1 device free: 2-device pods cannot use it. 3/4 of 1.
  CHECK(FragmentOf(t, n1, 64'000, 1000) == 750);
  // 4 devices beside 15 cores: the big ones lack cores, the small ones do not.
  CHECK(FragmentOf(t, n1, 15'000, 4000) == 3000);
  CHECK(FragmentOf(t, n1, 16'000, 4000) == 0);
}

TEST_CASE("after the first time it changes every 250 arrivals", "[unit][policy]") {
  Planning t;
  t.store.Refresh();
  Observe(t, MakePod("a").Gpu(2), 32);
  t.scorer.Refresh();
  const auto generation = t.scorer.mix().generation();
  Observe(t, MakePod("b").Gpu(4), 249);
  t.scorer.Refresh();
  CHECK(t.scorer.mix().generation() == generation);
  CHECK(t.scorer.mix().entries().size() == 1);
  Observe(t, MakePod("b").Gpu(4), 1);
  t.scorer.Refresh();
  CHECK(t.scorer.mix().generation() == generation + 1);
  CHECK(t.scorer.mix().entries().size() == 2);
  // The window forgets: 1,000 arrivals later the first shape is gone.
  Observe(t, MakePod("b").Gpu(4), 1000);
  t.scorer.Refresh();
  CHECK(t.scorer.mix().entries().size() == 1);
}

TEST_CASE("the mix depends on what arrives, and not on when it is read", "[unit][policy]") {
  Planning t;
  Planning read_often;
  for (Planning* each : {&t, &read_often}) {
    each->Node(MakeNode("n1").Gpu(8));
    each->store.Refresh();
    for (int i = 0; i < 700; ++i) {
      each->scorer.Observe(each->Pod(MakePod("p").Gpu(1 + i % 3)).shape);
      if (each == &read_often) each->scorer.Refresh();
    }
  }
  // At the 32nd arrival, and 250 and 500 later.
  CHECK(t.scorer.mix().generation() == 4);
  CHECK(read_often.scorer.mix().generation() == 4);
  const auto popularity = [](Planning& each) {
    std::vector<std::int64_t> millionths;
    for (const auto& entry : each.scorer.mix().entries()) millionths.push_back(entry.millionths);
    return millionths;
  };
  CHECK(popularity(t) == popularity(read_often));
}

TEST_CASE("stranding: devices that CPU can no longer serve", "[unit][policy]") {
  Planning t;
  const auto n1 = t.Node(MakeNode("n1").Gpu(8).Cpu(64));
  t.store.Refresh();
  Observe(t, MakePod("a").Gpu(1).Cpu("8"), 32);  // 8 cores a device: 64 cores serve 8
  t.scorer.Refresh();
  // 1 device and 24 cores: 40 cores serve 5 of the 7 that stay. 0.6 x 2.
  const auto& greedy = *t.Pod(MakePod("p").Gpu(1).Cpu("24")).shape;
  CHECK(t.scorer.Terms(greedy, t.overlay(), n1).at("stranding") == -1'200'000);
  // 8 cores a device: all stay served.
  const auto& fair = *t.Pod(MakePod("q").Gpu(1).Cpu("8")).shape;
  CHECK(t.scorer.Terms(fair, t.overlay(), n1).at("stranding") == 0);
  // 4 devices and no core: 3 devices' worth of cores were stranded, and are not any more.
  t.Pod(MakePod("used").Cpu("40").On("n1"));  // 24 cores serve 3 of 8: 5 stranded
  const auto& lean = *t.Pod(MakePod("r").Gpu(4)).shape;
  CHECK(t.scorer.Terms(lean, t.overlay(), n1).at("stranding") == 2'400'000);  // 5 -> 1
}

TEST_CASE("scarcity: the price of a model that some are bound to", "[unit][policy]") {
  Planning t;
  const auto rare = t.Node(MakeNode("rare").Gpu(8).Model("H100"));
  const auto common = t.Node(MakeNode("common").Gpu(8).Model("T4"));
  t.store.Refresh();
  const char* key = "nvidia.com/gpu.product";
  Observe(t, MakePod("bound").Gpu(1).Selector(key, "H100"), 16);
  Observe(t, MakePod("free").Gpu(1), 16);
  t.scorer.Refresh();
  // Half of the demand is bound to H100; 16 free in all, 8 of them H100: 0.5 x 16 / 8 = 1.
  CHECK(t.scorer.mix().Price(t.store.node(rare)) == 1'000'000);
  CHECK(t.scorer.mix().Price(t.store.node(common)) == 0);
  const auto& shape = *t.Pod(MakePod("p").Gpu(2)).shape;
  CHECK(t.scorer.Terms(shape, t.overlay(), rare).at("scarcity") == -2'400'000);  // 1.2 x 2
  CHECK(t.scorer.Terms(shape, t.overlay(), common).at("scarcity") == 0);
}

TEST_CASE("a price is at most 2, also of a model without free devices", "[unit][policy]") {
  Planning t;
  const auto rare = t.Node(MakeNode("rare").Gpu(8).Model("H100"));
  for (const char* name : {"c1", "c2", "c3"}) t.Node(MakeNode(name).Gpu(8).Model("T4"));
  t.Pod(MakePod("used").Gpu(8).On("rare"));
  t.store.Refresh();
  Observe(t, MakePod("bound").Gpu(1).Selector("nvidia.com/gpu.product", "H100"), 32);
  t.scorer.Refresh();
  CHECK(t.scorer.mix().Price(t.store.node(rare)) == 2'000'000);  // 1 x 24 / 1, capped
}

// 500 shapes on 12,000 nodes of which no two are alike: each table takes some 300 KB.
TEST_CASE("tables of scores keep to their bound, the latest asked for stay",
          "[unit][policy][bug]") {
  Planning t;
  for (int i = 0; i < 12'000; ++i) {
    t.Node(MakeNode(fmt::format("n{}", i)).Gpu(8).Allocatable("cpu", 100'000 + i));
  }
  std::size_t most = 0;
  bool shrank = false;
  for (int i = 0; i < 500; ++i) {
    const auto& pod = t.Pod(MakePod(fmt::format("p{}", i)).Gpu(1).Cpu(fmt::format("{}m", i + 1)));
    t.store.Refresh();
    t.scorer.Refresh();
    const Overlay overlay(t.store);
    CHECK(t.scorer.For(pod.shape, overlay).nodes() == 12'000);
    shrank |= t.scorer.bytes() < most;
    most = std::max(most, t.scorer.bytes());
  }
  CHECK(shrank);
  CHECK(most < Scorer::kMaxBytes + Scorer::kMaxBytes / 4);
}

}  // namespace
}  // namespace berth::policy
