#include "sim/faults/profiles.h"

#include <algorithm>

namespace berth::sim {
namespace {

using enum FaultKind;

const std::vector<FaultKind> kApi{kApiThrottled,  kApiError,       kApiErrorAfter, kApiRequestLost,
                                  kApiAnswerLost, kApiSlow,        kWatchBreak,    kWatchExpire,
                                  kWatchSlow,     kWatchDuplicate, kVerbSlow,      kVerbReset,
                                  kBerthThreads};
const std::vector<FaultKind> kCrash{kBerthCrash, kBerthCrash, kSchedulerRestart, kApiAnswerLost,
                                    kWatchSlow,  kWatchBreak, kVerbReset,        kBerthThreads};
const std::vector<FaultKind> kChurn{kNodeCordon, kNodeTaint,     kNodeDelete,    kDeviceHealth,
                                    kPodDelete,  kKubeletReject, kHiddenRefusal, kPolicyEdit,
                                    kWatchSlow,  kPodDelete};
const std::vector<FaultKind> kForged{kForgeClaim,  kForgeNomination, kForgeGate,
                                     kForgeMember, kBerthCrash,      kPodDelete};

const std::vector<FaultKind> kMidGang{kCrashInGang, kCrashInGang,   kCrashInGang, kClockJump,
                                      kPodDelete,   kApiAnswerLost, kWatchSlow,   kForgeMember};
const std::vector<FaultKind> kUnknown{kApiAnswerLost, kApiAnswerLost, kApiErrorAfter,
                                      kWatchBreak,    kWatchOutage,   kWatchSlow};
const std::vector<FaultKind> kLeaders{
    kLeaseBlocked,  kLeaseBlocked, kLeaseStolen, kLeaseDeleted, kBerthCrash, kCrashInGang, kApiSlow,
    kApiAnswerLost, kWatchOutage,  kWatchSlow,   kWatchBreak,   kVerbSlow,   kPodDelete};
const std::vector<FaultKind> kBudgets{kWatchSlow, kWatchBreak,  kWatchExpire, kApiError,
                                      kPodDelete, kNodeCordon,  kBerthCrash,  kBerthThreads,
                                      kVerbSlow,  kDeviceHealth};
const std::vector<FaultKind> kClocks{kClockJump,    kClockJump,   kLeaseBlocked, kLeaseStolen,
                                     kLeaseDeleted, kBerthCrash,  kCrashInGang,  kApiSlow,
                                     kQueuesChange, kPassthrough, kPodDelete,    kNodeCordon};
const std::vector<FaultKind> kFrozen{kFreeze,     kFreeze,        kFreeze,       kBerthThreads,
                                     kApiSlow,    kApiAnswerLost, kLeaseBlocked, kCrashInGang,
                                     kWatchBreak, kWatchOutage,   kWatchOutage,  kPodDelete,
                                     kNodeCordon, kDeviceHealth,  kFullQueues,   kStaleList,
                                     kStaleList,  kWatchExpire,   kBerthCrash};

const std::vector<FaultKind> kTree{kTreeEdit,   kTreeEdit,      kTreeEdit,     kPolicyEdit,
                                   kPolicyEdit, kQueuesChange,  kPodDelete,    kPodDelete,
                                   kBerthCrash, kApiAnswerLost, kWatchSlow,    kWatchBreak,
                                   kNodeCordon, kDeviceHealth,  kBerthThreads, kVerbReset};

const std::vector<FaultKind> kFlavors{kFlavorEdit, kFlavorEdit,    kFlavorEdit,   kPolicyEdit,
                                      kPolicyEdit, kQueuesChange,  kPodDelete,    kPodDelete,
                                      kBerthCrash, kApiAnswerLost, kWatchSlow,    kWatchBreak,
                                      kNodeCordon, kDeviceHealth,  kBerthThreads, kCrashInGang};

const std::vector<FaultKind> kHandover{
    kBerthEnds,    kBerthEnds,    kBerthEnds,     kBerthEnds, kBerthEnds, kBerthEnds,
    kApiSlow,      kApiSlow,      kApiAnswerLost, kApiError,  kWatchSlow, kWatchBreak,
    kLeaseBlocked, kLeaseDeleted, kBerthCrash,    kVerbSlow,  kVerbReset, kBerthThreads,
    kPodDelete,    kNodeCordon,   kStaleList};

std::vector<FaultKind> All() {
  std::vector<FaultKind> all;
  for (int i = 0; i <= static_cast<int>(kForgeMember); ++i)
    all.push_back(static_cast<FaultKind>(i));
  return all;
}

/// The kinds that occur only here are more frequent than by chance.
std::vector<FaultKind> Mixed() {
  std::vector<FaultKind> kinds = All();
  kinds.insert(kinds.end(), {kPassthrough, kQueuesChange, kQueuesChange, kNodeCordon, kPodDelete});
  return kinds;
}

}  // namespace

const std::vector<Profile>& Profiles() {
  static const std::vector<Profile> kProfiles{
      {.name = "calm", .kinds = {}},
      {.name = "api", .kinds = kApi},
      {.name = "crash", .kinds = kCrash},
      {.name = "churn", .kinds = kChurn},
      {.name = "forged", .kinds = kForged},
      {.name = "midgang", .kinds = kMidGang},
      {.name = "unknown", .kinds = kUnknown},
      {.name = "all", .kinds = All()},
      {.name = "leaders", .kinds = kLeaders, .replicas = 2},
      {.name = "budgets", .kinds = kBudgets, .budgets = true},
      {.name = "mixed", .kinds = Mixed(), .mixed = true},
      {.name = "clocks", .kinds = kClocks, .replicas = 2, .mixed = true},
      {.name = "frozen", .kinds = kFrozen, .replicas = 2, .mixed = true},
      {.name = "passes", .kinds = Mixed(), .mixed = true, .short_passes = true},
      {.name = "handover", .kinds = kHandover, .replicas = 2, .mixed = true},
      {.name = "terms", .kinds = kLeaders, .replicas = 2, .mixed = true, .short_passes = true},
      {.name = "tree", .kinds = kTree, .tree = true},
      {.name = "flavors", .kinds = kFlavors, .flavors = true}};
  return kProfiles;
}

const Profile* FindProfile(std::string_view name) {
  for (const Profile& profile : Profiles()) {
    if (profile.name == name) return &profile;
  }
  return nullptr;
}

std::vector<Fault> DrawFaults(const Profile& profile, const std::vector<TimePoint>& waves,
                              Duration width, Random& random) {
  std::vector<Fault> faults;
  if (profile.kinds.empty()) return faults;
  for (std::int64_t i = random.Between(3, 24); i > 0; --i) {
    Fault fault;
    fault.at = waves[random.Next() % waves.size()] + random.Between(0, width);
    fault.kind = profile.kinds[random.Next() % profile.kinds.size()];
    fault.lasts = random.Between(100, random.Percent(30) ? 40'000 : 8'000);
    fault.choice = random.Next() >> 32U;
    faults.push_back(fault);
  }
  std::ranges::stable_sort(faults, {}, &Fault::at);
  return faults;
}

}  // namespace berth::sim
