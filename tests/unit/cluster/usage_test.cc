// What queues and users have used. Times are seconds in the rows, milliseconds in the calls.
#include <map>
#include <string>
#include <vector>

#include "cluster/store.h"
#include "cluster/usage_meter.h"
#include "tests/support/builders.h"
#include "tests/support/catch.h"

namespace berth::cluster {
namespace {

using testing::kGpu;
using testing::MakeNode;
using testing::MakePod;
using testing::MakePolicy;
using testing::MakeQueue;

constexpr const char* kUser = "berth.dev/user";
using Seconds = std::map<std::string, std::int64_t>;

std::int64_t SecondsOf(const Usage& used, const std::string& resource = kGpu) {
  const auto it = used.find(resource);
  return it == used.end() ? 0 : it->second / 1000;
}

/// GPU-seconds by `queue`, or by `queue/user`.
Seconds Queues(const UsageRecord& record) {
  Seconds seconds;
  for (const auto& entry : record.queues) seconds[entry.queue] = SecondsOf(entry.used);
  return seconds;
}
Seconds Users(const UsageRecord& record) {
  Seconds seconds;
  for (const auto& entry : record.users) {
    seconds[entry.queue + "/" + entry.user] = SecondsOf(entry.used);
  }
  return seconds;
}

config::Queue Below(const std::string& parent, config::Queue queue) {
  queue.parent = parent;
  return queue;
}

config::PolicyConfiguration Tree() {
  return MakePolicy({MakeQueue("org", {"org"}), Below("org", MakeQueue("lab", {"lab"})),
                     MakeQueue("web", {"web"})});
}

struct Bed {
  explicit Bed(config::PolicyConfiguration policy = Tree()) : store(std::move(policy)) {
    store.UpsertNode(MakeNode("n").Gpu(64));
  }
  void At(std::int64_t second) { store.SetTime(1000 * second); }
  UsageRecord Until(std::int64_t second) const { return *store.UsageUntil(1000 * second); }
  void Run(const std::string& name, const std::string& ns, int gpus, const std::string& user = "") {
    auto pod = MakePod(name).Ns(ns).Gpu(gpus).On("n");
    if (!user.empty()) pod.Label(kUser, user);
    store.UpsertPod(pod);
  }

