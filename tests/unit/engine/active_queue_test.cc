#include "engine/active_queue.h"

#include <array>
#include <catch2/catch.hpp>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/support/builders.h"

namespace berth::engine {
namespace {

using testing::MakePolicy;
using testing::MakeQueue;

class ActiveQueueTest {
 public:
  explicit ActiveQueueTest(config::PolicyConfiguration policy =
                               MakePolicy({MakeQueue("q0", {"*"}), MakeQueue("q1", {"*"}),
                                           MakeQueue("q2", {"*"})}))
      : store(std::move(policy)) {}
  const cluster::Workload& Make(const std::string& key) {
    cluster::Workload& workload = workloads_.emplace_back();
    workload.key = key;
    return workload;
  }
  const cluster::Workload& Put(const std::string& key, const Turn& turn) {
    const cluster::Workload& workload = Make(key);
    queue.Put(workload, turn);
    return workload;
  }
  const cluster::Workload& RestOn(const std::string& key, const Turn& turn,
                                  std::vector<Condition*> conditions) {
    const cluster::Workload& workload = Make(key);
    queue.RestOn(workload, turn, conditions);
    return workload;
  }
  void Open(std::vector<Condition*> conditions) {
    for (Condition* condition : conditions) queue.Open(*condition);
    queue.CallOpened();
  }
  std::vector<std::string> PopAll() {
    std::vector<std::string> keys;
    while (const cluster::Workload* workload = queue.Pop()) keys.push_back(workload->key);
    return keys;
  }
  std::vector<std::string> Awake(const std::string& after = "", std::size_t most = 10) {
    std::vector<std::string> keys;
    for (const auto* workload : queue.Awake(after, most)) keys.push_back(workload->key);
    return keys;
  }

  cluster::Store store;
  ActiveQueue queue{store};

