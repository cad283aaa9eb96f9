// The devices of a policy and its schedulers' names stand in four places: the policy, the admission
// policies that gate pods and that keep tenants apart, and kube-scheduler's configuration. A device
// that one of them lacks goes past a queue, or is never gated, without a word from anybody.
#pragma once

#include <string>
#include <vector>

#include "config/manifests.h"
#include "config/policy_configuration.h"
#include "config/scheduler_config.h"

namespace berth::config {

/// What one object says that differs from the policy.
struct ListFinding {
  Severity severity = Severity::kError;
  std::string object;   ///< `MutatingAdmissionPolicy berth-admission-gate`
  std::string message;  ///< One sentence.

  /// `object: error: message`.
  std::string ToString() const;
  bool operator==(const ListFinding&) const = default;
};

/// Compares the lists in Berth's admission policies among `objects` with the policy. They are known
/// by their conditions and variables (manifests/base), whatever the objects are called. Where one
/// of the two is not there at all, a warning says so. Others are not looked at. Never throws.
std::vector<ListFinding> CompareLists(const std::vector<Manifest>& objects,
                                      const PolicyConfiguration& policy);

/// The text under `key` of each ConfigMap of `objects` that has it, with the ConfigMap's name.
struct ConfigText {
  std::string object;
  std::string text;
};
std::vector<ConfigText> TextsOf(const std::vector<Manifest>& objects, const std::string& key);

}  // namespace berth::config