  Store store;
};

// lab holds 2 from 10 and 4 more from 20; the 2 end at 30. At 40: 2 * 20 + 4 * 20 = 120. org itself
// holds 1 from 25: 120 + 15 = 135 with lab's.
TEST_CASE("use is devices times time, at every queue of the path", "[unit][cluster]") {
  Bed bed;
  bed.At(5);
  bed.store.BeginUsage({});
  bed.At(10);
  bed.Run("a", "lab", 2, "ann");
  bed.At(20);
  bed.Run("b", "lab", 4, "bob");
  bed.At(25);
  bed.Run("c", "org", 1);
  bed.At(30);
  bed.store.DeletePod("uid-a");
  CHECK(Queues(bed.Until(40)) == Seconds{{"lab", 120}, {"org", 135}});
  CHECK(Users(bed.Until(40)) == Seconds{{"lab/ann", 40}, {"lab/bob", 80}, {"org/org", 15}});
  CHECK(bed.Until(40).until == 40'000);
}

TEST_CASE("only what is bound counts, and only devices in queues", "[unit][cluster]") {
  Bed bed;
  bed.store.BeginUsage({});
  bed.store.UpsertPod(MakePod("planned").Ns("lab").Gpu(1));
  bed.store.SetCharge(*bed.store.FindPod("uid-planned"), bed.store.FindNode("n"), Charge::kPlanned);
  bed.Run("nowhere", "elsewhere", 1);
  bed.store.UpsertPod(MakePod("cpu").Ns("web").Cpu("4").Gang("g", 1).On("n"));
  CHECK(Queues(bed.Until(100)).empty());
  bed.At(10);  // its Binding is under way, then seen
  bed.store.SetCharge(*bed.store.FindPod("uid-planned"), bed.store.FindNode("n"), Charge::kBinding);
  CHECK(Queues(bed.Until(100)).empty());
  bed.At(20);
  bed.store.UpsertPod(MakePod("planned").Ns("lab").Gpu(1).On("n"));
  CHECK(Queues(bed.Until(30)) == Seconds{{"lab", 10}, {"org", 10}});
}

// Until 10 lab's pod counts for org, from then on for web. Nothing that was counted moves.
TEST_CASE("a queue that moves takes its past use along to no other queue", "[unit][cluster]") {
  Bed bed;
  bed.store.BeginUsage({});
  bed.Run("a", "lab", 3);
  bed.At(10);
  bed.store.SetPolicy(
      MakePolicy({MakeQueue("org", {"org"}), Below("web", MakeQueue("lab", {"lab"})),
                  MakeQueue("web", {"web"})}));
  CHECK(Queues(bed.Until(15)) == Seconds{{"lab", 45}, {"org", 30}, {"web", 15}});
  bed.At(20);  // lab is gone: its pod is in no queue, and its past stays
  bed.store.SetPolicy(MakePolicy({MakeQueue("org", {"org"}), MakeQueue("web", {"web"})}));
  CHECK(Queues(bed.Until(99)) == Seconds{{"lab", 60}, {"org", 30}, {"web", 30}});
  bed.At(100);  // and goes on when it is back
  bed.store.SetPolicy(Tree());
  CHECK(Queues(bed.Until(110)) == Seconds{{"lab", 90}, {"org", 60}, {"web", 30}});
}

TEST_CASE("what the policy calls a device may change while it is held", "[unit][cluster]") {
  Bed bed;
  bed.store.BeginUsage({});
  bed.store.UpsertPod(MakePod("a").Ns("web").Gpu(1).Request("example.com/nic", "2").On("n"));
  bed.At(10);
  auto policy = Tree();
  policy.devices = {{.name = "example.com/nic"}};
  bed.store.SetPolicy(policy);
  bed.At(30);
  bed.store.DeletePod("uid-a");
  const UsageRecord record = bed.Until(100);
  REQUIRE(record.queues.size() == 1);
  CHECK(SecondsOf(record.queues[0].used) == 10);
  CHECK(SecondsOf(record.queues[0].used, "example.com/nic") == 40);
}

TEST_CASE("a pod that becomes another user's counts for that one from then on", "[unit][cluster]") {
  Bed bed;
  bed.store.BeginUsage({});
  bed.store.UpsertPod(MakePod("a").Ns("lab").Gpu(1).Label(kUser, "ann"));
  const PodInfo& pod = *bed.store.FindPod("uid-a");
  bed.Run("a", "lab", 1, "ann");
  bed.At(10);
  bed.store.SetTerms(pod, {}, pod.queue, false, "bob");
  CHECK(Users(bed.Until(15)) == Seconds{{"lab/ann", 10}, {"lab/bob", 5}});
}

// The record ends at 100. `old` runs since 50, `young` since 130, and of `dark` nobody says since
// when. Counting begins again at 200: old counts since 100, young since 130, dark since 200.
TEST_CASE("over a restart what runs counts since the record ended", "[unit][cluster]") {
  Bed bed;
  const auto since = [&](const std::string& name, std::int64_t second) {
    kube::Pod pod = MakePod(name).Ns("web").Gpu(1).On("n").Label(kUser, name);
    pod.pod_scheduled =
        kube::PodScheduled{.status = true, .reason = {}, .message = {}, .since = 1000 * second};
    bed.store.UpsertPod(pod);
  };
  since("old", 50);
  since("young", 130);
  since("future", 999);
  bed.Run("dark", "web", 1, "dark");
  bed.At(200);
  CHECK_FALSE(bed.store.UsageUntil(200'000));
  const UsageRecord record{.until = 100'000,
                           .queues = {{.queue = "web", .used = {{kGpu, 7'000}}},
                                      {.queue = "gone", .used = {{kGpu, 1'000}}}},
                           .users = {{.queue = "web", .user = "old", .used = {{kGpu, 5'000}}}}};
  bed.store.BeginUsage(record);
  CHECK(Queues(bed.Until(200)) == Seconds{{"gone", 1}, {"web", 7 + 100 + 70}});
  CHECK(Users(bed.Until(210)) ==
        Seconds{{"web/dark", 10}, {"web/future", 10}, {"web/old", 5 + 110}, {"web/young", 80}});
  // Again, from the same record: nothing counts twice.
  bed.store.BeginUsage(record);
  CHECK(Queues(bed.Until(200)) == Seconds{{"gone", 1}, {"web", 7 + 100 + 70}});
  // A record from the future ends now.
  bed.store.BeginUsage({.until = 999'000});
  CHECK(Queues(bed.Until(200)) == Seconds{{"web", 0}});
  CHECK(Queues(bed.Until(201)) == Seconds{{"web", 4}});
  // Without one, counting begins now.
  bed.store.BeginUsage({});
  CHECK(Queues(bed.Until(201)) == Seconds{{"web", 4}});
}

// --- What was held on average --------------------------------------------------------------------

config::PolicyConfiguration HalfLife(int seconds) {
  config::PolicyConfiguration policy = Tree();
  policy.fairness.half_life = std::chrono::seconds(seconds);
  return policy;
}

/// GPUs that the queue held on average until then.
double Past(const Bed& bed, const std::string& queue, std::int64_t second) {
  const Store& store = bed.store;
  const auto past = store.PastUse(store.FindQueue(queue), 1000 * second);
  return static_cast<double>(past[*store.resources().Find(kGpu)]) / 1000;
}

// A half-life of 100 s. lab holds 8 from 0 to 200: 4 at 100, 6 at 200, and then half of it each
// time.
TEST_CASE("the average comes half-way to what is held in each half-life", "[unit][cluster]") {
  Bed bed(HalfLife(100));
  bed.store.BeginUsage({});
  bed.Run("a", "lab", 8);
  CHECK(Past(bed, "lab", 0) == 0);
  CHECK(Past(bed, "lab", 100) == 4);
  bed.At(200);
  bed.store.DeletePod("uid-a");
  CHECK(Past(bed, "lab", 200) == 6);
  CHECK(Past(bed, "lab", 300) == 3);
  CHECK(Past(bed, "org", 300) == 3);
  CHECK(Past(bed, "web", 300) == 0);
}

TEST_CASE("the average goes on in the next process", "[unit][cluster]") {
  Bed bed(HalfLife(100));
  bed.store.BeginUsage({});
  bed.Run("a", "lab", 8);
  Bed next(HalfLife(100));
  next.At(200);
  next.Run("a", "lab", 8);
  next.store.BeginUsage(bed.Until(100));
  // No object says that the pod was bound before 200: 4 at 100, halved.
  CHECK(Past(next, "lab", 200) == 2);
  CHECK(Past(next, "lab", 300) == 5);
}

TEST_CASE("without a half-life the average is what is held", "[unit][cluster]") {
  Bed bed(HalfLife(0));
  CHECK(Past(bed, "lab", 0) == 0);
  bed.Run("a", "lab", 8);
  CHECK(Past(bed, "lab", 0) == 8);  // nothing is counted yet
  bed.store.BeginUsage({});
  CHECK(Past(bed, "lab", 1) == 8);
  // It begins with that when the policy gets one.
  bed.At(100);
  bed.store.BeginPolicy(HalfLife(100));
  while (bed.store.reading()) bed.store.ReadMore(100);
  bed.store.DeletePod("uid-a");
  CHECK(Past(bed, "lab", 200) == 4);
}

TEST_CASE("an average of absurd amounts stays within its bounds", "[unit][cluster]") {
  UsageMeter meter({.until = 1, .queues = {{.queue = "a", .past = {{kGpu, kMostPast}}}}}, 1);
  meter.SetHalfLife(1'000, 1);
  for (int i = 0; i < 10; ++i) meter.OfQueue("a").Hold(kGpu, kAbsurdAmount * 1'000, 0, 2'000);
  CHECK(meter.Past("a", kGpu, std::int64_t{1} << 61U) == kMostPast);
}

// --- The meter -----------------------------------------------------------------------------------

TEST_CASE("a meter stops counting before it overflows", "[unit][cluster]") {
  UsageMeter meter({.until = 1, .queues = {{.queue = "a", .used = {{kGpu, kMostUsage}}}}}, 1);
  meter.OfQueue("a").Hold(kGpu, 1'000, 1, 1);
  meter.OfQueue("b").Hold(kGpu, kAbsurdAmount * 1'000, 0, std::int64_t{1} << 61U);
  const UsageRecord record = meter.Record(std::int64_t{1} << 62U);
  CHECK(record.queues[0].used.at(kGpu) == kMostUsage);
  CHECK(record.queues[1].used.at(kGpu) == kMostUsage);
  Usage sum{{kGpu, kMostUsage - 1}};
  AddUsage(sum, {{kGpu, 5}, {"x", 1}});
  CHECK(sum == Usage{{kGpu, kMostUsage}, {"x", 1}});
}

TEST_CASE("a time that goes back counts nothing", "[unit][cluster]") {
  UsageMeter meter({}, 0);
  auto& account = meter.OfQueue("a");
  account.Hold(kGpu, 1'000, 5'000, 5'000);
  account.Hold(kGpu, 1'000, 2'000, 2'000);
  account.Hold(kGpu, -2'000, 6'000, 6'000);
  CHECK(meter.Record(9'000).queues[0].used.at(kGpu) == 2'000);
}

// The idle user who used least makes room; whoever holds something keeps the account.
TEST_CASE("of too many users the ones with the least use become others", "[unit][cluster]") {
  UsageMeter meter({}, 0);
  const auto use = [&](int user, std::int64_t seconds, std::int64_t now) {
    auto& account = meter.OfUser("q", "u" + std::to_string(user), now);
    account.Hold(kGpu, 1'000, now - 1000 * seconds, now);
    return &account;
  };
  for (int user = 0; user < static_cast<int>(UsageMeter::kMostUsers); ++user) {
    auto* account = use(user, 10 + user, 100'000);
    if (user != 0) account->Hold(kGpu, -1'000, 0, 100'000);
  }
  use(5'000, 1, 100'000)->Hold(kGpu, -1'000, 0, 100'000);
  UsageRecord record = meter.Record(100'000);
  CHECK(record.users.size() == UsageMeter::kMostUsers);
  CHECK(record.other_users.at(kGpu) == 11'000);  // u1; u0 still holds its GPU
  const Seconds users = Users(record);
  CHECK(users.contains("q/u0"));
  CHECK_FALSE(users.contains("q/u1"));
  CHECK(users.at("q/u5000") == 1);
  // All hold something: the next one counts among the others, and so does what it gives back.
  UsageMeter full({}, 0);
  for (int user = 0; user < static_cast<int>(UsageMeter::kMostUsers); ++user) {
    full.OfUser("q", "u" + std::to_string(user), 0).Hold(kGpu, 1'000, 0, 0);
  }
  auto& others = full.OfUser("q", "late", 0);
  others.Hold(kGpu, 1'000, 0, 0);
  others.Hold(kGpu, -1'000, 4'000, 4'000);
  record = full.Record(9'000);
  CHECK(record.users.size() == UsageMeter::kMostUsers);
  CHECK(record.other_users.at(kGpu) == 4'000);
}

TEST_CASE("queues are forgotten only when there are too many, the idle ones", "[unit][cluster]") {
  UsageMeter meter({}, 0);
  const auto most = static_cast<int>(UsageMeter::kMostQueues);
  for (int i = 0; i < most + 2; ++i) {
    auto& account = meter.OfQueue("q" + std::to_string(i));
    account.Hold(kGpu, 1'000, 0, i);
    if (i > 1) account.Hold(kGpu, -1'000, i, i);
  }
  meter.Prune(5'000);
  const UsageRecord record = meter.Record(5'000);
  CHECK(record.queues.size() == UsageMeter::kMostQueues);
  CHECK(record.other_queues.at(kGpu) == 2 + 3);  // q2 and q3; q0 and q1 are not idle
  // Labels go to those that came first, and stay.
  int named = 0;
  for (const auto& entry : record.queues) named += entry.named ? 1 : 0;
  CHECK(named == static_cast<int>(UsageMeter::kNamedQueues) - 2);
  const UsageMeter again(record, record.until);
  const UsageRecord same = again.Record(5'000);
  for (std::size_t i = 0; i < same.queues.size(); ++i) {
    CHECK(same.queues[i].named == record.queues[i].named);
  }
}

TEST_CASE("entries are limited to the ones with the most use", "[unit][cluster]") {
  std::vector<UsageEntry> entries{{.queue = "a", .used = {{kGpu, 1}}},
                                  {.queue = "b", .used = {{kGpu, 3}}},
                                  {.queue = "c", .used = {{kGpu, 2}}}};
  Usage other{{kGpu, 10}};
  LimitEntries(entries, 3, other);
  CHECK(entries.size() == 3);
  LimitEntries(entries, 1, other);
  REQUIRE(entries.size() == 1);
  CHECK(entries[0].queue == "b");
  CHECK(other.at(kGpu) == 13);
}

}  // namespace
}  // namespace berth::cluster
