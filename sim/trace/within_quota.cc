#include "sim/trace/within_quota.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <utility>

#include "sim/faults/day.h"
#include "sim/faults/usage.h"

namespace berth::sim {
namespace {

/// A queue on the path of others, and the GPUs that the jobs of all of them ask for.
struct Account {
  std::optional<std::int64_t> quota{};  ///< In thousandths.
  std::int64_t demand = 0;
};

/// The accounts on the path of a queue, the queue itself first.
class Accounts {
 public:
  explicit Accounts(const config::PolicyConfiguration& policy) : policy_(policy) {}

  const std::vector<Account*>& On(const std::string& queue) {
    const auto [path, fresh] = paths_.try_emplace(queue);
    if (!fresh) return path->second;
    for (const std::string& name : PathOf(queue, policy_)) {
      const auto [account, first] = accounts_.try_emplace(name);
      const auto found = std::ranges::find(policy_.queues, name, &config::Queue::name);
      if (first && found != policy_.queues.end() && found->quota.contains(kGpu)) {
        account->second.quota = AmountOf(found->quota, kGpu);
      }
      path->second.push_back(&account->second);
    }
    return path->second;
  }

 private:
  const config::PolicyConfiguration& policy_;
  std::map<std::string, Account> accounts_;
  std::map<std::string, std::vector<Account*>> paths_;
};

}  // namespace

std::vector<bool> WithinQuota(std::span<const JobStay> jobs,
                              const config::PolicyConfiguration& policy) {
  Accounts accounts(policy);
  const auto add = [&](const JobStay& job, std::int64_t sign) {
    for (Account* account : accounts.On(job.queue)) {
      account->demand += sign * job.gpus * cluster::kMilli;
    }
  };
  using Ending = std::pair<TimePoint, std::size_t>;
  std::priority_queue<Ending, std::vector<Ending>, std::greater<>> ends;
  std::vector<bool> within;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    for (; !ends.empty() && ends.top().first <= jobs[i].arrival; ends.pop()) {
      add(jobs[ends.top().second], -1);
    }
    add(jobs[i], 1);
    if (jobs[i].end >= 0) ends.emplace(jobs[i].end, i);
    const std::vector<Account*>& path = accounts.On(jobs[i].queue);
    within.push_back(
        std::ranges::any_of(path, [](const Account* of) { return of->quota.has_value(); }) &&
        std::ranges::all_of(
            path, [](const Account* of) { return !of->quota || of->demand <= *of->quota; }));
  }
  return within;
}

}  // namespace berth::sim
