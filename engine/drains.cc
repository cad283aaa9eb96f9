#include "engine/drains.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "engine/victims.h"

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

}  // namespace

/// The pods of the drain that are there and do not end yet.
Drains::Pods Drains::Remaining(const Drain& drain) const {
  Pods pods;
  for (const std::string& uid : drain.pods) {
    const PodInfo* pod = store_.FindPod(uid);
    if (pod != nullptr && !pod->terminating()) pods.push_back(pod);
  }
  return pods;
}

QueueId Drains::QueueOf(const PodInfo& pod) const {
  if (pod.charged_queue == cluster::kNoQueue || IsOff()) return cluster::kNoQueue;
  return store_.queue(pod.charged_queue).drained_by;
}

void Drains::GoOn(TimePoint now) {
  if (!due_ || *due_ > now) return;
  due_.reset();
  EndNeedless();
  for (auto& [key, drain] : drains_) {
    const bool due = drain.due <= now && drain.evictions.unanswered.empty();
    if (due && drain.evictions.stage == Evicting::kWarned) Try(drain);  // budgets change
    if (due && drain.evictions.stage == Evicting::kSent) {
      drain.evictions.accepted.clear();
      SendEvictions(key, drain, now);
    }
    if (drain.evictions.stage != Evicting::kDryRun) {
      LookAt(drain.due > now ? drain.due : now + kRetryAfter);
    }
  }
  for (const auto& [key, pods] : JobsToDrain(now)) DrainJob(key, pods, now);
}

void Drains::EndNeedless() {
  for (auto drain = drains_.begin(); drain != drains_.end();) {
    drain = Ends(drain->second) ? drains_.erase(drain) : std::next(drain);
  }
}

std::map<std::string, Drains::Drain>::iterator Drains::Find(const std::string& id) {
  return std::ranges::find_if(drains_,
                              [&](const auto& entry) { return entry.second.evictions.id == id; });
}

bool Drains::IsUnderWay(const std::string& id) const {
  return std::ranges::any_of(drains_, [&](const auto& entry) {
    const Drain& drain = entry.second;
    return drain.evictions.id == id && (drain.begun() || !drain.lifted);
  });
}

void Drains::EvictRest(const Workload& gang, const Pods& pods, const std::string& work,
                       const std::string& reason, TimePoint now) {
  const auto [entry, is_new] = drains_.try_emplace(gang.key);
  Drain& drain = entry->second;
  if (is_new) {
    drain.evictions.id = evictor_.NextId("rest");
    drain.work = work;
    drain.reason = reason;
    actions_.push_back(DecisionOn("rest", gang.key, drain, pods));
  }
  drain.evictions.stage = Evicting::kSent;
  drain.evictions.begun.insert_or_assign(gang.key, gang.incarnation);
  drain.due = now + kRetryAfter;
  states_[gang].evicted = true;  // no member gets a place
  give_up_planned_(gang);
  for (const PodInfo* pod : pods) {
    states_.SetVictim(*pod, std::string(kDrain));
    const std::string& uid = pod->object.meta.uid;
    if (std::ranges::find(drain.pods, uid) == drain.pods.end()) drain.pods.push_back(uid);
  }
  JobsToSuspend jobs(store_);
  for (const PodInfo* pod : evictor_.NextOf(drain.evictions, pods)) {
    if (!drain.evictions.unanswered.contains(pod->object.meta.uid)) Order(drain, *pod, &jobs);
  }
  LookAt(drain.due);
}

Decision Drains::DecisionOn(const char* kind, const std::string& key, const Drain& drain,
                            const Pods& pods) const {
  Decision decision{.kind = kind,
                    .workload = key,
                    .queue = drain.queue,
                    .plan = drain.evictions.id,
                    .generation = store_.generation()};
  for (const PodInfo* pod : pods) {
    decision.placed.emplace_back(pod->object.meta.name, store_.node(pod->node).name);
  }
  return decision;
}

