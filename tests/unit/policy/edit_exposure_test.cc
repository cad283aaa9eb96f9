// What an edit of the policy exposes, worked out by hand. Numbers are devices; the pool has 100.
#include "policy/edit_exposure.h"

#include <string>
#include <vector>

#include "cluster/queue_directory.h"
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

/// All work is of one namespace, and Berth bound it.
std::vector<Move> MovesOf(const std::vector<Team>& now, const PolicyConfiguration& next) {
  const cluster::QueueDirectory queues(next.queues);
  std::vector<Move> moves;
  for (const Team& team : now) {
    const auto to = queues.Find("ns", team.name, "");
    if (to && next.queues[*to].name == team.name) continue;
    moves.push_back({.from = team.name,
                     .to = to ? next.queues[*to].name : "",
                     .used = {team.runs * 1000},
                     .jobs = {{{1000}, team.runs + team.waits}}});
  }
  return moves;
}

std::int64_t Devices(const std::vector<Team>& now, const PolicyConfiguration& next,
                     const PolicyConfiguration& current) {
  return ExposureOf(TreeOf(now), {"nvidia.com/gpu"}, current, next, {.moves = MovesOf(now, next)})
             .devices /
         1000;
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
  SECTION("and what comes to be in one from a queue that is removed") {
    drained.queues[0].hold = config::Hold::kHoldAndDrain;
    PolicyConfiguration without = drained;
    without.queues.pop_back();
    CHECK(Devices(tree, without, drained) == 10);  // it is in none
    without.queues[0].namespaces = {"ns"};
    CHECK(Devices(tree, without, drained) == 10);
  }
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

TEST_CASE("no queue loses anything where nothing is taken back", "[unit][policy]") {
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

// kube-scheduler evicts pods that are in no queue for those of higher priority.
TEST_CASE("work of a queue that is removed is exposed, where others preempt", "[unit][policy]") {
  PolicyConfiguration next = PolicyOf({{.name = "b", .quota = 20}});
  CHECK(Devices(kFlat, next) == 70);
  const Exposure exposure = ExposureOf(TreeOf(kFlat), {"nvidia.com/gpu"}, PolicyOf(kFlat), next,
                                       {.moves = MovesOf(kFlat, next)});
  CHECK(exposure.queues == std::vector<std::pair<std::string, std::int64_t>>{{"a", 70'000}});
  next.queues[0].preemption.within = config::Within::kNever;
  CHECK(Devices(kFlat, next) == 0);
}

TEST_CASE("work of a queue that is removed goes to the default queue", "[unit][policy]") {
  // The quota of a covers 90, whoever asks.
  const std::vector<Team> now{{.name = "a", .quota = 90, .runs = 90},
                              {.name = "b", .quota = 50, .runs = 10, .waits = 40}};
  CHECK(Devices(now, PolicyOf({{.name = "default"}, {.name = "b", .quota = 50}})) == 90);
  SECTION("of which nothing covered more than the half that is its fair share") {
    // b asks for its quota of 50, so that 50 of the 100 are left for the others, of which a had 90.
    std::vector<Team> borrowed = now;
    borrowed[0].quota = 10;
    CHECK(Devices(borrowed, PolicyOf({{.name = "default"}, {.name = "b", .quota = 50}})) == 10);
  }
  SECTION("which may keep it") {
    CHECK(Devices(now, PolicyOf({{.name = "default", .quota = 90}, {.name = "b", .quota = 50}})) ==
          0);
  }
}

TEST_CASE("work that moves to another queue keeps what that covers", "[unit][policy]") {
  // Of the 80 that a runs, 50 are of a namespace that it does not list any more.
  const std::vector<Team> now{{.name = "a", .quota = 80, .runs = 80},
                              {.name = "b", .quota = 100, .waits = 100},
                              {.name = "default"}};
  const auto moved = [&](int quota_of_default) {
    std::vector<Team> next = now;
    next[2].quota = quota_of_default;
    const Move move{.from = "a", .to = "default", .used = {50'000}, .jobs = {{{1000}, 50}}};
    return ExposureOf(TreeOf(now), {"nvidia.com/gpu"}, PolicyOf(now), PolicyOf(next),
                      {.moves = {move}})
               .devices /
           1000;
  };
  CHECK(moved(0) == 50);
  CHECK(moved(20) == 30);
  CHECK(moved(50) == 0);
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
  CHECK(Devices(now, moved(0)) == 90);  // whoever asks
  CHECK(Devices(now, moved(90)) == 0);
}

TEST_CASE("a queue whose quota is of single flavors keeps what they promise together",
          "[unit][policy]") {
  const auto policy_of = [](int h100, int a100) {
    PolicyConfiguration policy = PolicyOf({{.name = "a"}, {.name = "b", .quota = 20}});
    policy.queues[0].quota.clear();
    policy.queues[0].quotas = {{.flavor = "h100", .quota = {{"nvidia.com/gpu", h100 * 1000}}},
                               {.flavor = "a100", .quota = {{"nvidia.com/gpu", a100 * 1000}}}};
    return policy;
  };
  const PolicyConfiguration now = policy_of(50, 30);
  CHECK(Devices(kFlat, now, now) == 0);
  CHECK(Devices(kFlat, policy_of(5, 30), now) == 35);  // 70 are in use
}

TEST_CASE("a queue that begins to take back exposes what it lacks, as far as others have more",
          "[unit][policy]") {
  // a may keep its 40; b may keep all that it has, and lacks 30 of its quota.
  const std::vector<Team> now{{.name = "a", .quota = 40, .runs = 60},
                              {.name = "b", .quota = 60, .runs = 30, .waits = 30},
                              {.name = "c", .quota = 0, .runs = 10}};
  const auto policy_of = [&](config::Reclaim b, config::Reclaim c) {
    PolicyConfiguration policy = PolicyOf(now);
    policy.queues[1].preemption.reclaim = b;
    policy.queues[2].preemption.reclaim = c;
    return policy;
  };
  using enum config::Reclaim;
  const PolicyConfiguration never = policy_of(kNever, kAny);
  CHECK(Devices(now, policy_of(kAny, kAny), never) == 30);
  CHECK(Devices(now, policy_of(kNever, kNever), never) == 0);
  CHECK(Devices(now, never, policy_of(kNever, kNever)) == 0);  // c lacks nothing
  SECTION("what others do not have beyond what they may keep is not there to be taken") {
    std::vector<Team> next = now;
    next[0].quota = 55;  // 5 of a and 10 of c
    PolicyConfiguration larger = PolicyOf(next);
    CHECK(Devices(now, larger, never) == 15);
  }
}

TEST_CASE("queues are named, the one that loses most first", "[unit][policy]") {
  const std::vector<Team> now{{.name = "a", .quota = 10, .runs = 10},
                              {.name = "b", .quota = 20, .runs = 20}};
  const auto exposure = ExposureOf(TreeOf(now), {"nvidia.com/gpu"}, PolicyOf(now),
                                   PolicyOf({{.name = "a"}, {.name = "b"}}), {});
  CHECK(exposure.in_use == 30'000);
  CHECK(exposure.queues ==
        std::vector<std::pair<std::string, std::int64_t>>{{"b", 20'000}, {"a", 10'000}});
}

}  // namespace
}  // namespace berth::policy
