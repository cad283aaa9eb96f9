#include "server/check_command.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/decode.h"
#include "config/policy_warnings.h"
#include "config/scheduler_config.h"
#include "kube/terminal.h"
#include "server/exit_codes.h"
#include "server/policy_source.h"

namespace berth::server {
namespace {

void Say(std::string_view text) { kube::Write(stderr, fmt::format("{}\n", text)); }

int Unread(const kube::FileError& error) {
  Say(error.message);
  return error.unreadable ? kEnvironment : kBadInput;
}

/// Checks one file; a good one becomes `policy`.
int CheckPolicy(const std::string& file, config::PolicyConfiguration& policy) {
  const auto yaml = ReadPolicyFile(file);
  if (!yaml) return Unread(yaml.error());
  auto decoded = config::DecodePolicy(*yaml, file);
  if (!decoded) {
    for (const auto& diagnostic : decoded.error()) Say(diagnostic.ToString());
    return kBadInput;
  }
  for (const std::string& warning : config::PolicyWarnings(*decoded)) {
    Say(fmt::format("{}: warning: {}", file, warning));
  }
  kube::Write(stdout, fmt::format("{}: ok, {} queue(s)\n", file, decoded->queues.size()));
  policy = std::move(*decoded);
  return 0;
}

int CheckScheduler(const std::string& file, const config::PolicyConfiguration& policy) {
  const auto yaml = ReadPolicyFile(file);
  if (!yaml) return Unread(yaml.error());
  int code = 0;
  const auto findings = config::CheckSchedulerConfig(*yaml, file, policy);
  for (const auto& finding : findings) {
    Say(finding.ToString());
    if (finding.severity == config::Severity::kError) code = kBadInput;
  }
  if (findings.empty()) kube::Write(stdout, fmt::format("{}: ok\n", file));
  return code;
}

}  // namespace

int CheckFiles(const std::vector<std::string>& files, const std::string& scheduler_config) {
  int code = 0;
  config::PolicyConfiguration policy;
  for (const std::string& file : files) code = std::max(code, CheckPolicy(file, policy));
  if (!scheduler_config.empty()) code = std::max(code, CheckScheduler(scheduler_config, policy));
  return code;
}

}  // namespace berth::server
