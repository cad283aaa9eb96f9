#include "server/demo/demo_evictions.h"

#include <utility>

namespace berth::server {

void EvictionLog::OnEvicted(std::int64_t at_ms, DemoJob victim, DemoJob beneficiary,
                            std::string mark) {
  evictions_.push_back({.at_ms = at_ms,
                        .victim = std::move(victim),
                        .beneficiary = std::move(beneficiary),
                        .mark = std::move(mark)});
}

void EvictionLog::OnEvent(const engine::EmitEvent& event) {
  const bool victim = event.reason == "Preempted" || event.reason == "Reclaimed";
  if (!victim && event.reason != "WaitingForVictims") return;
  (victim ? victims_ : beneficiaries_)[event.pod.uid] = {
      .pod = event.pod.ns + "/" + event.pod.name, .reason = event.reason, .note = event.note};
}

/// Every pod of a victim gets an Event, of a beneficiary its first one does: any of them will do.
ToldEvent EvictionLog::ToldTo(const DemoJob& job, const ByPod& told) {
  for (int i = 0; i < job.pods; ++i) {
    if (const auto it = told.find(job.PodUid(i)); it != told.end()) return it->second;
  }
  return {};
}

std::vector<JobEviction> EvictionLog::Evictions() const {
  std::vector<JobEviction> evictions = evictions_;
  for (JobEviction& eviction : evictions) {
    eviction.to_victim = ToldTo(eviction.victim, victims_);
    eviction.to_beneficiary = ToldTo(eviction.beneficiary, beneficiaries_);
  }
  return evictions;
}

}  // namespace berth::server
