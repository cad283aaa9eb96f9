// EncodePolicy and PolicyKeyPaths of decode.h.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "config/decode.h"
#include "config/policy_keys.h"
#include "config/scalars.h"
#include "kube/quantity.h"

namespace berth::config {
namespace {

template <typename Enum, std::size_t kSize>
std::string_view WordOf(const std::array<keys::Word, kSize>& words, Enum value) {
  return words[static_cast<std::size_t>(value)];
}

/// Names that YAML 1.1 readers would not take for text (`no`, `10`, `1e3`, `*`) are quoted. No name
/// needs escapes: all are label keys, DNS names or `*`.
std::string Text(std::string_view name) {
  static constexpr std::array<std::string_view, 10> kWords{"y",   "n",    "yes",   "no",   "on",
                                                           "off", "true", "false", "null", "auto"};
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  const bool plain =
      !name.empty() && name.front() >= 'A' && std::ranges::find(kWords, lower) == kWords.end();
  return plain ? std::string(name) : fmt::format("\"{}\"", name);
}

std::string List(std::span<const std::string> names) {
  std::vector<std::string> texts;
  for (const std::string& name : names) texts.push_back(Text(name));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

std::string Amounts(const kube::ResourceList& amounts) {
  std::vector<std::string> texts;
  for (const auto& [resource, amount] : amounts) {
    texts.push_back(fmt::format("{}: {}", Text(resource), kube::Format(resource, amount)));
  }
  return fmt::format("{{{}}}", fmt::join(texts, ", "));
}

void AppendQueue(std::string& out, const Queue& queue) {
  const auto append = [&](std::string_view key, const std::string& value) {
    fmt::format_to(std::back_inserter(out), "  {}: {}\n", key, value);
  };
  fmt::format_to(std::back_inserter(out), "- name: {}\n", Text(queue.name));
  if (!queue.parent.empty()) append("parent", Text(queue.parent));
  if (queue.namespaces) append("namespaces", List(*queue.namespaces));
  if (!queue.quota.empty()) append("quota", Amounts(queue.quota));
  if (!queue.limit.empty()) append("limit", Amounts(queue.limit));
  append("weight", FormatThousandths(queue.weight));
}

void AppendKeys(std::vector<std::string>& paths, std::string_view parent,
                std::span<const keys::Word> names) {
  for (const keys::Word name : names) {
    paths.push_back(parent.empty() ? std::string(name) : fmt::format("{}.{}", parent, name));
  }
}

}  // namespace

std::string EncodePolicy(const PolicyConfiguration& policy) {
  std::string out;
  const auto line = [&]<typename... T>(fmt::format_string<T...> format, T&&... arguments) {
    fmt::format_to(std::back_inserter(out), format, std::forward<T>(arguments)...);
    out += '\n';
  };
  line("apiVersion: {}", kPolicyApiVersion);
  line("kind: {}", kPolicyKind);
  line("mode: {}", WordOf(keys::kModes, policy.mode));
  line("schedulerNames: {}", List(policy.scheduler_names));
  line("dialects:");
  for (const auto& [key, member] : keys::kDialectMembers) {
    line("  {}: {}", key, WordOf(keys::kSwitches, policy.dialects.*member));
  }
  line("resources:\n  devices:");
  for (const DeviceResource& device : policy.devices) {
    line("  - name: {}\n    kind: {}", Text(device.name), WordOf(keys::kDeviceKinds, device.kind));
  }
  line("topology:\n  levels:");
  for (const TopologyLevel& level : policy.levels) {
    line("  - name: {}\n    nodeLabel: {}", Text(level.name), Text(level.node_label));
  }
  line("placement:\n  maxNodesReturned: {}\n  score:", policy.placement.max_nodes_returned);
  for (const auto& [key, member] : keys::kScoreMembers) {
    line("    {}: {}", key, FormatThousandths(policy.placement.score.*member));
  }
  line("gang:\n  planTimeout: {}\n  bindTimeout: {}\n  maxStanding: {}",
       FormatDuration(policy.gang.plan_timeout), FormatDuration(policy.gang.bind_timeout),
       policy.gang.max_standing);
  line("queues:");
  for (const Queue& queue : policy.queues) AppendQueue(out, queue);
  return out;
}

std::vector<std::string> PolicyKeyPaths() {
  std::vector<std::string> paths;
  AppendKeys(paths, "", keys::kPolicy);
  AppendKeys(paths, "dialects", keys::kDialects);
  AppendKeys(paths, "resources", keys::kResources);
  AppendKeys(paths, "resources.devices[]", keys::kDevice);
  AppendKeys(paths, "topology", keys::kTopology);
  AppendKeys(paths, "topology.levels[]", keys::kLevel);
  AppendKeys(paths, "placement", keys::kPlacement);
  AppendKeys(paths, "placement.score", keys::kScore);
  AppendKeys(paths, "gang", keys::kGang);
  AppendKeys(paths, "queues[]", keys::kQueue);
  return paths;
}

}  // namespace berth::config