/// By job, the pods that run in queues that are drained, or whose gang does in part, and that are
/// not evicted yet.
std::map<std::string, Drains::Pods> Drains::JobsToDrain(TimePoint now) {
  std::map<std::string, Pods> jobs;
  const auto runs = [](const PodInfo* pod) { return pod->bound() && !pod->terminating(); };
  for (const auto& node : store_.nodes()) {
    for (const PodInfo* pod : node->pods) {
      if (!runs(pod) || QueueOf(*pod) == cluster::kNoQueue) continue;
      const std::string& victim_of = states_.At(*pod).victim_of;
      if (victim_of.empty()) {
        jobs[JobKey(*pod)].push_back(pod);
      } else if (victim_of != kDrain) {
        LookAt(now + kRetryAfter);  // that other eviction may be refused
      }
    }
  }
  for (auto& [key, pods] : jobs) {
    const Workload* workload = pods.front()->workload;
    if (workload == nullptr || !workload->gang) continue;
    for (const PodInfo* pod : workload->members) {
      const bool elsewhere = runs(pod) && QueueOf(*pod) == cluster::kNoQueue;
      if (elsewhere && states_.At(*pod).victim_of.empty()) pods.push_back(pod);
    }
  }
  return jobs;
}

/// These pods of the job go: all of them, or the pods that came to run after the others.
void Drains::DrainJob(const std::string& key, const Pods& pods, TimePoint now) {
  const auto spared = [&](const PodInfo* pod) { return states_.At(*pod).spared_until > now; };
  if (const auto first = std::ranges::find_if(pods, spared); first != pods.end()) {
    return LookAt(states_.At(**first).spared_until);
  }
  const auto known = drains_.find(key);
  if (known == drains_.end() && TooManyForBudgets(pods)) {
    for (const PodInfo* pod : pods) states_[*pod].spared_until = now + kRetryAfter;
    return LookAt(now + kRetryAfter);
  }
  Drain& drain = known != drains_.end() ? known->second : Begin(key, pods);
  JobsToSuspend jobs(store_);
  for (const PodInfo* pod : pods) {
    const std::string& uid = pod->object.meta.uid;
    states_.SetVictim(*pod, std::string(kDrain));
    if (std::ranges::find(drain.pods, uid) == drain.pods.end()) drain.pods.push_back(uid);
    if (drain.evictions.unanswered.contains(uid)) continue;
    if (drain.evictions.stage == Evicting::kWarned) {
      Warn(*pod, drain, drain.due);
    } else {
      Order(drain, *pod, drain.evictions.stage == Evicting::kDryRun ? nullptr : &jobs);
    }
  }
}

Drains::Drain& Drains::Begin(const std::string& key, const Pods& pods) {
  Drain& drain = drains_[key];
  drain.evictions.id = evictor_.NextId("drain");
  drain.queue = store_.queue(QueueOf(*pods.front())).config.name;
  drain.work = key;
  drain.reason = "Drained";
  actions_.push_back(DecisionOn("drain", key, drain, pods));
  return drain;
}

/// `jobs`: null for a dry run.
void Drains::Order(Drain& drain, const PodInfo& pod, JobsToSuspend* jobs) {
  const bool dry_run = jobs == nullptr;
  const auto& meta = pod.object.meta;
  if (!dry_run) {
    EmitEvent event{.pod = {meta.ns, meta.name, meta.uid},
                    .warning = true,
                    .reason = drain.reason,
                    .note = "Evicted: " + ReasonOf(drain)};
    drain.evictions.notices.insert_or_assign(
        meta.uid, evictor_.NoticeOf(pod, std::move(event), /*surplus=*/false));
  }
  evictor_.Order(drain.evictions, pod,
                 {.workload = drain.work,
                  .drained = drain.queue,
                  .dry_run = dry_run,
                  .job = dry_run ? std::nullopt : jobs->Of(pod)});
  if (!drain.refused) states_.NoteDrained(pod);
}

std::string Drains::ReasonOf(const Drain& drain) {
  return drain.queue.empty()
             ? "other members of its gang were evicted; a gang is evicted as a whole."
             : fmt::format("queue {} is drained (hold: holdAndDrain).", drain.queue);
}

void Drains::Warn(const PodInfo& pod, const Drain& drain, TimePoint at) {
  if (std::exchange(states_[pod].evict_at, at) != at) evictor_.Announce(pod, ReasonOf(drain));
}

