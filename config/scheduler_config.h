// `berth check --scheduler-config`: does kube-scheduler's configuration call Berth as the policy
// needs it? Most such mistakes cause no message in kube-scheduler and show only as gangs that never
// start or pods that run on wrong nodes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/policy_configuration.h"
#include "config/yaml_reader.h"

namespace berth::config {

enum class Severity : std::uint8_t {
  kError,    ///< Berth would not work, or kube-scheduler would refuse the file.
  kWarning,  ///< It works, but slower, less safely or with worse placements than it could.
};

/// What is wrong, or could be better, in a configuration of kube-scheduler.
struct Finding {
  Severity severity = Severity::kError;
  Diagnostic where;

  /// `file:line:column: error: path: message`.
  std::string ToString() const;
  bool operator==(const Finding&) const = default;
};

/// Compares a KubeSchedulerConfiguration with a policy: its extender entry for Berth (the one that
/// manages a device of the policy, else the one with a bindVerb), the sampling, the profiles. In
/// document order; empty: no findings. Parts that do not concern Berth are ignored. Safe on any
/// bytes; never throws.
std::vector<Finding> CheckSchedulerConfig(std::string_view yaml, std::string_view file_name,
                                          const PolicyConfiguration& policy);

}  // namespace berth::config
