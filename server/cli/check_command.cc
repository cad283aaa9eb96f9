#include "server/cli/check_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>

#include "config/decode.h"
#include "config/device_lists.h"
#include "config/policy_warnings.h"
#include "config/scheduler_config.h"
#include "kube/terminal.h"
#include "server/cli/exit_codes.h"
#include "server/cli/read_objects.h"
#include "server/drivers/policy_source.h"

namespace berth::server {
namespace {

void Say(std::string_view text) { kube::Write(stderr, fmt::format("{}\n", text)); }

int Unread(const kube::FileError& error) {
  Say(error.message);
  return error.unreadable ? kEnvironment : kBadInput;
}

/// The policy to compare with: the last one that was good.
using Policy = std::optional<config::PolicyConfiguration>;

int CheckPolicy(const std::string& yaml, const std::string& file, Policy& policy) {
  auto decoded = config::DecodePolicy(yaml, file);
  if (!decoded) {
    for (const auto& diagnostic : decoded.error()) Say(diagnostic.ToString());
    return kBadInput;
  }
  for (const std::string& warning : config::PolicyWarnings(yaml, *decoded)) {
    Say(fmt::format("{}: warning: {}", file, warning));
  }
  kube::Write(stdout, fmt::format("{}: ok, {} queue(s)\n", file, decoded->queues.size()));
  policy = std::move(*decoded);
  return 0;
}

int CheckScheduler(const std::string& yaml, const std::string& file,
                   const config::PolicyConfiguration& policy) {
  int code = 0;
  const auto findings = config::CheckSchedulerConfig(yaml, file, policy);
  for (const auto& finding : findings) {
    Say(finding.ToString());
    if (finding.severity == config::Severity::kError) code = kBadInput;
  }
  if (findings.empty()) kube::Write(stdout, fmt::format("{}: ok\n", file));
  return code;
}

int CheckFile(const std::string& file, const auto& check) {
  const auto yaml = ReadPolicyFile(file);
  return yaml ? check(*yaml) : Unread(yaml.error());
}

std::expected<Objects, ReadFailure> ObjectsOf(const CheckCommandOptions& options) {
  auto objects = ReadObjects(options.manifests);
  if (!objects || !options.live) return objects;
  const std::string maps = fmt::format("namespaces/{}/configmaps", options.ns);
  constexpr std::string_view kAdmission = "admissionregistration.k8s.io";
  const std::array<config::ApiResource, 3> resources{
      {{.group = "", .versions = {"v1"}, .plural = maps, .kind = "ConfigMap"},
       {.group = kAdmission,
        .versions = {"v1", "v1beta1"},
        .plural = "mutatingadmissionpolicies",
        .kind = "MutatingAdmissionPolicy"},
       {.group = kAdmission,
        .versions = {"v1"},
        .plural = "validatingadmissionpolicies",
        .kind = "ValidatingAdmissionPolicy"}}};
  auto live = ListObjects(options.kubeconfig, resources);
  if (!live) return live;
  std::ranges::move(*live, std::back_inserter(*objects));
  return objects;
}

int CheckObjects(const Objects& objects, const config::PolicyConfiguration& policy) {
  int code = 0;
  const auto findings = config::CompareLists(objects, policy);
  for (const auto& finding : findings) {
    Say(finding.ToString());
    if (finding.severity == config::Severity::kError) code = kBadInput;
  }
  if (findings.empty()) kube::Write(stdout, "admission policies: ok\n");
  return code;
}

}  // namespace

int CheckCommand(const CheckCommandOptions& options) {
  if (options.schema) {
    kube::Write(stdout, config::PolicySchema());
    return 0;
  }
  const bool compares = options.live || !options.manifests.empty();
  if (options.files.empty() && options.scheduler_config.empty() && !compares) {
    Say("berth check: give at least one file, or --live");
    return kUsage;
  }
  const auto objects = ObjectsOf(options);
  if (!objects) {
    Say("berth check: " + objects.error().message);
    return objects.error().code;
  }
  int code = 0;
  Policy policy;
  for (const auto& map : config::TextsOf(*objects, "policy.yaml")) {
    code = std::max(code, CheckPolicy(map.text, map.object, policy));
  }
  for (const std::string& file : options.files) {
    code = std::max(code, CheckFile(file, [&](const std::string& yaml) {
                      return CheckPolicy(yaml, file, policy);
                    }));
  }
  if (code != 0) return code;  // nothing to compare with
  if (compares && !policy)
    Say("warning: no policy is given or found: comparing with the built-in policy");
  const config::PolicyConfiguration against = policy.value_or(config::PolicyConfiguration{});
  for (const auto& map : config::TextsOf(*objects, "kube-scheduler-config.yaml")) {
    code = std::max(code, CheckScheduler(map.text, map.object, against));
  }
  if (!options.scheduler_config.empty()) {
    code = std::max(code, CheckFile(options.scheduler_config, [&](const std::string& yaml) {
                      return CheckScheduler(yaml, options.scheduler_config, against);
                    }));
  }
  if (compares) code = std::max(code, CheckObjects(*objects, against));
  return code;
}

}  // namespace berth::server