/// Together they are more than budgets permit. A dry run does not say that: it is of one pod alone.
bool Drains::TooManyForBudgets(const Pods& pods) const { return EvictionApiRefuses(pods, store_); }

void Drains::Try(Drain& drain) {
  drain.evictions.stage = Evicting::kDryRun;
  for (const PodInfo* pod : Remaining(drain)) Order(drain, *pod, nullptr);
}

/// The job stays for a while, as a whole.
void Drains::PutOff(const Drain& drain, TimePoint now) {
  for (const std::string& uid : drain.pods) {
    const PodInfo* pod = store_.FindPod(uid);
    if (pod == nullptr) continue;
    states_[*pod].spared_until = now + kRetryAfter;
    evictor_.Spare(*pod);
  }
  stays_ = true;
  evictor_.KeepWarnings(drain.pods, now + kRetryAfter + 1'000);  // it is tried again then
  LookAt(now + kRetryAfter);
}

/// All pods of the job may go. False: they have to be told first, or have some time left.
bool Drains::MayEnd(Drain& drain, TimePoint now) {
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
  for (const PodInfo* pod : Remaining(drain)) Warn(*pod, drain, drain.due);
  return false;
}

/// Orders the evictions that come next (NextOf). From now on no member of the gang gets a place.
void Drains::SendEvictions(const std::string& key, Drain& drain, TimePoint now) {
  drain.due = now + kRetryAfter;
  const Workload* workload = store_.FindWorkload(key);
  const bool begins = std::exchange(drain.evictions.stage, Evicting::kSent) != Evicting::kSent;
  if (begins && workload != nullptr && workload->gang && workload->started) {
    states_[*workload].evicted = true;
    give_up_planned_(*workload);
  }
  JobsToSuspend jobs(store_);
  for (const PodInfo* pod : evictor_.NextOf(drain.evictions, Remaining(drain))) {
    Order(drain, *pod, &jobs);
  }
}

bool Drains::Answered(const std::string& id, const std::string& uid, bool dry_run, bool accepted,
                      TimePoint now) {
  const auto entry = Find(id);
  if (entry == drains_.end()) return false;
  const std::string& key = entry->first;
  Drain& drain = entry->second;
  if (dry_run != (drain.evictions.stage == Evicting::kDryRun)) return true;
  if (!dry_run && accepted) evictor_.NoteEvicted(drain.evictions, uid, now);
  if (drain.evictions.unanswered.erase(uid) == 0) return true;
  if (!accepted && dry_run) {
    PutOff(drain, now);
    drains_.erase(entry);
    return true;
  }
  if (accepted && !dry_run) drain.evictions.accepted.insert(uid);
  if (!accepted) {
    drain.due = std::max(drain.due, now + kRetryAfter);
    drain.refused = true;
    stays_ = true;
    // What was not sent yet waits for it.
    for (const PodInfo* pod : Remaining(drain)) {
      const std::string& other = pod->object.meta.uid;
      if (!drain.evictions.accepted.contains(other)) states_.SetVictim(*pod, std::string(kDrain));
    }
  }
  if (!drain.evictions.unanswered.empty()) return true;
  if (Ends(drain)) {
    drains_.erase(entry);
    return true;
  }
  if (dry_run && TooManyForBudgets(Remaining(drain))) {
    PutOff(drain, now);
    drains_.erase(entry);
    return true;
  }
  if (dry_run ? MayEnd(drain, now) : accepted) SendEvictions(key, drain, now);
  LookAt(drain.due);
  return true;
}

/// Whether nothing is left to do for it: its pods are gone or end, or none of them is in a queue
/// that is drained any more; then the running ones stay.
bool Drains::Ends(Drain& drain) {
  const Pods left = Remaining(drain);
  const auto drained = [this](const PodInfo* pod) { return QueueOf(*pod) != cluster::kNoQueue; };
  drain.lifted = std::ranges::none_of(left, drained);
  if (!drain.lifted) return false;
  const bool sent = drain.evictions.stage == Evicting::kSent && !drain.evictions.unanswered.empty();
  if (!left.empty() && !IsOff() && (drain.begun() || sent)) return false;
  for (const PodInfo* pod : left) evictor_.Spare(*pod);
  return true;
}

}  // namespace berth::engine
