// The devices of a policy and the names of its schedulers are written in four places: the policy,
// the admission policies that gate pods and that keep tenants apart, and kube-scheduler's
// configuration. A device that is missing in one of them bypasses a queue, or is never gated,
// without any message.
#pragma once

#include <string>
#include <vector>

#include "config/manifests.h"
#include "config/policy_configuration.h"
#include "config/scheduler_config.h"

namespace berth::config {

/// One difference between an object and the policy.
struct ListFinding {
  Severity severity = Severity::kError;
  std::string object;   ///< `MutatingAdmissionPolicy berth-admission-gate`
  std::string message;  ///< One sentence.

  /// `object: error: message`.
  std::string ToString() const;
  bool operator==(const ListFinding&) const = default;
};

/// Compares the lists in Berth's admission policies among `objects` with the policy. Berth's
/// admission policies are recognized by their conditions and variables (manifests/base), whatever
/// the objects are called. If one of the two is missing, a warning says so. Other objects are
/// ignored. Never throws.
std::vector<ListFinding> CompareLists(const std::vector<Manifest>& objects,
                                      const PolicyConfiguration& policy);

/// The text under `key` of each ConfigMap of `objects` that has it, with the ConfigMap's name.
struct ConfigText {
  std::string object;
  std::string text;
};
std::vector<ConfigText> TextsOf(const std::vector<Manifest>& objects, const std::string& key);

}  // namespace berth::config
