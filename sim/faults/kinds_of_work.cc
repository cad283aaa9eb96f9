#include "sim/faults/kinds_of_work.h"

#include <string>
#include <utility>
#include <vector>

#include "sim/random.h"

namespace berth::sim {
namespace {

constexpr const char* kModel = "example.com/model";

config::FlavorQuota DrawAmounts(const char* flavor, Random& random) {
  config::FlavorQuota amounts{.flavor = flavor};
  if (random.Percent(50)) amounts.quota[kGpu] = random.Between(1, 8) * 1'000;
  if (random.Percent(70)) {
    const auto quota = amounts.quota.find(kGpu);
    const std::int64_t least = quota == amounts.quota.end() ? 1 : quota->second / 1'000;
    amounts.limit[kGpu] = random.Between(least, 16) * 1'000;
  }
  return amounts;
}

void DrawQueues(Day& day, Random& random) {
  for (config::Queue& queue : day.policy.queues) {
    if (random.Percent(50)) {
      const auto limit = queue.limit.find(kGpu);
      const std::int64_t most = limit == queue.limit.end() ? 12 : limit->second / 1'000;
      queue.quota[kGpu] = random.Between(0, most) * 1'000;
    }
    for (const char* flavor : {"new", "old"}) {
      if (random.Percent(40)) queue.quotas.push_back(DrawAmounts(flavor, random));
    }
    if (random.Percent(20)) queue.non_preemptible = false;
    if (random.Percent(20)) queue.classes = std::vector<std::string>{"training"};
    if (random.Percent(30)) queue.order = config::Order::kPredictedService;
  }
  day.policy.borrowing = random.Percent(40);
  config::Queue top{.name = "top"};
  if (random.Percent(50)) top.quota[kGpu] = random.Between(2, 16) * 1'000;
  top.quotas.push_back(DrawAmounts("new", random));
  day.policy.queues[0].parent = "top";
  if (random.Percent(50)) day.policy.queues[1].parent = "top";
  day.policy.queues.push_back(std::move(top));
}

}  // namespace

void DrawFlavors(Day& day) {
  Random random(day.seed, 15);
  for (kube::Node& node : day.nodes) {
    if (random.Percent(80)) node.meta.labels[kModel] = random.Percent(50) ? "new" : "old";
  }
  day.policy.flavors = {{.name = "new", .node_selector = {{kModel, "new"}}},
                        {.name = "old", .node_selector = {{kModel, "old"}}}};
  if (random.Percent(50)) std::swap(day.policy.flavors[0], day.policy.flavors[1]);
  day.policy.classes = {{.name = "training"}, {.name = "interactive", .preemptible = false}};
  DrawQueues(day, random);
  for (Job& job : day.jobs) {
    if (random.Percent(30)) job.preemptible = random.Percent(20) ? "true" : "false";
    if (random.Percent(40)) job.workload_class = random.Percent(70) ? "training" : "interactive";
    if (random.Percent(15)) job.model = random.Percent(50) ? "new" : "old";
    if (random.Percent(40)) job.expects = random.Between(1, 100) * 1'000;
  }
  Random times(day.seed, 24);
  if (times.Percent(40)) {
    day.policy.classes[0].min_run_time = std::chrono::seconds(times.Between(5, 60));
  }
}

void DrawUsers(Day& day) {
  Random random(day.seed, 16);
  for (config::Queue& queue : day.policy.queues) {
    if (random.Percent(40)) queue.fair_within = config::FairWithin::kUser;
    if (random.Percent(15)) queue.fair_within = config::FairWithin::kNamespace;
    if (random.Percent(40)) queue.max_jobs_per_user = static_cast<int>(random.Between(1, 3));
  }
  for (Job& job : day.jobs) {
    if (random.Percent(80)) job.user = random.Percent(60) ? "ann" : "bob";
  }
}

void DrawEvictions(Day& day) {
  Random random(day.seed, 17);
  config::Eviction& eviction = day.policy.eviction;
  if (random.Percent(60)) eviction.max_evictions = static_cast<int>(random.Between(1, 3));
  if (random.Percent(30)) eviction.warning = std::chrono::seconds(random.Between(2, 40));
}

void EditUsers(config::PolicyConfiguration& policy, std::uint64_t choice) {
  config::Queue& queue = policy.queues[choice % policy.queues.size()];
  switch (choice / 1024 % 4) {
    case 0:
      queue.max_jobs_per_user = static_cast<int>(choice / 16 % 3);
      return;
    case 1:
      queue.fair_within = static_cast<config::FairWithin>(choice / 16 % 3);
      return;
    default:
      return;
  }
}

void EditFlavors(config::PolicyConfiguration& policy, std::uint64_t choice) {
  const auto amount = static_cast<std::int64_t>(1 + choice / 8 % 12) * 1'000;
  switch (choice % 6) {
    case 0:
      for (config::Queue& queue : policy.queues) queue.quotas.clear();
      return;
    case 1:
      for (config::FlavorQuota& amounts : policy.queues[choice / 8 % 2].quotas) {
        amounts.quota.clear();
        amounts.limit[kGpu] = amount;
      }
      return;
    case 2:
      policy.queues[choice / 8 % 3].quota[kGpu] = amount;
      policy.queues[choice / 8 % 3].limit.clear();
      return;
    case 3:
      std::swap(policy.flavors[0].node_selector, policy.flavors[1].node_selector);
      return;
    case 4:
      policy.classes[0].preemptible = !policy.classes[0].preemptible;
      policy.borrowing = !policy.borrowing;
      return;
    default:
      policy.queues[choice / 8 % 2].non_preemptible = false;
      policy.queues[choice / 8 % 2].classes.reset();
      policy.flavors[0].node_selector.clear();
  }
}

}  // namespace berth::sim
