#include "server/ops/policy_edit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cluster/plan_claim.h"
#include "cluster/queue_directory.h"
#include "engine/min_run_time.h"
#include "engine/victims.h"
#include "policy/edit_exposure.h"
#include "policy/job_losses.h"
#include "policy/queue_demand.h"
#include "server/ops/admitted_reader.h"
#include "server/ops/queue_numbers.h"

namespace berth::server {
namespace {

constexpr std::int64_t kFewDevices = 64;

std::int64_t WholeDevices(std::int64_t milli) {
  return (milli + cluster::kMilli - 1) / cluster::kMilli;
}

std::int64_t MostOf(const config::PolicyConfiguration& next, std::int64_t in_use) {
  const std::int64_t said = next.eviction.max_per_edit;
  return said >= 0 ? said : std::max(kFewDevices, in_use / cluster::kMilli / 10);
}

std::string NamesOf(const policy::Exposure& exposure) {
  constexpr std::size_t kMost = 5;
  std::vector<std::string> names;
  for (const auto& [queue, devices] : exposure.queues) {
    if (names.size() == kMost) {
      names.push_back("...");
      break;
    }
    names.push_back(fmt::format("{} {}", queue, WholeDevices(devices)));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

/// What the pod is charged of each kind of devices.
policy::DeviceAmounts AmountsHeldBy(const cluster::Store& store, const cluster::PodInfo& pod) {
  policy::DeviceAmounts devices;
  for (const cluster::ResourceId kind : store.device_ids()) {
    std::int64_t& sum = devices.emplace_back();
    for (const auto& [id, amount] : pod.queue_charge) {
      if (id == kind) sum += amount;
    }
  }
  return devices;
}

std::int64_t SumOf(const policy::DeviceAmounts& devices) {
  return std::accumulate(devices.begin(), devices.end(), std::int64_t{0});
}

/// A job that runs and may be evicted, and one of its pods.
struct RunningJob {
  policy::JobSize size{};
  const cluster::PodInfo* pod = nullptr;
};

/// What ends of the workload as one: the minimum of a gang, of which any members may be the last
/// ones, so that the largest count; and each pod beyond it.
std::vector<RunningJob> RunningJobsOf(const cluster::Store& store,
                                      const cluster::Workload& workload) {
  std::vector<RunningJob> pods;
  for (const auto* members : {&workload.members, &workload.faulty}) {
    for (const cluster::PodInfo* pod : *members) {
      const bool runs = pod->charge != cluster::Charge::kNone && !engine::IsSpared(*pod);
      if (!runs) continue;
      RunningJob job{.size = {.devices = AmountsHeldBy(store, *pod)}, .pod = pod};
      if (SumOf(job.size.devices) > 0) pods.push_back(std::move(job));
    }
  }
  std::ranges::stable_sort(pods, std::greater(),
                           [](const RunningJob& job) { return SumOf(job.size.devices); });
  if (pods.empty()) return pods;
  const auto all = std::ssize(pods);
  const bool whole = workload.in_tree || !workload.started;  // it has no surplus
  const auto min =
      whole ? all : std::clamp<std::ptrdiff_t>(workload.min_member - workload.finished, 1, all);
  const auto last = pods.begin() + min;
  for (auto it = pods.begin() + 1; it != last; ++it) {
    for (std::size_t kind = 0; kind < it->size.devices.size(); ++kind) {
      pods.front().size.devices[kind] += it->size.devices[kind];
    }
  }
  pods.erase(pods.begin() + 1, last);
  return pods;
}

/// What of the workloads that it visits is another queue's under the next policy, and what runs in
/// which queue then.
class MoveReader {
 public:
  explicit MoveReader(const config::PolicyConfiguration& next)
      : next_(&next), queues_(next.queues) {}

  void Visit(const cluster::Store& store, const cluster::Workload& workload) {
    for (const cluster::PodInfo* pod : workload.members) {
      if (pod->charged_queue == cluster::kNoQueue) continue;
      policy::Move* move = MoveOf(store, pod->charged_queue, *pod);
      if (move == nullptr) continue;
      const policy::DeviceAmounts devices = AmountsHeldBy(store, *pod);
      move->used.resize(devices.size());
      for (std::size_t kind = 0; kind < devices.size(); ++kind) move->used[kind] += devices[kind];
    }
    for (const RunningJob& job : RunningJobsOf(store, workload)) {
      if (job.pod->charged_queue == cluster::kNoQueue) continue;
      running_[QueueThen(*job.pod)].push_back(job.size);
    }
    if (workload.members.empty() || workload.queue == cluster::kNoQueue) return;
    const cluster::PodInfo& first = *workload.members.front();
    if (MoveOf(store, workload.queue, first) == nullptr) return;
    for (const policy::QueueJob& job : policy::JobsOf(store, workload, /*placeable=*/true)) {
      policy::Move* move = MoveOf(store, job.queue, first);
      if (move != nullptr) move->jobs.push_back({.devices = job.devices});
    }
  }

  /// `kinds`: of devices, now; more or fewer may have been known when workloads were visited.
  std::vector<policy::Move> Moves(std::size_t kinds) const {
    std::vector<policy::Move> moves;
    for (const auto& [queues, move] : moves_) {
      policy::Move& last = moves.emplace_back(move);
      last.used.resize(kinds);
      for (policy::JobSize& job : last.jobs) job.devices.resize(kinds);
    }
    return moves;
  }

  const policy::RunningJobs& running() const { return running_; }

 private:
  /// Empty: none.
  std::string QueueThen(const cluster::PodInfo& pod) const {
    const auto claim = cluster::BoundClaimOf(pod.object);
    const auto to = queues_.Find(pod.object.meta.ns, claim ? claim->queue : std::string_view(),
                                 pod.claims == nullptr ? std::string_view() : pod.claims->queue);
    return to ? next_->queues[*to].name : std::string();
  }

  /// nullptr: the pod's work in the queue `from` stays there.
  policy::Move* MoveOf(const cluster::Store& store, cluster::QueueId from,
                       const cluster::PodInfo& pod) {
    const std::string& name = store.queue(from).config.name;
    const std::string then = QueueThen(pod);
    if (then == name) return nullptr;
    return &moves_.try_emplace({name, then}, policy::Move{.from = name, .to = then}).first->second;
  }

  const config::PolicyConfiguration* next_;
  cluster::QueueDirectory queues_;
  std::map<std::pair<std::string, std::string>, policy::Move> moves_;
  policy::RunningJobs running_;
};

/// What of the workloads that it visits may be evicted under the next policy, and not now, because
/// of minRunTime or preemption.within.
class LoosenedReader {
 public:
  explicit LoosenedReader(const config::PolicyConfiguration& next) : policy_(&next) {
    for (const config::Queue& queue : next.queues) next_[queue.name] = &queue;
  }

  void Visit(const engine::Engine& engine, const cluster::Workload& workload,
             engine::TimePoint now) {
    const cluster::Store& store = engine.store();
    if (workload.queue == cluster::kNoQueue) return;
    const config::Queue& current = store.queue(workload.queue).config;
    const auto next = next_.find(current.name);
    if (next == next_.end()) return;
    Work& work = queues_[current.name];
    const std::vector<RunningJob> runs = RunningJobsOf(store, workload);
    if (runs.empty()) {
      for (const policy::QueueJob& job : policy::JobsOf(store, workload, /*placeable=*/true)) {
        for (const std::int64_t amount : job.devices) work.waits[workload.priority] += amount;
      }
      return;
    }
    const engine::TimePoint of_age = engine.OfAgeAt(workload, now);
    const engine::TimePoint then = of_age -
                                   engine::MinRunTimeIn(store.policy(), current, workload).count() +
                                   engine::MinRunTimeIn(*policy_, *next->second, workload).count();
    if (of_age > now && then > now) return;
    const bool young = of_age > now;
    const bool was_safe = young || current.preemption.within == config::Within::kNever;
    const bool within = next->second->preemption.within == config::Within::kLower;
    for (const RunningJob& job : runs) {
      if (young) work.of_age.push_back(job.size);
      if (was_safe && within) work.runs[workload.priority].push_back(job.size);
    }
  }

  std::vector<policy::Loosened> Read() const {
    std::vector<policy::Loosened> loosened;
    for (const auto& [name, work] : queues_) {
      policy::Loosened& queue = loosened.emplace_back(name, work.of_age);
      if (work.runs.empty() || work.waits.empty()) continue;
      std::vector<policy::JobSize> lower;
      std::int64_t higher = 0;
      for (const auto& [priority, jobs] : work.runs) {
        if (priority < work.waits.rbegin()->first)
          lower.insert(lower.end(), jobs.begin(), jobs.end());
      }
      for (const auto& [priority, amount] : work.waits) {
        if (priority > work.runs.begin()->first) higher += amount;
      }
      // Several jobs may share a device.
      std::int64_t all = 0;
      for (const policy::JobSize& job : lower) all += job.count * SumOf(job.devices);
      queue.outranked = std::max(std::min(all, higher), policy::MostTakenFor(lower, higher));
    }
    return loosened;
  }

 private:
  struct Work {
    std::vector<policy::JobSize> of_age{};
    /// By priority: the jobs that may be evicted then.
    std::map<std::int32_t, std::vector<policy::JobSize>> runs{};
    std::map<std::int32_t, std::int64_t> waits{};  ///< By priority.
  };

  const config::PolicyConfiguration* policy_;
  std::map<std::string, const config::Queue*, std::less<>> next_;  ///< Its queues.
  std::map<std::string, Work> queues_;
};

}  // namespace

std::string WhyHeld(const InParts& read, const config::PolicyConfiguration& next) {
  QueueReader reader;
  MoveReader moves(next);
  AdmittedReader admitted(next);
  LoosenedReader loosened(next);
  ForEachWorkload(read, [&](const engine::Engine& engine, const cluster::Workload& workload,
                            engine::TimePoint now) {
    reader.Visit(engine, workload);
    moves.Visit(engine.store(), workload);
    admitted.Visit(engine, workload);
    loosened.Visit(engine, workload, now);
  });
  config::PolicyConfiguration current;
  const auto [tree, kinds] =
      reader.Read(read, [&](const cluster::Store& store) { current = store.policy(); });
  std::vector<policy::Move> moved = moves.Moves(kinds.size());
  admitted.AppendTo(moved, kinds.size());
  const policy::Exposure exposure =
      policy::ExposureOf(tree, kinds, current, next,
                         {.moves = moved,
                          .loosened = loosened.Read(),
                          .running = moves.running(),
                          .non_preemptible = admitted.non_preemptible()});
  const std::int64_t exposed = WholeDevices(exposure.devices);
  const std::int64_t most = MostOf(next, exposure.in_use);
  if (exposed <= most) return {};
  return fmt::format(
      "held: {} devices in use, which their queues may keep now, could be taken back or would be "
      "drained with this edit ({}); without confirmation, an edit may do that to at most {}. To "
      "confirm, add eviction: {{maxPerEdit: {}}} to the policy",
      exposed, NamesOf(exposure), most, exposed);
}

}  // namespace berth::server
