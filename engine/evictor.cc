#include "engine/evictor.h"

#include <fmt/format.h>

#include <algorithm>

#include "cluster/plan_claim.h"
#include "engine/victims.h"
#include "kube/time.h"

namespace berth::engine {

using cluster::PodInfo;
using cluster::Workload;

namespace {

/// How long warnings of the previous process are kept after a start, before they are withdrawn from
/// pods that no plan evicts: elastic gangs that need their room may wait that long for more
/// members.
constexpr TimePoint kGathering = 15'000;

/// A time that is over for longer than this is not believed: the process that was to evict the pod
/// then has not, and the pod would have no time at all.
constexpr TimePoint kOverdue = 60'000;

/// The reason of an eviction for metrics, by that of the Event for its victim.
const char* MetricOf(std::string_view reason) {
  return reason == "Reclaimed" ? "reclaim" : reason == "Drained" ? "drain" : "preemption";
}

}  // namespace

std::string Evictor::NextId(std::string_view kind) {
  return fmt::format("{}-{}-{}", kind, instance_, ++begun_);
}

void Evictor::Order(Evictions& evictions, const PodInfo& pod, EvictPod eviction) {
  const auto& meta = pod.object.meta;
  evictions.unanswered.insert(meta.uid);
  eviction.pod = {meta.ns, meta.name, meta.uid};
  eviction.id = evictions.id;
  eviction.by_delete = store_.policy().eviction.by == config::EvictBy::kDelete;
  out_.actions.push_back(std::move(eviction));
}

std::vector<const PodInfo*> Evictor::NextOf(const Evictions& evictions,
                                            const std::vector<const PodInfo*>& pods) const {
  std::vector<const PodInfo*> covered;
  std::vector<const PodInfo*> others;
  for (const PodInfo* pod : pods) {
    if (evictions.accepted.contains(pod->object.meta.uid)) continue;
    (IsCovered(*pod, store_) ? covered : others).push_back(pod);
  }
  return covered.empty() ? others : covered;
}

EvictionNotice Evictor::NoticeOf(const PodInfo& victim, EmitEvent event, bool surplus) const {
  EvictionNotice notice{.event = std::move(event), .job = {}};
  if (surplus) return notice;
  notice.job = JobOf(victim);
  if (victim.workload == nullptr || !victim.workload->gang) return notice;
  notice.gang = victim.workload->key;
  notice.incarnation = victim.workload->incarnation;
  return notice;
}

void Evictor::NoteEvicted(Evictions& evictions, const std::string& uid, TimePoint now) {
  auto notice = evictions.notices.extract(uid);
  if (!notice) return;
  ++out_.counters.evictions[MetricOf(notice.mapped().event.reason)];
  if (const std::string& gang = notice.mapped().gang; !gang.empty()) {
    evictions.begun.insert_or_assign(gang, notice.mapped().incarnation);
  }
  if (const auto& job = notice.mapped().job) evicted_jobs_.Note(*job, now);
  out_.actions.push_back(std::move(notice.mapped().event));
}

std::optional<EvictedJobs::Job> Evictor::JobOf(const PodInfo& victim) const {
  if (victim.workload == nullptr || victim.workload->in_tree) return std::nullopt;
  return EvictedJobs::JobOf(victim, states_.At(*victim.workload).before);
}

void Evictor::Spare(const PodInfo& victim) {
  states_.SetVictim(victim, {});
  spared_.push_back({.uid = victim.object.meta.uid, .node = victim.node});
  if (victim.workload == nullptr) return;
  states_[*victim.workload].evicted = false;
  store_.MarkChanged(*victim.workload);
}

void Evictor::Announce(const PodInfo& victim, const std::string& reason) {
  const auto& meta = victim.object.meta;
  const std::string time = kube::FormatTime(states_[victim].evict_at);
  warned_.insert_or_assign(meta.uid, 0);
  out_.actions.push_back(WarnVictim{.pod = {meta.ns, meta.name, meta.uid}, .time = time});
  out_.actions.push_back(
      EmitEvent{.pod = {meta.ns, meta.name, meta.uid},
                .warning = true,
                .reason = "EvictionWarning",
                .note = fmt::format("This pod will be evicted at {}: {}", time, reason)});
}

void Evictor::WithdrawWarnings(TimePoint now) {
  std::erase_if(warned_, [&](const auto& warned) {
    const auto& [uid, kept_until] = warned;
    const PodInfo* pod = store_.FindPod(uid);
    if (pod == nullptr || pod->terminating()) return true;
    if (!states_[*pod].victim_of.empty() || kept_until > now) return false;
    states_[*pod].evict_at = 0;
    // It may evict others again, for members that it lacks.
    if (pod->workload != nullptr && pod->workload->Missing() > 0) {
      store_.MarkChanged(*pod->workload);
    }
    const auto& meta = pod->object.meta;
    out_.actions.push_back(WarnVictim{.pod = {meta.ns, meta.name, meta.uid}});
    out_.actions.push_back(EmitEvent{.pod = {meta.ns, meta.name, meta.uid},
                                     .reason = "EvictionWithdrawn",
                                     .note = "This pod will no longer be evicted."});
    return true;
  });
}

void Evictor::KeepWarnings(const std::vector<std::string>& uids, TimePoint until) {
  bool any = false;
  for (const std::string& uid : uids) {
    const auto warned = warned_.find(uid);
    if (warned == warned_.end()) continue;
    warned->second = until;
    any = true;
  }
  if (any) out_.timers.AllAt(until);
}

void Evictor::NoteWarned(TimePoint now) {
  std::vector<std::string> uids;
  for (const auto& node : store_.nodes()) {
    for (const PodInfo* pod : node->pods) {
      const auto& notes = pod->object.meta.annotations;
      const auto note = notes.find(cluster::kEvictionTimeAnnotation);
      if (note == notes.end() || !pod->bound()) continue;
      warned_.emplace(pod->object.meta.uid, 0);
      uids.push_back(pod->object.meta.uid);
      const TimePoint at = kube::ParseTime(note->second).value_or(0);
      if (at < now - kOverdue) continue;
      // What was told holds, though the policy may say another time now; no policy says more than
      // that.
      states_[*pod].evict_at =
          std::min(at, now + std::chrono::milliseconds(config::kMaxWarning).count());
    }
  }
  KeepWarnings(uids, now + kGathering);
}

}  // namespace berth::engine
