#include "server/ops/policy_edit.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "cluster/plan_claim.h"
#include "cluster/queue_directory.h"
#include "policy/edit_exposure.h"
#include "server/ops/queue_numbers.h"

namespace berth::server {
namespace {

constexpr std::int64_t kFewDevices = 64;

std::int64_t Devices(std::int64_t milli) { return (milli + cluster::kMilli - 1) / cluster::kMilli; }

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
    names.push_back(fmt::format("{} {}", queue, Devices(devices)));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

/// What of the workloads that it visits is another queue's under the next policy.
class MoveReader {
 public:
  explicit MoveReader(const config::PolicyConfiguration& next)
      : next_(&next), queues_(next.queues) {}

  void Visit(const cluster::Store& store, const cluster::Workload& workload) {
    for (const cluster::PodInfo* pod : workload.members) {
      if (pod->charged_queue == cluster::kNoQueue) continue;
      policy::Move* move = MoveOf(store, pod->charged_queue, *pod);
      if (move == nullptr) continue;
      move->used.resize(store.device_ids().size());
      for (std::size_t kind = 0; kind < move->used.size(); ++kind) {
        for (const auto& [id, amount] : pod->queue_charge) {
          if (id == store.device_ids()[kind]) move->used[kind] += amount;
        }
      }
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

 private:
  /// nullptr: the pod's work in the queue `from` stays there.
  policy::Move* MoveOf(const cluster::Store& store, cluster::QueueId from,
                       const cluster::PodInfo& pod) {
    const std::string& name = store.queue(from).config.name;
    const auto claim = cluster::BoundClaimOf(pod.object);
    const auto to = queues_.Find(pod.object.meta.ns, claim ? claim->queue : std::string_view(),
                                 pod.claims == nullptr ? std::string_view() : pod.claims->queue);
    const std::string then = to ? next_->queues[*to].name : std::string();
    if (then == name) return nullptr;
    return &moves_.try_emplace({name, then}, policy::Move{.from = name, .to = then}).first->second;
  }

  const config::PolicyConfiguration* next_;
  cluster::QueueDirectory queues_;
  std::map<std::pair<std::string, std::string>, policy::Move> moves_;
};

}  // namespace

std::string WhyHeld(const InParts& read, const config::PolicyConfiguration& next) {
  QueueReader reader;
  MoveReader moves(next);
  ForEachWorkload(read, [&](const engine::Engine& engine, const cluster::Workload& workload, auto) {
    reader.Visit(engine, workload);
    moves.Visit(engine.store(), workload);
  });
  config::PolicyConfiguration current;
  const auto [tree, kinds] =
      reader.Read(read, [&](const cluster::Store& store) { current = store.policy(); });
  const policy::Exposure exposure =
      policy::ExposureOf(tree, kinds, current, next, moves.Moves(kinds.size()));
  const std::int64_t exposed = Devices(exposure.devices);
  const std::int64_t most = MostOf(next, exposure.in_use);
  if (exposed <= most) return {};
  return fmt::format(
      "held: {} devices that are in use, and that their queues may keep now, could be taken back "
      "or "
      "are drained ({}); without a confirmation an edit may do that to {}. To confirm, add "
      "eviction: {{maxPerEdit: {}}} to the policy",
      exposed, NamesOf(exposure), most, exposed);
}

}  // namespace berth::server