 private:
  std::deque<cluster::Workload> workloads_;  // addresses stay
};

using Keys = std::vector<std::string>;

TEST_CASE("predicted service decides among equal priorities", "[unit][engine]") {
  ActiveQueueTest t;
  t.Put("d", {.queue = 1, .priority = 5, .service = 2, .since = 10});
  t.Put("c", {.queue = 1, .priority = 9, .service = 3, .since = 40});
  t.Put("b", {.queue = 1, .priority = 5, .service = 1, .since = 20});
  t.Put("a", {.queue = 1, .priority = 5, .service = 1, .since = 30});
  CHECK(t.PopAll() == Keys{"c", "b", "a", "d"});
}

TEST_CASE("priority, age and key decide inside a queue", "[unit][engine]") {
  ActiveQueueTest t;
  t.Put("d", {.queue = 1, .priority = 5, .since = 30});
  t.Put("c", {.queue = 1, .priority = 9, .since = 40});
  t.Put("b", {.queue = 1, .priority = 5, .since = 20});
  t.Put("a", {.queue = 1, .priority = 5, .since = 30});
  CHECK(t.PopAll() == Keys{"c", "b", "a", "d"});
}

TEST_CASE("among queues the one whose first workload is oldest comes next", "[unit][engine]") {
  ActiveQueueTest t;
  t.Put("young", {.queue = 1, .priority = 100, .since = 50});  // first in its queue
  t.Put("old", {.queue = 1, .priority = 0, .since = 10});
  t.Put("other", {.queue = 2, .priority = 0, .since = 40});
  CHECK(t.PopAll() == Keys{"other", "young", "old"});
}

TEST_CASE("a gang that runs below its minimum comes before all queues", "[unit][engine]") {
  ActiveQueueTest t;
  t.Put("old", {.queue = 1, .priority = 100, .since = 1});
  t.Put("broken", {.broken = true, .queue = 2, .priority = 0, .since = 99});
  t.Put("broken too", {.broken = true, .queue = 1, .priority = 1, .since = 99});
  CHECK(t.PopAll() == Keys{"broken too", "broken", "old"});
}

TEST_CASE("a workload that is put in line again has the place of its present turn",
          "[unit][engine]") {
  ActiveQueueTest t;
  const auto& moved = t.Put("moved", {.queue = 1, .since = 10});
  t.Put("other", {.queue = 2, .since = 20});
  t.queue.Put(moved, {.queue = 2, .since = 30});
  CHECK(t.PopAll() == Keys{"other", "moved"});
}

TEST_CASE("a workload that was judged is awake until it rests", "[unit][engine]") {
  ActiveQueueTest t;
  const auto& a = t.Put("a", {.since = 1});
  CHECK(t.queue.InLine(a));
  CHECK_FALSE(t.queue.Rests(a));
  REQUIRE(t.PopAll() == Keys{"a"});
  CHECK_FALSE(t.queue.InLine(a));
  CHECK_FALSE(t.queue.Rests(a));
  t.queue.Rest(a);
  CHECK(t.queue.Rests(a));
  CHECK(t.queue.empty());
}

TEST_CASE("a workload at rest is not in line any more", "[unit][engine]") {
  ActiveQueueTest t;
  const auto& a = t.Put("a", {.queue = 1, .since = 1});
  t.Put("b", {.queue = 1, .since = 2});
  t.queue.Rest(a);
  CHECK(t.PopAll() == Keys{"b"});
}

TEST_CASE("awake workloads are listed in parts", "[unit][engine]") {
  ActiveQueueTest t;
  cluster::PodInfo waits;
  for (const char* key : {"b", "a", "c"}) {
    const cluster::Workload& workload = t.Make(key);
    const_cast<cluster::Workload&>(workload).members = {&waits};
    t.queue.KeepAwake(workload);
  }
  CHECK(t.Awake("", 2) == Keys{"a", "b"});
  CHECK(t.Awake("b", 2) == Keys{"c"});

  waits.object.node_name.assign(1, 'n');  // then nobody has anything left to be placed
  CHECK(t.Awake() == Keys{});
}

TEST_CASE("a workload that rests on a condition is in line while it is open", "[unit][engine]") {
  ActiveQueueTest t;
  Condition room;
  const auto& a = t.RestOn("a", {.queue = 1, .since = 1}, {&room});
  t.RestOn("b", {.queue = 1, .since = 3}, {&room});
  t.Put("c", {.queue = 1, .since = 2});
  CHECK(t.queue.Rests(a));
  t.queue.Open(room);
  CHECK(t.queue.opened());
  CHECK_FALSE(t.queue.InLine(a));  // not before it is called
  t.queue.CallOpened();
  CHECK(t.queue.InLine(a));
  CHECK(room.resting() == 2);
  CHECK(t.PopAll() == Keys{"a", "c", "b"});
  CHECK(room.resting() == 0);
  CHECK(t.queue.empty());
}

TEST_CASE("a workload that was called and not judged rests again when the condition closes",
          "[unit][engine]") {
  ActiveQueueTest t;
  Condition room;
  Condition quota;
  t.RestOn("a", {.queue = 1, .since = 1}, {&room});
  const auto& b = t.RestOn("b", {.queue = 1, .since = 2}, {&room});
  const auto& c = t.RestOn("c", {.queue = 2, .since = 3}, {&room, &quota});
  t.Open({&room, &quota});
  CHECK(t.queue.Pop()->key == "a");
  t.queue.Close(room);
  CHECK(t.queue.Rests(b));
  CHECK(t.queue.InLine(c));  // for the other one
  CHECK(t.PopAll() == Keys{"c"});
  CHECK(t.queue.empty());
  t.Open({&room});
  CHECK(t.PopAll() == Keys{"b"});  // it has kept its place
}

TEST_CASE("a condition that closes and opens again before the call calls once", "[unit][engine]") {
  ActiveQueueTest t;
  Condition room;
  t.RestOn("a", {.queue = 1, .since = 1}, {&room});
  t.queue.Open(room);
  t.queue.Close(room);
  CHECK_FALSE(t.queue.opened());
  t.Open({&room});
  CHECK(t.PopAll() == Keys{"a"});
}

TEST_CASE("places are forgotten in parts", "[unit][engine]") {
  ActiveQueueTest t;
  Condition room;
  for (const char* key : {"a", "b", "c"}) t.RestOn(key, {.queue = 1, .since = 1}, {&room});
  CHECK(t.queue.ForgetPlaces(2) == 2);
  CHECK(room.resting() == 1);
  CHECK(t.queue.ForgetPlaces(2) == 1);
  t.Open({&room});
  CHECK(t.PopAll() == Keys{});
}

/// q0 and q1 in q2 beside q3; q4 in q3. Borrowing, no quota.
config::PolicyConfiguration Tree() {
  auto policy = MakePolicy({MakeQueue("q0", {"*"}), MakeQueue("q1", {"*"}), MakeQueue("q2", {"*"}),
                            MakeQueue("q3", {"*"}), MakeQueue("q4", {"*"})});
  policy.borrowing = true;
  policy.queues[0].parent = policy.queues[1].parent = "q2";
  policy.queues[4].parent = "q3";
  return policy;
}

TEST_CASE("a workload that was called in vain does not decide the rank of its queue",
          "[unit][engine]") {
  auto policy = Tree();
  policy.queues[0].quota["nvidia.com/gpu"] = 8'000;
  ActiveQueueTest t(policy);
  Condition room;
  const cluster::ResourceId gpus = t.store.device_ids().front();
  // The quota of q0 covers it, so it comes first in q2; with it, q2 has more than q3 with 4.
  t.RestOn("large", {.queue = 0, .since = 1, .wants = {{gpus, 8'000}}}, {&room});
  t.Open({&room});
  t.queue.Close(room);
  t.Put("other", {.queue = 3, .since = 2, .wants = {{gpus, 4'000}}});
  t.Put("small", {.queue = 1, .since = 3, .wants = {{gpus, 2'000}}});
  CHECK(t.PopAll() == Keys{"small", "other"});
}

TEST_CASE("a workload that rests on closed conditions changes nothing in the line",
          "[unit][engine]") {
  struct Resting {
    Turn turn;
    std::size_t on = 0;
  };
  for (unsigned seed = 1; seed <= 200; ++seed) {
    std::mt19937 random(seed);
    ActiveQueueTest t(Tree());
    std::deque<Condition> conditions(5);
    std::map<std::string, Resting> resting;
    for (int i = 0; i < 30; ++i) {
      const std::string key = "w" + std::to_string(i);
      const Resting place{
          .turn = {.queue = static_cast<cluster::QueueId>(random() % 5),
                   .priority = static_cast<std::int32_t>(random() % 3),
                   .since = static_cast<kube::Millis>(random() % 4),
                   .wants = {{t.store.device_ids().front(), 1'000 + random() % 8 * 1'000}}},
          .on = random() % conditions.size()};
      t.RestOn(key, place.turn, {&conditions[place.on]});
      resting.emplace(key, place);
    }
    std::set<std::size_t> open;
    // The first of a line that only those have come to that are called.
    const auto first = [&] {
      ActiveQueueTest fresh(Tree());
      for (const auto& [key, place] : resting) {
        if (open.contains(place.on)) fresh.Put(key, place.turn);
      }
      const cluster::Workload* next = fresh.queue.Pop();
      return next == nullptr ? std::string() : next->key;
    };
    for (int round = 0; round < 10; ++round) {
      for (int i = 0; i < 3; ++i) open.insert(random() % conditions.size());
      for (const std::size_t on : open) t.queue.Open(conditions[on]);
      t.queue.CallOpened();
      while (const cluster::Workload* next = t.queue.Pop()) {
        REQUIRE(next->key == first());
        const std::size_t on = resting.at(next->key).on;
        resting.erase(next->key);
        t.queue.Rest(*next);
        if (random() % 2 == 0) {
          open.erase(on);
          t.queue.Close(conditions[on]);
        }
      }
      REQUIRE(first().empty());
      for (const std::size_t on : std::exchange(open, {})) t.queue.Close(conditions[on]);
    }
  }
}

struct TreeOfLines : ActiveQueueTest {
  explicit TreeOfLines(const config::PolicyConfiguration& policy = Tree())
      : ActiveQueueTest(policy) {
    store.UpsertNode(testing::MakeNode("n").Gpu(16));
  }
  /// A job of one GPU.
  void Job(const std::string& key, cluster::QueueId in, kube::Millis since) {
    Put(key, {.queue = in, .since = since, .wants = {{store.device_ids().front(), 1'000}}});
  }
  /// So many jobs of each queue without others below it; those of q0 are the oldest, then q1's.
  void JobsOfEach(int jobs) {
    for (int i = 0; i < jobs; ++i) {
      const std::string n = std::to_string(i);
      Job("q0-" + n, 0, 10 + i);
      Job("q1-" + n, 1, 20 + i);
      Job("q4-" + n, 4, 30 + i);
    }
  }
  /// Pops jobs; each gets its GPU before the next one is asked for.
  std::vector<std::string> PlaceAll() {
    std::vector<std::string> keys;
    while (const cluster::Workload* workload = queue.Pop()) {
      keys.push_back(workload->key);
      const std::string of(workload->key, 0, 2);  // a key begins with the name of its queue
      store.UpsertPod(testing::MakePod("p" + std::to_string(keys.size())).Gpu(1).Queue(of).On("n"));
      for (const cluster::QueueId id : store.TakeUseNews()) queue.Reorder(id);
    }
    return keys;
  }
};

TEST_CASE("with borrowing the queues take turns, level by level", "[unit][engine]") {
  TreeOfLines t;
  t.JobsOfEach(3);
  // q2 and q3 take turns, and in q2 its two queues: q3 gets as much as both of them together.
  CHECK(t.PlaceAll() ==
        Keys{"q0-0", "q4-0", "q1-0", "q4-1", "q0-1", "q4-2", "q1-1", "q0-2", "q1-2"});
}

TEST_CASE("weights and quotas decide at their level", "[unit][engine]") {
  auto policy = Tree();
  policy.queues[2].weight = 3'000;
  policy.queues[1].quota[testing::kGpu] = 1'000;
  TreeOfLines t(policy);
  t.JobsOfEach(4);
  // Three for q2 to one for q3; in q2 the first is the one that q1 is promised.
  CHECK(t.PlaceAll() == Keys{"q1-0", "q0-0", "q1-1", "q4-0", "q0-1", "q1-2", "q0-2", "q4-1", "q1-3",
                             "q0-3", "q4-2", "q4-3"});
}

/// q0 held 4 GPUs on average, and so did q2 above it. Each queue is entitled to all of them, but
/// for q3.
policy::PastUse Past(const cluster::Store& store, std::int64_t share_of_q3) {
  policy::PastUse past;
  const cluster::ResourceId gpu = store.device_ids().front();
  for (const std::int64_t held : {4, 0, 4, 0, 0}) {
    const bool q3 = past.queues.size() == 3;
    policy::PastUse::Of& of = past.queues.emplace_back();
    of.held.Add(gpu, held * 1'000);
    of.share.Add(gpu, (q3 ? share_of_q3 : 16) * 1'000);
  }
  past.own = past.queues;
  return past;
}

TEST_CASE("with a half-life the queue that held more in the past comes later", "[unit][engine]") {
  TreeOfLines t;
  t.JobsOfEach(3);
  SECTION("within fair shares") {
    t.queue.SetPastUse(Past(t.store, 16));
    t.queue.ReorderAll();
    // (0 + 1) / 2, (0 + 2) / 2 and (0 + 3) / 2 against (4 + 1) / 2; so in q2, too.
    CHECK(t.PlaceAll() ==
          Keys{"q4-0", "q4-1", "q4-2", "q1-0", "q1-1", "q1-2", "q0-0", "q0-1", "q0-2"});
  }
  SECTION("beyond its fair share it waits for who is within theirs and holds less") {
    t.queue.SetPastUse(Past(t.store, 1));
    t.queue.ReorderAll();
    // q4-1 would be the second GPU of q3, and q1-0 is the first one of q2.
    CHECK(t.PlaceAll() ==
          Keys{"q4-0", "q1-0", "q4-1", "q1-1", "q4-2", "q1-2", "q0-0", "q0-1", "q0-2"});
  }
}

TEST_CASE("a queue that lost a straddler comes next, with a job that reaches over its floor",
          "[unit][engine]") {
  TreeOfLines t;
  const cluster::ResourceId gpu = t.store.device_ids().front();
  t.Job("q0-one", 0, 10);
  t.Put("q4-three", {.queue = 4, .since = 20, .wants = {{gpu, 3'000}}});
  const auto owe = [&](std::int64_t floor) {
    t.queue.Owe({.of = {.queue = 3}, .id = gpu, .floor = floor});
  };
  SECTION("otherwise the one comes first that has less beyond its quota") {
    CHECK(t.PopAll() == Keys{"q0-one", "q4-three"});
  }
  SECTION("3 are above 2") {
    owe(2'000);
    CHECK(t.PopAll() == Keys{"q4-three", "q0-one"});
  }
  SECTION("3 are not above 3") {
    owe(3'000);
    CHECK(t.PopAll() == Keys{"q0-one", "q4-three"});
  }
  const auto run = [&](const char* name, int gpus) {
    t.store.UpsertPod(testing::MakePod(name).Gpu(gpus).Queue("q4").On("n"));
    for (const cluster::QueueId id : t.store.TakeUseNews()) t.queue.Reorder(id);
    t.queue.MakeGood();
  };
  SECTION("once only: not when what it has got ends") {
    owe(2'000);
    run("p", 2);
    t.store.DeletePod("uid-p");
    for (const cluster::QueueId id : t.store.TakeUseNews()) t.queue.Reorder(id);
    CHECK(t.PopAll() == Keys{"q0-one", "q4-three"});
  }
  SECTION("a job that stays below the floor makes nothing good") {
    owe(2'000);
    run("p", 1);
    CHECK(t.PopAll() == Keys{"q4-three", "q0-one"});
  }
  SECTION("an edit of the policy ends it") {
    owe(2'000);
    t.queue.ForgetOwed();
    t.queue.ReorderAll();
    CHECK(t.PopAll() == Keys{"q0-one", "q4-three"});
  }
}

TEST_CASE("the work of a queue itself is ranked beside the queues below it", "[unit][engine]") {
  TreeOfLines t;
  t.Job("q3-a", 3, 1);
  t.Job("q3-b", 3, 2);
  t.Job("q4-a", 4, 3);
  t.Job("q4-b", 4, 4);
  CHECK(t.PlaceAll() == Keys{"q3-a", "q4-a", "q3-b", "q4-b"});
}

TEST_CASE("the line follows an edit of the tree", "[unit][engine]") {
  TreeOfLines t;
  t.Job("q0-a", 0, 1);
  t.Job("q1-a", 1, 2);
  t.Job("q4-a", 4, 3);
  auto policy = Tree();
  policy.queues[1].parent = "q4";
  policy.queues[1].weight = 0;
  t.store.SetPolicy(policy);
  t.queue.ReorderAll();
  CHECK(t.PlaceAll() == Keys{"q0-a", "q4-a", "q1-a"});
}

/// Queue q0 is shared by user, and q1 by nobody; the name of a job begins with that of its user.
struct SharedLine : ActiveQueueTest {
  explicit SharedLine(bool two_kinds = false) : ActiveQueueTest(Policy(two_kinds)) {
    auto node = testing::MakeNode("n").Gpu(16);
    if (two_kinds) node.Allocatable(kNic, 4'000);
    store.UpsertNode(node);
  }
  static config::PolicyConfiguration Policy(bool two_kinds) {
    auto policy = MakePolicy({MakeQueue("q0", {"*"}), MakeQueue("q1", {"*"})});
    policy.queues[0].fair_within = config::FairWithin::kUser;
    if (two_kinds) policy.devices.push_back({.name = kNic});
    return policy;
  }
  void Job(const std::string& key, kube::Millis since, int gpus = 1, int priority = 0,
           int nics = 0) {
    Turn turn{.queue = 0, .priority = priority, .since = since};
    turn.sharer = std::string_view(key).substr(0, 3);
    turn.wants = {{store.device_ids()[0], gpus * 1'000}};
    if (nics > 0) turn.wants.emplace_back(store.device_ids()[1], nics * 1'000);
    Put(key, turn);
    turns_[key] = turn;
  }
  void Hold(const std::string& user, int gpus) {
    store.UpsertPod(testing::MakePod("of-" + user + std::to_string(++pods_))
                        .Gpu(gpus)
                        .Queue("q0")
                        .Label("berth.dev/user", user)
                        .On("n"));
    Follow();
  }
  void Follow() {
    for (const auto& [id, user] : store.TakeShareNews().changed) queue.Reorder(id, user);
  }
  /// Pops jobs; each gets its GPUs before the next one is asked for.
  std::vector<std::string> PlaceAll() {
    std::vector<std::string> keys;
    while (const cluster::Workload* workload = queue.Pop()) {
      keys.push_back(workload->key);
      Hold(workload->key.substr(0, 3),
           static_cast<int>(turns_[workload->key].wants[0].second / 1'000));
    }
    return keys;
  }
  static constexpr const char* kNic = "nvidia.com/mlnxnics";

 private:
  std::map<std::string, Turn> turns_;
  int pods_ = 0;
};

TEST_CASE("users take turns in a queue that they share", "[unit][engine]") {
  SharedLine t;
  for (const char* key : {"ann1", "ann2", "ann3"}) t.Job(key, 10);
  for (const char* key : {"bob1", "bob2"}) t.Job(key, 20);
  // With their next job: 1 and 1, the older first; 2 and 1; 2 and 2, the older; 3 and 2; 3.
  CHECK(t.PlaceAll() == Keys{"ann1", "bob1", "ann2", "bob2", "ann3"});
}

TEST_CASE("the job is counted with what its user holds", "[unit][engine]") {
  SharedLine t;
  t.Hold("bob", 2);
  t.Job("ann1", 10, 4);  // ann has 4 with it
  t.Job("bob1", 20, 1);  // bob 3
  t.Job("bob2", 30, 1);  // then 4 as well, and it is younger
  CHECK(t.PlaceAll() == Keys{"bob1", "ann1", "bob2"});
}

TEST_CASE("priority comes before shares, age after them", "[unit][engine]") {
  SharedLine t;
  t.Hold("ann", 8);
  t.Job("ann-low", 1, 1, 0);
  t.Job("ann-high", 30, 1, 5);
  t.Job("bob-low", 20, 1, 0);
  t.Job("bob-old", 10, 1, 0);
  CHECK(t.PlaceAll() == Keys{"ann-high", "bob-old", "bob-low", "ann-low"});
}

TEST_CASE("a user's turn moves with what the user holds", "[unit][engine]") {
  SharedLine t;
  t.Job("ann1", 10);
  t.Job("bob1", 20);
  t.Hold("ann", 1);
  const cluster::Workload* first = t.queue.Pop();
  CHECK(first->key == "bob1");
  t.queue.Rest(*first);
  t.Job("bob1", 20);
  t.store.DeletePod("uid-of-ann1");
  t.Follow();
  CHECK(t.queue.Pop()->key == "ann1");
}

TEST_CASE("of two kinds of devices the one counts of which a user has most", "[unit][engine]") {
  SharedLine t(/*two_kinds=*/true);
  t.Job("ann1", 10, 4, 0, 2);  // a quarter of the GPUs, half of the NICs
  t.Job("bob1", 20, 7, 0, 1);  // 7/16 of the GPUs, a quarter of the NICs
  CHECK(t.queue.Pop()->key == "bob1");
}

// The line that is kept up with each change gives the same order as one that is built from nothing.
TEST_CASE("a line that was kept is one that was built", "[unit][engine]") {
  std::mt19937 random(20261125);
  const auto draw = [&](int below) {
    return static_cast<int>(random() % static_cast<unsigned>(below));
  };
  constexpr std::array<const char*, 3> users{"a", "b", "c"};
  for (int round = 0; round < 200; ++round) {
    auto policy = Tree();
    for (config::Queue& queue : policy.queues) {
      queue.weight = draw(4) * 1'000;
      queue.priority = draw(2);
      if (draw(2) == 0) queue.quota[testing::kGpu] = draw(5) * 1'000;
    }
    policy.queues[0].fair_within = policy.queues[1].fair_within = config::FairWithin::kUser;
    TreeOfLines kept(policy);
    std::vector<std::pair<const cluster::Workload*, Turn>> waiting;
    for (int step = 0; step < 30; ++step) {
      const auto queue = static_cast<cluster::QueueId>(draw(5));
      if (draw(3) > 0) {
        const Turn turn{.queue = queue,
                        .priority = draw(2),
                        .since = draw(9),
                        .wants = {{kept.store.device_ids().front(), (1 + draw(3)) * 1'000}},
                        .sharer = queue < 2 ? users[draw(3)] : ""};
        waiting.emplace_back(&kept.Put("w" + std::to_string(step), turn), turn);
      } else {
        kept.store.UpsertPod(testing::MakePod("p" + std::to_string(draw(6)))
                                 .Gpu(1 + draw(3))
                                 .Queue("q" + std::to_string(queue))
                                 .Label("berth.dev/user", users[draw(3)])
                                 .On("n"));
        for (const auto& [id, user] : kept.store.TakeShareNews().changed) {
          kept.queue.Reorder(id, user);
        }
        for (const cluster::QueueId id : kept.store.TakeUseNews()) kept.queue.Reorder(id);
      }
    }
    ActiveQueue built(kept.store);
    for (const auto& [workload, turn] : waiting) built.Put(*workload, turn);
    Keys expected;
    while (const cluster::Workload* workload = built.Pop()) expected.push_back(workload->key);
    CHECK(kept.PopAll() == expected);
  }
}

}  // namespace
}  // namespace berth::engine
