// Which edits of the policy are held.
#include "server/ops/policy_edit.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "tests/support/builders.h"
#include "tests/support/catch.h"
#include "tests/support/world.h"

namespace berth::server {
namespace {

using testing::MakeNode;
using testing::MakePod;
using testing::MakePolicy;
using testing::MakeQueue;
using testing::World;

/// 12 nodes of 8 GPUs. 72 pods of one GPU run in the namespace `labs`, bound by another scheduler
/// before Berth came; `queue`: what their label names.
void RunLabs(World& world, const std::string& queue = "") {
  for (int i = 0; i < 12; ++i) world.Add(MakeNode(fmt::format("n{}", i)).Gpu(8));
  for (int i = 0; i < 72; ++i) {
    auto pod = MakePod(fmt::format("p{}", i)).Ns("labs").Gpu(1);
    if (!queue.empty()) pod.Queue(queue);
    world.Add(pod.On(fmt::format("n{}", i / 8)));
  }
  world.Start();
}

config::PolicyConfiguration PolicyOf(const std::vector<config::Queue>& queues) {
  config::PolicyConfiguration policy = MakePolicy(queues);
  policy.borrowing = true;
  return policy;
}

std::string Held(World& world, const config::PolicyConfiguration& next) {
  return WhyHeld(PartsOf(world.engine(), world.now()), next);
}

const std::vector<config::Queue> kQueues{MakeQueue("a", {"team", "labs"}, -1, 96),
                                         MakeQueue("b", {"other"}, -1, 96),
                                         MakeQueue("default", {"*"})};

TEST_CASE("an edit that takes a namespace from a queue is held if nothing covers its work then",
          "[policy]") {
  World world(PolicyOf(kQueues));
  RunLabs(world);
  std::vector<config::Queue> next = kQueues;
  CHECK(Held(world, PolicyOf(next)).empty());
  next[0].namespaces = {"team"};
  CHECK_THAT(Held(world, PolicyOf(next)),
             Catch::StartsWith("held: 72 devices") && Catch::Contains("(default 72)"));
  SECTION("but not if the queue that it moves to covers it") {
    next[2] = MakeQueue("default", {"*"}, -1, 72);
    CHECK(Held(world, PolicyOf(next)).empty());
    next[2] = MakeQueue("default", {"*"}, -1, 7);  // 65 are left: one more than an edit may expose
    CHECK_THAT(Held(world, PolicyOf(next)), Catch::StartsWith("held: 65 devices"));
    next[2] = MakeQueue("default", {"*"}, -1, 8);
    CHECK(Held(world, PolicyOf(next)).empty());
  }
  SECTION("also if it moves to no queue, where kube-scheduler may evict it") {
    next.pop_back();
    CHECK_THAT(Held(world, PolicyOf(next)), Catch::StartsWith("held: 72 devices"));
    for (config::Queue& queue : next) queue.preemption.within = config::Within::kNever;
    CHECK(Held(world, PolicyOf(next)).empty());
  }
  SECTION("or if it moves to one that is drained, which ends it") {
    next[2].hold = config::Hold::kHoldAndDrain;
    CHECK_THAT(Held(world, PolicyOf(next)), Catch::StartsWith("held: 72 devices"));
  }
}

TEST_CASE("pods that name their queue do not move to the default queue", "[policy]") {
  World world(PolicyOf(kQueues));
  RunLabs(world, "a");
  std::vector<config::Queue> next = kQueues;
  next[0].namespaces = {"team"};
  // They are in no queue then.
  CHECK_THAT(Held(world, PolicyOf(next)),
             Catch::StartsWith("held: 72 devices") && Catch::Contains("(a 72)"));
}

TEST_CASE("an edit that changes nothing is not held where quotas are of single flavors",
          "[policy][bug]") {
  std::vector<config::Queue> queues = kQueues;
  queues[0] = MakeQueue("a", {"team", "labs"});
  queues[0].quotas = {{.flavor = "h100", .quota = {{"nvidia.com/gpu", 96'000}}}};
  config::PolicyConfiguration policy = PolicyOf(queues);
  policy.flavors = {{.name = "h100", .node_selector = {{"gpu", "h100"}}}};
  World world(policy);
  RunLabs(world);
  CHECK(Held(world, policy).empty());
  policy.queues[0].quotas[0].quota["nvidia.com/gpu"] = 7'000;
  CHECK_THAT(Held(world, policy), Catch::StartsWith("held: 65 devices"));
}

/// As RunLabs, on nodes that are full of them; they run for a second.
void RunYoungLabs(World& world, const std::string& workload_class = {}) {
  for (int i = 0; i < 9; ++i) world.Add(MakeNode(fmt::format("n{}", i)).Gpu(8));
  for (int i = 0; i < 72; ++i) {
    kube::Pod pod = MakePod(fmt::format("p{}", i)).Ns("labs").Gpu(1).On(fmt::format("n{}", i / 8));
    pod.pod_scheduled = kube::PodScheduled{
        .status = true, .reason = {}, .message = {}, .since = world.now() - 1'000};
    if (!workload_class.empty()) pod.meta.labels["berth.dev/class"] = workload_class;
    world.Add(pod);
  }
}

/// So many pods of one GPU that wait, on a cluster that RunYoungLabs has filled.
void WaitBesideYoungLabs(World& world, const std::string& ns, int pods, int priority,
                         const std::string& workload_class = {}) {
  for (int i = 0; i < pods; ++i) {
    world.Add(MakePod(fmt::format("w{}", i)).Ns(ns).Gpu(1).Priority(priority).Gated());
  }
  RunYoungLabs(world, workload_class);
  world.Start();
}

TEST_CASE("an edit that lets lower work be evicted inside its queue is held", "[policy]") {
  std::vector<config::Queue> queues = kQueues;
  queues[0].preemption.within = config::Within::kNever;
  World world(PolicyOf(queues));
  const int waits = GENERATE(64, 65);
  WaitBesideYoungLabs(world, "labs", waits, /*priority=*/5);
  CHECK(Held(world, PolicyOf(queues)).empty());
  queues[0].preemption.within = config::Within::kLower;
  // No more is evicted than what waits asks for.
  CHECK(Held(world, PolicyOf(queues)).empty() == (waits == 64));
}

TEST_CASE("an edit that shortens minRunTime is held for what is of age then", "[policy]") {
  using namespace std::chrono_literals;
  std::vector<config::Queue> queues = kQueues;
  queues[0] = MakeQueue("a", {"labs"});
  queues[0].min_run_time = 1h;
  World world(PolicyOf(queues));
  WaitBesideYoungLabs(world, "other", 96, /*priority=*/0);
  queues[0].min_run_time = 10s;  // they have run for less
  CHECK(Held(world, PolicyOf(queues)).empty());
  queues[0].min_run_time = 0s;
  CHECK_THAT(Held(world, PolicyOf(queues)), Catch::StartsWith("held: 72 devices"));
  SECTION("but not for what the queue may keep") {
    queues[0].quota = {{"nvidia.com/gpu", 8'000}};
    std::vector<config::Queue> now = queues;
    now[0].min_run_time = 1h;
    World other(PolicyOf(now));
    WaitBesideYoungLabs(other, "other", 96, /*priority=*/0);
    CHECK(Held(other, PolicyOf(queues)).empty());  // 64 of 72
  }
}

TEST_CASE("an edit that shortens the minRunTime of a class is held likewise", "[policy]") {
  using namespace std::chrono_literals;
  std::vector<config::Queue> queues = kQueues;
  queues[0] = MakeQueue("a", {"labs"});
  config::PolicyConfiguration policy = PolicyOf(queues);
  policy.classes = {{.name = "training", .min_run_time = 1h}};
  World world(policy);
  WaitBesideYoungLabs(world, "other", 96, /*priority=*/0, "training");
  policy.classes[0].min_run_time = 10s;  // they have run for less
  CHECK(Held(world, policy).empty());
  policy.classes.clear();
  CHECK_THAT(Held(world, policy), Catch::StartsWith("held: 72 devices"));
  policy.queues[0].min_run_time = 1h;  // the longer of both counts
  CHECK(Held(world, policy).empty());
}

/// What of `labs`, which has no quota and uses all 72 GPUs, could be taken back with the edit,
/// while 72 pods of `other` wait that are no demand under the policy in force.
std::string HeldWhileOthersWait(const std::vector<config::Queue>& now,
                                const std::vector<config::Queue>& then) {
  World world(PolicyOf(now));
  WaitBesideYoungLabs(world, "other", 72, /*priority=*/0);
  CHECK(Held(world, PolicyOf(now)).empty());
  return Held(world, PolicyOf(then));
}

// It was held only for demand of now, so that an edit which begins with it evicted at once.
TEST_CASE("an edit is held for work that it admits", "[policy][bug]") {
  std::vector<config::Queue> now{MakeQueue("a", {"labs"}), MakeQueue("b", {"other"}, -1, 72)};
  const std::vector<config::Queue> then = now;
  std::string only = "held: 72 devices";
  SECTION("that a hold kept from starting") { now[1].hold = config::Hold::kHold; }
  SECTION("that a hold above kept from starting") {
    now.push_back(MakeQueue("above", {}, -1, 72));
    now[1].parent = "above";
    std::vector<config::Queue> next = now;
    now[2].hold = config::Hold::kHold;
    CHECK_THAT(HeldWhileOthersWait(now, next), Catch::StartsWith(only));
    return;
  }
  SECTION("that is larger than a limit") { now[1].limit = {{"nvidia.com/gpu", 0}}; }
  SECTION("that a user's cap of jobs kept from starting") {
    now[1].max_jobs_per_user = 1;
    only = "held: 71 devices";
  }
  SECTION("that the queue did not admit") { now[1].namespaces = {"nobody"}; }
  SECTION("of a class that the queue did not admit") {
    now[1].classes = std::vector<std::string>{"training"};
  }
  SECTION("that had no queue") { now.pop_back(); }
  CHECK_THAT(HeldWhileOthersWait(now, then), Catch::StartsWith(only));
}

TEST_CASE("an edit is not held for work that it does not admit either", "[policy]") {
  std::vector<config::Queue> now{MakeQueue("a", {"labs"}), MakeQueue("b", {"other"}, -1, 72)};
  SECTION("in a held queue") { now[1].hold = config::Hold::kHold; }
  SECTION("larger than a limit") { now[1].limit = {{"nvidia.com/gpu", 0}}; }
  SECTION("of another class") { now[1].classes = std::vector<std::string>{"training"}; }
  SECTION("by a user's cap of jobs") { now[1].max_jobs_per_user = 1; }
  std::vector<config::Queue> then = now;
  then[0].priority = 7;
  CHECK(HeldWhileOthersWait(now, then).empty());
}

TEST_CASE("an edit is held for work whose label names a queue that comes with it",
          "[policy][bug]") {
  const std::vector<config::Queue> now{MakeQueue("a", {"labs"})};
  World world(PolicyOf(now));
  for (int i = 0; i < 72; ++i) {
    world.Add(MakePod(fmt::format("w{}", i)).Ns("other").Gpu(1).Queue("b").Gated());
  }
  RunYoungLabs(world);
  world.Start();
  CHECK_THAT(Held(world, PolicyOf({now[0], MakeQueue("b", {"other"}, -1, 72)})),
             Catch::StartsWith("held: 72 devices"));
}

TEST_CASE("an edit is held for work of a class that comes with it", "[policy][bug]") {
  config::PolicyConfiguration policy =
      PolicyOf({MakeQueue("a", {"labs"}), MakeQueue("b", {"other"}, -1, 72)});
  policy.classes = {{.name = "training"}};
  World world(policy);
  for (int i = 0; i < 72; ++i) {
    auto pod = MakePod(fmt::format("w{}", i)).Ns("other").Gpu(1).Gated();
    world.Add(pod.Label("berth.dev/class", "inference"));
  }
  RunYoungLabs(world);
  world.Start();
  CHECK(Held(world, policy).empty());
  policy.classes.push_back({.name = "inference"});
  CHECK_THAT(Held(world, policy), Catch::StartsWith("held: 72 devices"));
  policy.queues[1].classes = std::vector<std::string>{"training"};
  CHECK(Held(world, policy).empty());  // the queue does not admit it
  policy.queues[1].classes.reset();
  policy.classes.clear();  // which ignores the label
  CHECK_THAT(Held(world, policy), Catch::StartsWith("held: 72 devices"));
}

// Of the 72 jobs of the user 6 count now, and one more then.
TEST_CASE("an edit that raises a user's cap admits no more than that", "[policy]") {
  std::vector<config::Queue> queues{MakeQueue("a", {"labs"}), MakeQueue("b", {"other"}, -1, 72)};
  queues[1].max_jobs_per_user = 6;
  World world(PolicyOf(queues));
  WaitBesideYoungLabs(world, "other", 72, /*priority=*/0);
  queues[1].max_jobs_per_user = 7;
  config::PolicyConfiguration next = PolicyOf(queues);
  next.eviction.max_per_edit = 1;
  CHECK(Held(world, next).empty());
  next.eviction.max_per_edit = 0;
  CHECK_THAT(Held(world, next), Catch::StartsWith("held: 1 devices"));
}

// A pod that is refused alone beside a complete gang: the gang is demand as it is.
TEST_CASE("an edit is not held for a gang of which one pod is refused", "[policy][bug]") {
  std::vector<config::Queue> queues{MakeQueue("a", {"labs"}), MakeQueue("b", {"other"}, -1, 72)};
  World world(PolicyOf(queues));
  for (int i = 0; i < 72; ++i) {
    world.Add(MakePod(fmt::format("g-{}", i)).Ns("other").Gpu(1).Gang("g", 72).Gated());
  }
  world.Add(MakePod("odd").Ns("other").Gpu(1).Gang("g", 3).Gated());
  RunYoungLabs(world);
  world.Start();
  queues[0].priority = 7;
  CHECK(Held(world, PolicyOf(queues)).empty());
}

/// 72 GPUs, all of them held by one gang of `labs`, of which `min` pods must run, for a second; a
/// pod of `ns` waits for one of them.
void RunGangOfLabs(World& world, int min, const std::string& ns, int priority) {
  for (int i = 0; i < 9; ++i) world.Add(MakeNode(fmt::format("n{}", i)).Gpu(8));
  for (int i = 0; i < 72; ++i) {
    auto builder = MakePod(fmt::format("g-{}", i)).Ns("labs").Gpu(1).Gang("g", 72).Min(min);
    kube::Pod pod = builder.Label("berth.dev/class", "training").On(fmt::format("n{}", i / 8));
    pod.pod_scheduled = kube::PodScheduled{
        .status = true, .reason = {}, .message = {}, .since = world.now() - 1'000};
    world.Add(pod);
  }
  world.Add(MakePod("w").Ns(ns).Gpu(1).Priority(priority).Gated());
  world.Start();
}

// It was held for what is asked for, and a gang ended whole for one device.
TEST_CASE("an edit is held for whole jobs, as they end whole", "[policy][bug]") {
  using namespace std::chrono_literals;
  config::PolicyConfiguration now =
      PolicyOf({MakeQueue("a", {"labs"}, -1, 72), MakeQueue("b", {"other"})});
  now.classes = {{.name = "training"}};
  config::PolicyConfiguration next = now;
  std::string waits = "labs";
  SECTION("where one of them reaches below what the queue may keep") {
    waits = "other";
    next.queues[0].quota = {{"nvidia.com/gpu", 71'000}};
    next.queues[1].quota = {{"nvidia.com/gpu", 1'000}};
  }
  SECTION("where lower work may be evicted then") {
    now.queues[0].preemption.within = config::Within::kNever;
  }
  SECTION("where the minRunTime of the queue is over then") { now.queues[0].min_run_time = 1h; }
  SECTION("where the minRunTime of the class is over then") { now.classes[0].min_run_time = 1h; }
  SECTION("where other queues begin to take back") {
    waits = "other";
    now.queues[0].quota = next.queues[0].quota = {{"nvidia.com/gpu", 70'000}};
    now.queues[1].quota = next.queues[1].quota = {{"nvidia.com/gpu", 1'000}};
    now.queues[1].preemption.reclaim = config::Reclaim::kNever;
  }
  World world(now);
  RunGangOfLabs(world, 72, waits, /*priority=*/5);
  CHECK(Held(world, now).empty());
  CHECK_THAT(Held(world, next), Catch::StartsWith("held: 72 devices"));
}

TEST_CASE("an edit is held for the surplus of a gang pod by pod", "[policy]") {
  std::vector<config::Queue> queues{MakeQueue("a", {"labs"}, -1, 72), MakeQueue("b", {"other"})};
  World world(PolicyOf(queues));
  RunGangOfLabs(world, 8, "other", /*priority=*/0);
  queues[0].quota = {{"nvidia.com/gpu", 64'000}};
  config::PolicyConfiguration next = PolicyOf(queues);
  next.eviction.max_per_edit = 0;
  // Seven pods of surplus, and the minimum for the last device.
  CHECK_THAT(Held(world, next), Catch::StartsWith("held: 15 devices"));
}

/// What of `labs`, which runs 72 pods of one GPU, could be taken back with the edit, while
/// non-preemptible pods of `other` wait for 72 GPUs.
std::string HeldWhileNonPreemptibleWorkWaits(const config::PolicyConfiguration& now,
                                             const config::PolicyConfiguration& then, int gpus,
                                             const std::string& label = "berth.dev/preemptible",
                                             const std::string& value = "false") {
  World world(now);
  for (int i = 0; i < 72 / gpus; ++i) {
    auto pod = MakePod(fmt::format("w{}", i)).Ns("other").Gpu(gpus).Gated();
    world.Add(pod.Label(label, value));
  }
  RunYoungLabs(world);
  world.Start();
  CHECK(Held(world, now).empty());
  config::PolicyConfiguration alike = now;
  alike.queues[0].priority = 7;
  CHECK(Held(world, alike).empty());
  return Held(world, then);
}

// Its demand then was taken for that of now, which ends at the quotas of now.
TEST_CASE("an edit is held for non-preemptible work for which quotas have room then",
          "[policy][bug]") {
  config::PolicyConfiguration now =
      PolicyOf({MakeQueue("a", {"labs"}), MakeQueue("b", {"other"}, -1, 1)});
  config::PolicyConfiguration next = now;
  SECTION("in its queue") {
    next.queues[1] = MakeQueue("b", {"other"}, -1, 72);
    // One of the pods of one GPU is demand now.
    CHECK_THAT(HeldWhileNonPreemptibleWorkWaits(now, next, 1), Catch::StartsWith("held: 71"));
    CHECK_THAT(HeldWhileNonPreemptibleWorkWaits(now, next, 8), Catch::StartsWith("held: 72"));
    next.queues[1] = MakeQueue("b", {"other"}, -1, 8);
    CHECK(HeldWhileNonPreemptibleWorkWaits(now, next, 8).empty());
    next.eviction.max_per_edit = 0;
    CHECK_THAT(HeldWhileNonPreemptibleWorkWaits(now, next, 8), Catch::StartsWith("held: 8 "));
  }
  SECTION("above it") {
    now.queues.push_back(MakeQueue("above", {}, -1, 1));
    now.queues[1] = MakeQueue("b", {"other"}, -1, 72);
    now.queues[1].parent = "above";
    next = now;
    next.queues[2] = MakeQueue("above", {}, -1, 72);
    CHECK_THAT(HeldWhileNonPreemptibleWorkWaits(now, next, 8), Catch::StartsWith("held: 72"));
    next = now;
    next.queues[1].parent.clear();
    CHECK_THAT(HeldWhileNonPreemptibleWorkWaits(now, next, 8), Catch::StartsWith("held: 72"));
  }
  next.eviction.max_per_edit = 0;
  SECTION("because they are gone, and do not restrict it") {
    next.queues[1] = MakeQueue("b", {"other"});
    CHECK_THAT(HeldWhileNonPreemptibleWorkWaits(now, next, 8), Catch::StartsWith("held: 32 "));
  }
  SECTION("because its class is preemptible then, or gone") {
    now.classes = {{.name = "training", .preemptible = false}};
    if (GENERATE(true, false)) next.classes = {{.name = "training"}};
    CHECK_THAT(HeldWhileNonPreemptibleWorkWaits(now, next, 8, "berth.dev/class", "training"),
               Catch::StartsWith("held: 32 "));
  }
}

}  // namespace
}  // namespace berth::server
