// Fair shares, worked out by hand. Numbers are devices.
#include "policy/fair_share.h"

#include <catch2/catch.hpp>
#include <map>

namespace berth::policy {
namespace {

/// Size and number.
using Jobs = std::vector<std::pair<int, int>>;

struct Asker {
  const char* name;
  const char* parent;
  int quota;
  Jobs jobs;
  int weight = 1;
  int limit = -1;  ///< -1: none.
  int kept = 0;
  int priority = 0;
};

FairTree TreeOf(int pool, const std::vector<Asker>& askers) {
  FairTree tree{.total = {pool * 1000}, .pool = {pool * 1000}};
  std::map<std::string, int> places;
  for (const Asker& asker : askers) places.emplace(asker.name, static_cast<int>(places.size()));
  for (const Asker& asker : askers) {
    FairQueue queue{.name = asker.name,
                    .parent = *asker.parent == '\0' ? -1 : places.at(asker.parent),
                    .quota = {asker.quota * 1000},
                    .limit = {asker.limit < 0 ? kNoLimit : asker.limit * 1000},
                    .kept = {asker.kept * 1000},
                    .used = {0},
                    .weight = asker.weight * 1000,
                    .priority = asker.priority};
    for (const auto& [size, count] : asker.jobs) queue.jobs.push_back({{size * 1000}, count});
    tree.queues.push_back(std::move(queue));
  }
  return tree;
}

std::vector<std::int64_t> SharesOf(int pool, const std::vector<Asker>& askers) {
  std::vector<std::int64_t> shares;
  for (const DeviceAmounts& share : FairShares(TreeOf(pool, askers))) {
    shares.push_back(share.at(0) / 1000);
  }
  return shares;
}

struct Row {
  const char* what;
  int pool;
  std::vector<Asker> queues;
  std::vector<std::int64_t> shares;
};

void Check(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    INFO(row.what);
    CHECK(SharesOf(row.pool, row.queues) == row.shares);
  }
}

TEST_CASE("first the quotas, as far as demanded, then the rest by weight", "[unit][policy]") {
  Check({
      {"nobody", 8, {}, {}},
      {"enough for all", 16, {{"a", "", 4, {{1, 6}}}, {"b", "", 0, {{1, 7}}}}, {6, 7}},
      // 16 - 8 = 8 above the quota of a, one by one.
      {"alike above quota", 16, {{"a", "", 8, {{1, 99}}}, {"b", "", 0, {{1, 99}}}}, {12, 4}},
      // a demands 2 of its 8; the rest is shared.
      {"idle quota is shared",
       16,
       {{"a", "", 8, {{1, 2}}}, {"b", "", 0, {{1, 99}}}, {"c", "", 0, {{1, 99}}}},
       {2, 7, 7}},
      // 8 above quota, 3 to 1.
      {"by weight", 16, {{"a", "", 4, {{1, 99}}, 3}, {"b", "", 4, {{1, 99}}, 1}}, {10, 6}},
      // c wants 1 of its third (4): the others share the 11 that are left; a comes first by name.
      {"filled up to demand",
       12,
       {{"a", "", 0, {{1, 99}}}, {"b", "", 0, {{1, 99}}}, {"c", "", 0, {{1, 1}}}},
       {6, 5, 1}},
      {"up to a limit", 12, {{"a", "", 0, {{1, 99}}, 1, 3}, {"b", "", 0, {{1, 99}}}}, {3, 9}},
      {"without weight nothing above quota",
       12,
       {{"a", "", 2, {{1, 99}}, 0}, {"b", "", 0, {{1, 5}}}},
       {2, 5}},
      // Of the quotas 8 and 4 there is one half.
      {"of quotas beyond what there is, the same part",
       6,
       {{"a", "", 8, {{1, 99}}}, {"b", "", 4, {{1, 99}}}},
       {4, 2}},
      {"or by priority",
       6,
       {{"a", "", 8, {{1, 99}}}, {"b", "", 4, {{1, 99}}, 1, -1, 0, 1}},
       {2, 4}},
      {"ties by priority, then name",
       3,
       {{"b", "", 0, {{1, 9}}}, {"a", "", 0, {{1, 9}}}, {"c", "", 0, {{1, 9}}, 1, -1, 0, 1}},
       {1, 1, 1}},
      {"one is left over",
       4,
       {{"b", "", 0, {{1, 9}}}, {"a", "", 0, {{1, 9}}}, {"c", "", 0, {{1, 9}}, 1, -1, 0, 1}},
       {1, 1, 2}},
  });
}

TEST_CASE("shares are filled in whole jobs", "[unit][policy]") {
  Check({
      // A tie, so a has it by name; a second one does not fit.
      {"a gang each", 8, {{"a", "", 0, {{8, 1}}}, {"b", "", 0, {{8, 1}}}}, {8, 0}},
      // a has 3, then b, then a has 6; 2 are left, too few for b.
      {"what fits no job is left", 11, {{"a", "", 0, {{3, 9}}}, {"b", "", 0, {{3, 9}}}}, {6, 3}},
      // a would have 6, so b comes first with 1 to 5. With 6 it is a tie, which a wins by name. One
      // of 12 is left: it is b's sixth.
      {"large and small", 12, {{"a", "", 0, {{6, 9}}}, {"b", "", 0, {{1, 99}}}}, {6, 6}},
      // With its job of 5, a has 1 above quota, as b has with its first one: a by name. 3 are left.
      {"a job beyond the quota goes by weight",
       8,
       {{"a", "", 4, {{5, 2}}}, {"b", "", 0, {{1, 99}}}},
       {5, 3}},
      // Within the quota of 4 there is one job of 3. With the second one a has 2 above it, which is
      // as much as b has with its second one. b has what is left: 12 - 6.
      {"one of two within quota", 12, {{"a", "", 4, {{3, 2}}}, {"b", "", 0, {{1, 99}}}}, {6, 6}},
      // Below 16, a takes single ones: 8 of them, when all is shared out.
      {"a gang that is too large does not take its queue's share away",
       16,
       {{"a", "", 0, {{16, 1}, {1, 99}}}, {"b", "", 0, {{1, 99}}}},
       {8, 8}},
      // Each has its quota; a with its 4 single ones, b with 8. As soon as a may have 16, which is
      // 8
      // above its quota, it takes the gang instead of the single ones. b goes on to 16.
      {"nor do small jobs beside a gang",
       32,
       {{"a", "", 8, {{16, 1}, {1, 4}}}, {"b", "", 8, {{1, 99}}}},
       {16, 16}},
      {"a job beyond the limit is no demand",
       16,
       {{"a", "", 0, {{6, 9}, {1, 2}}, 1, 5}, {"b", "", 0, {{1, 5}}}},
       {2, 5}},
      {"nor is one larger than all that there is",
       8,
       {{"a", "", 0, {{9, 1}}}, {"b", "", 0, {{1, 99}}}},
       {0, 8}},
  });
}

TEST_CASE("level by level down the tree", "[unit][policy]") {
  Check({
      // 8 each; x and y share one half.
      {"departments before teams",
       16,
       {{"a", "", 0, {}},
        {"x", "a", 0, {{1, 99}}},
        {"y", "a", 0, {{1, 99}}},
        {"b", "", 0, {{1, 99}}}},
       {8, 4, 4, 8}},
      // a: 6 + (16 - 6) / 2 = 11; of these x has its quota of 5, and of the other 6 one half.
      {"quotas at both levels",
       16,
       {{"a", "", 6, {}},
        {"x", "a", 5, {{1, 99}}},
        {"y", "a", 0, {{1, 99}}},
        {"b", "", 0, {{1, 99}}}},
       {11, 8, 3, 5}},
      // The promise of x holds within a, which itself is promised nothing.
      {"a quota below a queue without one",
       8,
       {{"a", "", 0, {}},
        {"x", "a", 4, {{1, 99}}},
        {"y", "a", 0, {{1, 99}}},
        {"b", "", 8, {{1, 6}}}},
       {2, 2, 0, 6}},
      // Of a's 9, its own work, x and y have a third each.
      {"own work stands beside the queues below, with weight 1",
       18,
       {{"a", "", 0, {{1, 99}}, 1},
        {"x", "a", 0, {{1, 99}}},
        {"y", "a", 0, {{1, 99}}},
        {"b", "", 0, {{1, 99}}}},
       {9, 3, 3, 9}},
      // x has its 6, then one more each; a's own work wins the tie by name.
      {"and without a quota of its own",
       8,
       {{"a", "", 8, {{1, 99}}}, {"x", "a", 6, {{1, 99}}}},
       {8, 7}},
      {"a limit above holds for all below it",
       16,
       {{"a", "", 0, {}, 1, 6},
        {"x", "a", 0, {{1, 99}}, 2},
        {"y", "a", 0, {{1, 99}}},
        {"b", "", 0, {{1, 99}}}},
       {6, 4, 2, 10}},
      {"no weight above: nothing beyond its quota for anybody below",
       16,
       {{"a", "", 3, {}, 0}, {"x", "a", 0, {{1, 99}}}, {"y", "a", 0, {{1, 99}}}},
       {3, 2, 1}},
  });
}

TEST_CASE("the example of docs/queues.md", "[unit][policy]") {
  Check({{"16 GPUs",
          16,
          {{"science", "", 8, {}},
           {"lab", "science", 0, {{1, 12}}, 2},
           {"field", "science", 0, {{1, 4}}},
           {"web", "", 4, {{1, 3}}},
           {"guests", "", 0, {{1, 11}}}},
          {10, 7, 3, 3, 3}}});
}

TEST_CASE("what queues keep for themselves is in no other queue's share", "[unit][policy]") {
  Check({
      // a keeps 5 of 8 and wants nothing.
      {"all of it idle", 16, {{"a", "", 8, {}, 1, -1, 5}, {"b", "", 0, {{1, 99}}}}, {0, 11}},
      {"a part of it used",
       16,
       {{"a", "", 8, {{1, 4}}, 1, -1, 5}, {"b", "", 0, {{1, 99}}}},
       {4, 11}},
      {"within quota nobody waits for it",
       16,
       {{"a", "", 8, {}, 1, -1, 8}, {"b", "", 12, {{1, 99}}}},
       {0, 12}},
      // x's 3 are a part of what a keeps: 16 - 5.
      {"what is kept below is not added",
       16,
       {{"a", "", 8, {}, 1, -1, 5}, {"x", "a", 4, {}, 1, -1, 3}, {"b", "", 0, {{1, 99}}}},
       {0, 0, 11}},
      // What a keeps is y's as well, but for the 3 that x keeps: 16 - 3.
      {"what a queue keeps is for those below it",
       16,
       {{"a", "", 8, {}, 1, -1, 5}, {"x", "a", 4, {}, 1, -1, 3}, {"y", "a", 0, {{1, 99}}}},
       {13, 0, 13}},
  });
}

// 8 GPUs and 80 NICs: a job of 1 GPU counts as much as one of 10 NICs. Each of the three has one
// eighth, two, three and four eighths of its dominant kind. Then the GPUs are shared out, and b
// goes on alone.
TEST_CASE("of several kinds of devices the dominant one is shared", "[unit][policy]") {
  FairTree tree{.total = {8000, 80'000}, .pool = {8000, 80'000}};
  for (const char* name : {"a", "b", "c"}) {
    tree.queues.push_back({.name = name,
                           .quota = {0, 0},
                           .limit = {kNoLimit, kNoLimit},
                           .kept = {0, 0},
                           .used = {0, 0}});
  }
  tree.queues[0].jobs = {{{1000, 0}, 99}};
  tree.queues[1].jobs = {{{0, 10'000}, 99}};
  tree.queues[2].jobs = {{{1000, 2000}, 99}};
  // c has 4 GPUs and with them 8 NICs: b gets 80 - 8 = 72, in tens.
  CHECK(FairShares(tree) == std::vector<DeviceAmounts>{{4000, 0}, {0, 70'000}, {4000, 8000}});
  // One kind being exhausted, a queue still gets its share of the other.
  tree.queues[0].jobs.push_back({{0, 5000}, 99});
  tree.queues[1].jobs.clear();
  tree.queues[2].jobs = {{{1000, 0}, 99}};
  CHECK(FairShares(tree)[0] == DeviceAmounts{4000, 80'000});
  CHECK(FairShares(tree)[2] == DeviceAmounts{4000, 0});
}

/// A queue with a quota of GPUs and NICs, and `count` jobs of so many GPUs and NICs.
FairQueue Asks(const char* name, DeviceAmounts quota, DeviceAmounts job, std::int64_t count) {
  return {.name = name,
          .quota = std::move(quota),
          .limit = {kNoLimit, kNoLimit},
          .kept = {0, 0},
          .used = {0, 0},
          .jobs = {{std::move(job), count}}};
}

FairTree GpusAndNics(int each, std::vector<FairQueue> queues) {
  const DeviceAmounts pool(2, each * 1000);
  return {.total = pool, .pool = pool, .queues = std::move(queues)};
}

// A quota that names no NICs promises nothing of them, and forbids nothing.
TEST_CASE("a quota of one kind promises jobs that ask for other kinds, too",
          "[unit][policy][bug]") {
  const DeviceAmounts none{0, 0};
  const DeviceAmounts both{1000, 1000};
  SECTION("first the quota, with what comes along") {
    const FairTree tree =
        GpusAndNics(8, {Asks("a", {6000, 0}, {6000, 6000}, 1), Asks("b", none, both, 8)});
    CHECK(FairShares(tree) == std::vector<DeviceAmounts>{{6000, 6000}, {2000, 2000}});
  }
  SECTION("and then both by what is above quota: of the NICs as of the GPUs") {
    const FairTree tree =
        GpusAndNics(16, {Asks("a", {8000, 0}, both, 16), Asks("b", none, both, 16)});
    CHECK(FairShares(tree) == std::vector<DeviceAmounts>{{12'000, 12'000}, {4000, 4000}});
  }
  SECTION("a queue of weight 0 has nothing else") {
    FairTree tree = GpusAndNics(4, {Asks("a", {1000, 0}, both, 3), Asks("b", none, both, 2)});
    tree.queues[0].weight = 0;
    CHECK(FairShares(tree) == std::vector<DeviceAmounts>{{1000, 1000}, {2000, 2000}});
    tree.queues[0].jobs = {{{0, 1000}, 3}};  // NICs alone are not promised
    CHECK(FairShares(tree) == std::vector<DeviceAmounts>{{0, 0}, {2000, 2000}});
  }
  SECTION("below a department that names the GPUs alone") {
    FairTree tree = GpusAndNics(8, {Asks("above", {4000, 0}, both, 0),
                                    Asks("team", {4000, 4000}, both, 4), Asks("b", none, both, 8)});
    tree.queues[0].jobs.clear();
    tree.queues[1].parent = 0;
    CHECK(FairShares(tree) == std::vector<DeviceAmounts>{{4000, 4000}, {4000, 4000}, {4000, 4000}});
  }
  SECTION("also beside jobs of other sizes") {
    for (const DeviceAmounts& other : {DeviceAmounts{1000, 0}, DeviceAmounts{0, 1000}}) {
      FairTree tree = GpusAndNics(8, {Asks("z", {6000, 0}, {6000, 6000}, 1),
                                      Asks("b", none, both, 8), Asks("c", none, both, 8)});
      tree.queues[0].jobs.push_back({other, 1});
      CHECK(FairShares(tree)[0] == DeviceAmounts{6000, 6000});
    }
  }
  SECTION("NICs by themselves are above the quota") {
    const FairTree tree =
        GpusAndNics(8, {Asks("a", {6000, 0}, {0, 1000}, 8), Asks("b", none, {0, 1000}, 8)});
    CHECK(FairShares(tree) == std::vector<DeviceAmounts>{{0, 4000}, {0, 4000}});
  }
}

}  // namespace
}  // namespace berth::policy
