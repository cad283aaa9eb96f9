// Checker, part: I9, who is evicted was told so, as long before as eviction.warning says.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "cluster/plan_claim.h"
#include "kube/time.h"
#include "sim/checker/checker.h"

namespace berth::sim {
namespace {

/// A pod is told some time after the decision from which its time counts.
constexpr Duration kSlack = 1'500;

}  // namespace

/// Notes since when the pod has been told its present time.
void Checker::WatchWarning(const kube::Pod& pod) {
  const auto note = pod.meta.annotations.find(cluster::kEvictionTimeAnnotation);
  if (note == pod.meta.annotations.end()) {
    told_times_.erase(pod.meta.uid);
    return;
  }
  const ToldTime told{.note = note->second,
                      .at = kube::ParseTime(note->second).value_or(0),
                      .since = env_.now(),
                      .created = pod.meta.creation,
                      .gang = gang_of_.contains(pod.meta.uid) ? GangKey(pod) : std::string()};
  ToldTime& known = told_times_.try_emplace(pod.meta.uid, told).first->second;
  if (known.note != told.note) known = told;
}

/// I9, where nothing went wrong: the victim was told, long enough before, and its time is over. A
/// member that came to a gang after others were told has no more time than those.
void Checker::CheckWarning(const kube::Pod& victim) {
  Duration least = std::numeric_limits<Duration>::max();
  for (const auto& policy : policies_) least = std::min(least, policy->eviction.warning.count());
  // The time that a victim is told is by the clock of the process.
  if (faults_ > 0 || env_.clocks_drift || policies_.empty() || least == 0) return;
  const auto in_time = [&](const ToldTime& told) {
    return told.at != 0 && told.at <= env_.now() && told.since + least <= told.at + kSlack;
  };
  const auto own = told_times_.find(victim.meta.uid);
  if (own != told_times_.end() && in_time(own->second)) return;
  const auto older_mate_was = [&](const auto& entry) {
    const ToldTime& told = entry.second;
    return told.gang == GangKey(victim) && told.created < victim.meta.creation && in_time(told);
  };
  const bool gang = gang_of_.contains(victim.meta.uid);
  if (gang && std::ranges::any_of(told_times_, older_mate_was)) return;
  Broken(fmt::format("I9: {} is evicted without a warning, or before its time", victim.meta.name));
}

}  // namespace berth::sim
