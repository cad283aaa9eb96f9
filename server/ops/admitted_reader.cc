#include "server/ops/admitted_reader.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>

#include "cluster/plan_claim.h"
#include "cluster/queue_refusal.h"
#include "engine/decide.h"
#include "policy/queue_demand.h"
#include "policy/quota.h"

namespace berth::server {
namespace {

/// Whether the policy is all that refuses the pod: its queues, or a class that it does not know.
bool IsRefusedByPolicy(const cluster::PodInfo& pod) {
  const cluster::ReasonId reason = pod.refusal.reason;
  return reason == cluster::ReasonId::kQueueNotAllowed ||
         reason == cluster::ReasonId::kUnknownQueue ||
         (reason == cluster::ReasonId::kInvalidRequest && pod.object.invalid_request.empty() &&
          pod.claims != nullptr && pod.claims->error.empty());
}

/// The pods that could start, those that are refused now among them.
std::vector<const cluster::PodInfo*> Waiting(const cluster::Workload& workload) {
  std::vector<const cluster::PodInfo*> pods = workload.Unplaced();
  std::ranges::copy_if(workload.faulty, std::back_inserter(pods),
                       [](const auto* pod) { return IsRefusedByPolicy(*pod) && !pod->bound(); });
  std::erase_if(pods, [](const cluster::PodInfo* pod) {
    return pod->terminating() || pod->claims == nullptr || engine::HasForeignGate(*pod);
  });
  return pods;
}

/// Whether the limit of the queue is as large as what is asked for.
bool Fits(const cluster::Store& store, const config::Queue& queue, const cluster::Amounts& asked) {
  return std::ranges::all_of(queue.limit, [&](const auto& limit) {
    const auto id = store.resources().Find(limit.first);
    return !id || asked[*id] <= limit.second;
  });
}

bool FitsNow(const cluster::Store& store, cluster::QueueId queue, const cluster::Amounts& asked) {
  return queue == cluster::kNoQueue ||
         std::ranges::all_of(store.queue(queue).path, [&](cluster::QueueId at) {
           return Fits(store, store.queue(at).config, asked);
         });
}

bool IsCapLoosened(const config::Queue& now, const config::Queue& then) {
  const std::int64_t next = then.max_jobs_per_user;
  return now.max_jobs_per_user > 0 && (next == 0 || next > now.max_jobs_per_user);
}

}  // namespace

AdmittedReader::AdmittedReader(const config::PolicyConfiguration& next)
    : next_(&next), queues_(next.queues) {
  for (const config::Queue& queue : next.queues) by_name_[queue.name] = &queue;
}

void AdmittedReader::Visit(const engine::Engine& engine, const cluster::Workload& workload) {
  const cluster::Store& store = engine.store();
  const cluster::Verdict& verdict = engine.StateOf(workload).verdict;
  const bool limited = verdict.reason == cluster::ReasonId::kExceedsLimit;
  ReadNonPreemptible(store, workload, /*placeable=*/!verdict.never && !limited);
  if (workload.started || workload.in_tree || (verdict.never && !limited)) return;
  const std::vector<const cluster::PodInfo*> pods = Waiting(workload);
  const int min = std::max(1, workload.min_member - workload.finished);
  if (std::ssize(pods) < min) return;
  const config::Queue* to = QueueOf(pods);
  if (to == nullptr || IsHeld(*to)) return;
  cluster::Amounts asked;
  for (const cluster::PodInfo* pod : std::span(pods).first(static_cast<std::size_t>(min))) {
    for (const auto& [id, amount] : store.LeastDemandOf(*pod->shape)) asked.Add(id, amount);
  }
  policy::DeviceAmounts devices;
  for (const cluster::ResourceId id : store.device_ids()) devices.push_back(asked[id]);
  if (std::ranges::all_of(devices, [](std::int64_t amount) { return amount == 0; })) return;
  // Pods that are refused alone do not keep the others from being demand.
  const bool queued = workload.queue != cluster::kNoQueue &&
                      std::ranges::count_if(pods, [](const auto* pod) {
                        return pod->refusal.reason == cluster::ReasonId::kNone;
                      }) >= min;
  if (limited && !FitsThen(store, *to, asked)) return;
  if (limited && FitsNow(store, workload.queue, asked)) {
    // No limit refuses it: a quota is too small for its non-preemptible pods. Limits of another
    // kind, on a flavor say, are not looked at.
    return ReadNonPreemptible(store, workload, /*placeable=*/true);
  }
  if (!queued || limited || store.queue(workload.queue).held_by != cluster::kNoQueue) {
    jobs_[to->name].push_back({.devices = std::move(devices)});
  } else if (IsCapLoosened(store.queue(workload.queue).config, *to)) {
    const std::int64_t most = store.queue(workload.queue).config.max_jobs_per_user;
    const policy::QuotaView use(store);
    if (use.HasJob(workload.queue, workload.user, workload.key)) return;
    Capped& capped = capped_[{to->name, workload.user}];
    capped.most = most;
    const bool counts = capped.seen++ < most - use.Jobs(workload.queue, workload.user);
    if (!counts) capped.jobs.push_back({.devices = std::move(devices)});
  }
}

void AdmittedReader::AppendTo(std::vector<policy::Move>& moves, std::size_t kinds) const {
  const auto append = [&](const std::string& to, const std::vector<policy::JobSize>& jobs) {
    policy::Move& move = moves.emplace_back(policy::Move{.from = {}, .to = to, .jobs = jobs});
    for (policy::JobSize& job : move.jobs) job.devices.resize(kinds);
  };
  for (const auto& [to, jobs] : jobs_) append(to, jobs);
  for (const auto& [of, capped] : capped_) {
    const std::int64_t next = by_name_.at(of.first)->max_jobs_per_user;
    std::vector<policy::JobSize> jobs = capped.jobs;
    if (next > 0 && std::ssize(jobs) > next - capped.most) {
      jobs.resize(static_cast<std::size_t>(next - capped.most));
    }
    append(of.first, jobs);
  }
}

void AdmittedReader::ReadNonPreemptible(const cluster::Store& store,
                                        const cluster::Workload& workload, bool placeable) {
  for (policy::QueueJob& job : policy::JobsOf(store, workload, placeable)) {
    const std::string& queue = store.queue(job.queue).config.name;
    if (job.non_preemptible.empty() || workload.members.empty()) continue;
    if (NameThen(*workload.members.front()) != queue) continue;  // it moves
    // Where some pods of several are preemptible then, none counts against quotas: more demand.
    const auto ends = [this](const cluster::PodInfo* pod) {
      return pod->non_preemptible && !StaysNonPreemptible(*pod);
    };
    const bool stays = std::ranges::none_of(workload.members, ends);
    non_preemptible_.push_back({.precedence = job.precedence,
                                .queue = queue,
                                .devices = std::move(job.devices),
                                .now = job.non_preemptible,
                                .then = stays ? job.non_preemptible : policy::DeviceAmounts()});
  }
}

std::string_view AdmittedReader::NameThen(const cluster::PodInfo& pod) const {
  const auto claim = cluster::BoundClaimOf(pod.object);
  const auto to = queues_.Find(pod.object.meta.ns, claim ? claim->queue : std::string_view(),
                               pod.claims == nullptr ? std::string_view() : pod.claims->queue);
  return to ? std::string_view(next_->queues[*to].name) : std::string_view();
}

bool AdmittedReader::StaysNonPreemptible(const cluster::PodInfo& pod) const {
  const auto claim = cluster::BoundClaimOf(pod.object);
  if (claim && claim->preemptible) return !*claim->preemptible;
  if (pod.exempt || pod.claims == nullptr) return true;
  if (pod.claims->preemptible) return !*pod.claims->preemptible;
  return cluster::IsNonPreemptible(*next_, pod.claims->workload_class);
}

/// nullptr: none admits all of them under the next policy.
const config::Queue* AdmittedReader::QueueOf(
    const std::vector<const cluster::PodInfo*>& pods) const {
  const config::Queue* queue = nullptr;
  for (const cluster::PodInfo* pod : pods) {
    const auto place = queues_.Find(pod->object.meta.ns, {}, pod->claims->queue);
    if (!place || !cluster::KnowsClass(*next_, pod->claims->workload_class)) return nullptr;
    queue = &next_->queues[*place];
    const cluster::Work work{.priority_class = pod->object.priority_class,
                             .workload_class = pod->claims->workload_class,
                             .non_preemptible = pod->non_preemptible};
    if (!cluster::WorkRefusal(*queue, work).empty()) return nullptr;
  }
  return queue;
}

bool AdmittedReader::FitsThen(const cluster::Store& store, const config::Queue& queue,
                              const cluster::Amounts& asked) const {
  const auto parent = by_name_.find(queue.parent);
  return Fits(store, queue, asked) &&
         (parent == by_name_.end() || FitsThen(store, *parent->second, asked));
}

bool AdmittedReader::IsHeld(const config::Queue& queue) const {
  if (queue.hold != config::Hold::kNone) return true;
  const auto parent = by_name_.find(queue.parent);
  return parent != by_name_.end() && IsHeld(*parent->second);
}

}  // namespace berth::server
