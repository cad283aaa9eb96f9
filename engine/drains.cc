// Engine, part: what runs in a queue that is drained (queues[].hold: holdAndDrain), or below it,
// ends, job by job, and nobody waits for its room. As for other evictions (evictions.cc), all pods
// of a job are tried dry first: a job of which one would be refused stays as a whole, and is tried
// again later. Nothing of this has to be remembered over a restart: the policy says it.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/engine.h"
#include "engine/eviction.h"

namespace berth::engine {

using cluster::PodInfo;
using cluster::QueueId;
using cluster::Workload;

namespace {

/// A job that may not end, and a pod that does not, are tried again after that time.
constexpr TimePoint kRetryAfter = 60'000;

std::string JobKey(const PodInfo& pod) {
  if (pod.workload != nullptr) return pod.workload->key;
  return pod.object.meta.ns + "/pod/" + pod.object.meta.name;
}

/// The pods of the drain that are there and do not end yet.
std::vector<const PodInfo*> Remaining(const cluster::Store& store, const Drain& drain) {
  std::vector<const PodInfo*> pods;
  for (const std::string& uid : drain.pods) {
    const PodInfo* pod = store.FindPod(uid);
    if (pod != nullptr && !pod->terminating()) pods.push_back(pod);
  }
  return pods;
}

}  // namespace

/// The queue that is drained, if the pod holds room in it or below it; kNoQueue: none.
QueueId Engine::DrainedBy(const PodInfo& pod) const {
  if (pod.charged_queue == cluster::kNoQueue || Passthrough()) return cluster::kNoQueue;
  return store_.queue(pod.charged_queue).drained_by;
}

void Engine::LookForDrainsAt(TimePoint when) {
  drains_due_ = std::min(drains_due_.value_or(when), when);
}

/// Goes on with the drains, and begins those that are missing. Takes time in proportion to the pods
/// if any is due.
void Engine::GoOnDraining(TimePoint now) {
  if (!drains_due_ || *drains_due_ > now) return;
  drains_due_.reset();
  std::erase_if(drains_, [this](const auto& drain) { return EndsDrain(drain.second); });
  for (auto& [key, drain] : drains_) {
    const bool due = drain.due <= now && drain.evictions.unanswered.empty();
    if (due && drain.evictions.stage == Evicting::kWarned) TryDrain(key, drain);  // budgets change
    if (due && drain.evictions.stage == Evicting::kSent) {
      drain.evictions.accepted.clear();
      SendDrainEvictions(key, drain, now);
    }
    if (drain.evictions.stage != Evicting::kDryRun) {
      LookForDrainsAt(drain.due > now ? drain.due : now + kRetryAfter);
    }
  }
  for (const auto& [key, pods] : JobsToDrain(now)) DrainJob(key, pods, now);
}

/// By job, the pods that run in queues that are drained, or whose gang does in part, and that are
/// not evicted yet.
std::map<std::string, std::vector<const PodInfo*>> Engine::JobsToDrain(TimePoint now) {
  std::map<std::string, std::vector<const PodInfo*>> jobs;
  const auto runs = [](const PodInfo* pod) { return pod->bound() && !pod->terminating(); };
  for (const auto& node : store_.nodes()) {
    for (const PodInfo* pod : node->pods) {
      if (!runs(pod) || DrainedBy(*pod) == cluster::kNoQueue) continue;
      const std::string& victim_of = states_.At(*pod).victim_of;
      if (victim_of.empty()) {
        jobs[JobKey(*pod)].push_back(pod);
      } else if (victim_of != kDrain) {
        LookForDrainsAt(now + kRetryAfter);  // that other eviction may be refused
      }
    }
  }
  for (auto& [key, pods] : jobs) {
    const Workload* workload = pods.front()->workload;
    if (workload == nullptr || !workload->gang) continue;
    for (const PodInfo* pod : workload->members) {
      const bool elsewhere = runs(pod) && DrainedBy(*pod) == cluster::kNoQueue;
      if (elsewhere && states_.At(*pod).victim_of.empty()) pods.push_back(pod);
    }
  }
  return jobs;
}

/// These pods of the job go: all of them, or those that came to run after the others.
void Engine::DrainJob(const std::string& key, const std::vector<const PodInfo*>& pods,
                      TimePoint now) {
  const auto spared = [&](const PodInfo* pod) { return states_.At(*pod).spared_until > now; };
  if (const auto first = std::ranges::find_if(pods, spared); first != pods.end()) {
    return LookForDrainsAt(states_.At(**first).spared_until);
  }
  if (!drains_.contains(key) && TooManyForBudgets(pods)) {
    for (const PodInfo* pod : pods) states_[*pod].spared_until = now + kRetryAfter;
    return LookForDrainsAt(now + kRetryAfter);
  }
  const auto [entry, fresh] = drains_.try_emplace(key);
  engine::Drain& drain = entry->second;
  if (fresh) {
    drain.evictions.id = fmt::format("drain-{}-{}", options_.instance, ++evictions_begun_);
    drain.queue = QueueName(DrainedBy(*pods.front()));
    Decision decision{.kind = "drain",
                      .workload = key,
                      .queue = drain.queue,
                      .plan = drain.evictions.id,
                      .generation = store_.generation()};
    for (const PodInfo* pod : pods) {
      decision.placed.emplace_back(pod->object.meta.name, store_.node(pod->node).name);
    }
    actions_.push_back(std::move(decision));
  }
  JobsToSuspend jobs(store_);
  for (const PodInfo* pod : pods) {
    const std::string& uid = pod->object.meta.uid;
    states_.SetVictim(*pod, std::string(kDrain));
    if (std::ranges::find(drain.pods, uid) == drain.pods.end()) drain.pods.push_back(uid);
    if (drain.evictions.unanswered.contains(uid)) continue;
    if (drain.evictions.stage == Evicting::kWarned) {
      WarnOfDrain(*pod, drain, drain.due);
    } else {
      OrderDrainEviction(key, drain, *pod,
                         drain.evictions.stage == Evicting::kDryRun ? nullptr : &jobs);
    }
  }
}

/// `jobs`: null for a dry run.
void Engine::OrderDrainEviction(const std::string& key, engine::Drain& drain, const PodInfo& pod,
                                JobsToSuspend* jobs) {
  const bool dry_run = jobs == nullptr;
  const auto& meta = pod.object.meta;
  if (!dry_run) {
    EmitEvent event{.pod = {meta.ns, meta.name, meta.uid},
                    .warning = true,
                    .reason = "Drained",
                    .note = "Evicted: " + ReasonOf(drain)};
    drain.evictions.notices.insert_or_assign(
        meta.uid, EvictionNotice{.event = std::move(event), .job = JobOf(pod)});
  }
  Order(drain.evictions, pod,
        {.workload = key,
         .drained = drain.queue,
         .dry_run = dry_run,
         .job = dry_run ? std::nullopt : jobs->Of(pod)});
}

std::string Engine::ReasonOf(const engine::Drain& drain) {
  return fmt::format("queue {} is drained (hold: holdAndDrain).", drain.queue);
}

void Engine::WarnOfDrain(const PodInfo& pod, const engine::Drain& drain, TimePoint at) {
  if (std::exchange(states_[pod].evict_at, at) != at) Announce(pod, ReasonOf(drain));
}

/// Together they are more than budgets permit. A dry run does not say that: it is of one pod alone.
bool Engine::TooManyForBudgets(const std::vector<const PodInfo*>& pods) const {
  return store_.policy().eviction.by == config::EvictBy::kEviction && BreaksBudgets(pods, store_);
}

void Engine::TryDrain(const std::string& key, engine::Drain& drain) {
  drain.evictions.stage = Evicting::kDryRun;
  for (const PodInfo* pod : Remaining(store_, drain)) {
    OrderDrainEviction(key, drain, *pod, nullptr);
  }
}

/// The job stays for a while, as a whole.
void Engine::PutOffDrain(const engine::Drain& drain, TimePoint now) {
  for (const std::string& uid : drain.pods) {
    const PodInfo* pod = store_.FindPod(uid);
    if (pod == nullptr) continue;
    states_[*pod].spared_until = now + kRetryAfter;
    Spare(*pod);
  }
  KeepWarnings(drain.pods, now + kRetryAfter + 1'000);  // it is tried again then
  LookForDrainsAt(now + kRetryAfter);
}

/// All pods of the job may go. False: they have to be told first, or have some time left.
bool Engine::MayEndDrained(engine::Drain& drain, TimePoint now) {
  if (drain.due != 0 && drain.due <= now) return true;  // they were told
  const TimePoint warning = store_.policy().eviction.warning.count();
  TimePoint told = 0;
  bool all = true;  // told by an earlier process, or by a claim of other work
  for (const std::string& uid : drain.pods) {
    const PodInfo* pod = store_.FindPod(uid);
    if (pod == nullptr) continue;
    told = std::max(told, states_[*pod].evict_at);
    all &= states_[*pod].evict_at != 0;
  }
  drain.due = all && told != 0 ? told : now + warning;
  if (drain.due <= now) return true;
  drain.evictions.stage = Evicting::kWarned;
  for (const PodInfo* pod : Remaining(store_, drain)) WarnOfDrain(*pod, drain, drain.due);
  return false;
}

/// Orders the evictions that come next (NextOf). From now on no member of the gang gets a place.
void Engine::SendDrainEvictions(const std::string& key, engine::Drain& drain, TimePoint now) {
  drain.due = now + kRetryAfter;
  const Workload* workload = store_.FindWorkload(key);
  const bool begins = std::exchange(drain.evictions.stage, Evicting::kSent) != Evicting::kSent;
  if (begins && workload != nullptr && workload->gang && workload->started) {
    states_[*workload].evicted = true;
    GiveUpPlannedOf(*workload);
  }
  JobsToSuspend jobs(store_);
  for (const PodInfo* pod : NextOf(drain.evictions, Remaining(store_, drain))) {
    OrderDrainEviction(key, drain, *pod, &jobs);
  }
}

/// True: the answer was for a drain.
bool Engine::DrainAnswered(const std::string& key, const std::string& id, const std::string& uid,
                           bool dry_run, bool accepted, TimePoint now) {
  const auto entry = drains_.find(key);
  if (entry == drains_.end() || entry->second.evictions.id != id) return false;
  engine::Drain& drain = entry->second;
  if (dry_run != (drain.evictions.stage == Evicting::kDryRun)) return true;
  if (!dry_run && accepted) NoteEvicted(drain.evictions, uid, "drain", now);
  if (drain.evictions.unanswered.erase(uid) == 0) return true;
  if (!accepted && dry_run) {
    PutOffDrain(drain, now);
    drains_.erase(entry);
    return true;
  }
  if (accepted && !dry_run) drain.evictions.accepted.insert(uid);
  if (!accepted) drain.due = std::max(drain.due, now + kRetryAfter);
  if (!drain.evictions.unanswered.empty()) return true;
  if (EndsDrain(drain)) {
    drains_.erase(entry);
    return true;
  }
  if (dry_run && TooManyForBudgets(Remaining(store_, drain))) {
    PutOffDrain(drain, now);
    drains_.erase(entry);
    return true;
  }
  if (dry_run ? MayEndDrained(drain, now) : accepted) SendDrainEvictions(key, drain, now);
  LookForDrainsAt(drain.due);
  return true;
}

/// Whether nothing is left to do for it: its pods are gone or end, or none of them is in a queue
/// that is drained any more; then those that run stay.
bool Engine::EndsDrain(const engine::Drain& drain) {
  const std::vector<const PodInfo*> left = Remaining(store_, drain);
  const auto drained = [this](const PodInfo* pod) { return DrainedBy(*pod) != cluster::kNoQueue; };
  if (std::ranges::any_of(left, drained)) return false;
  for (const PodInfo* pod : left) Spare(*pod);
  return true;
}

}  // namespace berth::engine
