// What an edit of the policy exposes, worked out by hand. Numbers are devices; the pool has 100.
#include "policy/edit_exposure.h"

#include <string>
#include <vector>

#include "tests/support/builders.h"
#include "tests/support/catch.h"

namespace berth::policy {
namespace {

using config::PolicyConfiguration;
using testing::MakeQueue;

/// One queue, what it runs (in jobs of one device) and what waits there.
struct Team {
  std::string name;
  std::string parent{};
  int quota = 0;
  int runs = 0;
  int waits = 0;
  int weight = 1;
};

PolicyConfiguration PolicyOf(const std::vector<Team>& teams) {
  PolicyConfiguration policy;
  policy.queues.clear();
  for (const Team& team : teams) {
    config::Queue queue = MakeQueue(team.name, {"*"}, -1, team.quota);
    queue.parent = team.parent;
    queue.weight = team.weight * 1000;
    policy.queues.push_back(queue);
  }
  return policy;
}

FairTree TreeOf(const std::vector<Team>& teams) {
  FairTree tree{.total = {100'000}, .pool = {100'000}};
  for (const Team& team : teams) {
    FairQueue queue{.name = team.name,
                    .quota = {team.quota * 1000},
                    .limit = {kNoLimit},
                    .kept = {0},
                    .used = {team.runs * 1000},
                    .weight = team.weight * 1000};
    for (std::size_t i = 0; i < tree.queues.size(); ++i) {
      if (tree.queues[i].name == team.parent) queue.parent = static_cast<int>(i);
    }
    if (queue.parent >= 0) {
      tree.queues[static_cast<std::size_t>(queue.parent)].used[0] += team.runs * 1000;
    }
    if (team.runs + team.waits > 0) queue.jobs.push_back({{1000}, team.runs + team.waits});
    tree.queues.push_back(queue);
  }
  return tree;
}

std::int64_t Devices(const std::vector<Team>& now, const PolicyConfiguration& next,
                     const PolicyConfiguration& current) {
  return ExposureOf(TreeOf(now), {"nvidia.com/gpu"}, current, next).devices / 1000;
}
std::int64_t Devices(const std::vector<Team>& now, const PolicyConfiguration& next) {
  return Devices(now, next, PolicyOf(now));
}

const std::vector<Team> kFlat{{.name = "a", .quota = 80, .runs = 70}, {.name = "b", .quota = 20}};

TEST_CASE("a drain exposes all that the queues have in use", "[unit][policy]") {
  const std::vector<Team> tree{{.name = "org", .runs = 5},
                               {.name = "lab", .parent = "org", .quota = 20, .runs = 30},
                               {.name = "web", .quota = 20, .runs = 10}};
  PolicyConfiguration drained = PolicyOf(tree);
  drained.queues[0].hold = config::Hold::kHoldAndDrain;
  CHECK(Devices(tree, drained) == 35);
  CHECK(Devices(tree, drained, drained) == 0);  // they end already
  PolicyConfiguration more = drained;
  more.queues[2].hold = config::Hold::kHoldAndDrain;
  CHECK(Devices(tree, more, drained) == 10);
  drained.borrowing = false;  // nobody takes anything back
  CHECK(Devices(tree, drained) == 35);
  drained.queues[0].hold = config::Hold::kHold;
  CHECK(Devices(tree, drained) == 0);
  // What ran in web may go to org, which ends what runs in it.
  drained.queues[0].hold = config::Hold::kHoldAndDrain;
  PolicyConfiguration without = drained;
  without.queues.pop_back();
  CHECK(Devices(tree, without, drained) == 10);
}

TEST_CASE("a quota that loses a digit exposes what it covered", "[unit][policy]") {
  std::vector<Team> typo = kFlat;
  typo[0].quota = 8;
  // Nobody asks for them yet: 70 - 8.
  CHECK(Devices(kFlat, PolicyOf(typo)) == 62);
  typo[0].quota = 70;
  CHECK(Devices(kFlat, PolicyOf(typo)) == 0);
  typo[0].quota = 69;
  CHECK(Devices(kFlat, PolicyOf(typo)) == 1);
  CHECK(Devices(kFlat, PolicyOf(kFlat)) == 0);
}

TEST_CASE("what is borrowed was never covered", "[unit][policy]") {
  // a has 60 within its quota and 10 beyond it; b waits for 40, of which 20 are its quota.
  std::vector<Team> now{{.name = "a", .quota = 60, .runs = 70},
                        {.name = "b", .quota = 20, .waits = 40}};
  // Shares: a 60 + 10 of the 20 that are left, b 20 + 10.
  CHECK(Devices(now, PolicyOf(now)) == 0);
  std::vector<Team> next = now;
  next[1].quota = 40;  // shares 60 and 40: the 10 above a's quota
  CHECK(Devices(now, PolicyOf(next)) == 10);
  next = now;
  next[1].weight = 9;  // of the 20 that are left, b gets 18 and a 2
  CHECK(Devices(now, PolicyOf(next)) == 8);
}

TEST_CASE("a department's quota counts as its teams' do, and not twice", "[unit][policy]") {
  const std::vector<Team> now{{.name = "dept", .quota = 60},
                              {.name = "x", .parent = "dept", .quota = 30, .runs = 30},
                              {.name = "y", .parent = "dept", .quota = 30, .runs = 30},
                              {.name = "other", .quota = 40}};
  std::vector<Team> next = now;
  next[0].quota = 6;
  CHECK(Devices(now, PolicyOf(next)) == 54);
  next[1].quota = 3;  // 27 of x are among the 54
  CHECK(Devices(now, PolicyOf(next)) == 54);
  next[0].quota = 60;
  CHECK(Devices(now, PolicyOf(next)) == 27);
  SECTION("a group that is named as a parent only has no quota") {
    next = now;
    next[1].parent = "group";
    CHECK(Devices(now, PolicyOf(next)) == 0);
  }
}

TEST_CASE("nobody loses anything where nothing is taken back", "[unit][policy]") {
  std::vector<Team> typo = kFlat;
  typo[0].quota = 8;
  PolicyConfiguration next = PolicyOf(typo);
  for (config::Queue& queue : next.queues) queue.preemption.reclaim = config::Reclaim::kNever;
  CHECK(Devices(kFlat, next) == 0);
  next = PolicyOf(typo);
  next.borrowing = false;
  CHECK(Devices(kFlat, next) == 0);
}

TEST_CASE("borrowing that is switched on exposes what others are entitled to", "[unit][policy]") {
  const std::vector<Team> now{{.name = "a", .runs = 90}, {.name = "b", .waits = 50}};
  PolicyConfiguration current = PolicyOf(now);
  current.borrowing = false;
  CHECK(Devices(now, PolicyOf(now), current) == 40);  // each is entitled to 50
}

TEST_CASE("work of a queue that is removed is nobody's to take", "[unit][policy]") {
  CHECK(Devices(kFlat, PolicyOf({{.name = "b", .quota = 20}})) == 0);
}

TEST_CASE("work of a queue that is removed goes to the default queue", "[unit][policy]") {
  // All 100 are in use, and b asks for its quota of 50. The other 50 are the share of the work of
  // a.
  const std::vector<Team> now{{.name = "a", .quota = 90, .runs = 90},
                              {.name = "b", .quota = 50, .runs = 10, .waits = 40}};
  CHECK(Devices(now, PolicyOf({{.name = "default"}, {.name = "b", .quota = 50}})) == 40);
  SECTION("which may keep it") {
    CHECK(Devices(now, PolicyOf({{.name = "default", .quota = 90}, {.name = "b", .quota = 50}})) ==
          0);
  }
}

TEST_CASE("a queue that leaves its parent loses the cover of the parent's quota",
          "[unit][policy]") {
  const std::vector<Team> now{{.name = "org", .quota = 90},
                              {.name = "a", .parent = "org", .runs = 90},
                              {.name = "b", .quota = 50, .runs = 10, .waits = 40}};
  const auto moved = [](int quota) {
    return PolicyOf({{.name = "org", .quota = 90},
                     {.name = "a", .parent = "ogr", .quota = quota},
                     {.name = "b", .quota = 50}});
  };
  CHECK(Devices(now, moved(0)) == 40);
  CHECK(Devices(now, moved(90)) == 0);
}

TEST_CASE("queues are named, who loses most first", "[unit][policy]") {
  const std::vector<Team> now{{.name = "a", .quota = 10, .runs = 10},
                              {.name = "b", .quota = 20, .runs = 20}};
  const auto exposure = ExposureOf(TreeOf(now), {"nvidia.com/gpu"}, PolicyOf(now),
                                   PolicyOf({{.name = "a"}, {.name = "b"}}));
  CHECK(exposure.in_use == 30'000);
  CHECK(exposure.queues ==
        std::vector<std::pair<std::string, std::int64_t>>{{"b", 20'000}, {"a", 10'000}});
}

}  // namespace
}  // namespace berth::policy
