#include "kube/selector.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <system_error>

namespace berth::kube {
namespace {

std::optional<std::int64_t> ParseInt(std::string_view text) {
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-')) return std::nullopt;
  }
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool Contains(const std::vector<std::string>& values, std::string_view value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

/// labels.Requirement.Matches, preceded by the checks of labels.NewRequirement.
bool Holds(const Requirement& requirement, const std::string* value) {
  const std::vector<std::string>& values = requirement.values;
  switch (requirement.op) {
    case SelectorOperator::kIn:
      return value != nullptr && Contains(values, *value);
    case SelectorOperator::kNotIn:
      return !values.empty() && (value == nullptr || !Contains(values, *value));
    case SelectorOperator::kExists:
      return values.empty() && value != nullptr;
    case SelectorOperator::kDoesNotExist:
      return values.empty() && value == nullptr;
    case SelectorOperator::kGt:
    case SelectorOperator::kLt: {
      if (values.size() != 1 || value == nullptr) return false;
      const std::optional<std::int64_t> bound = ParseInt(values.front());
      const std::optional<std::int64_t> actual = ParseInt(*value);
      if (!bound || !actual) return false;
      return requirement.op == SelectorOperator::kGt ? *actual > *bound : *actual < *bound;
    }
  }
  return false;
}

bool HoldsIn(const Requirement& requirement, const StringMap& labels) {
  const auto found = labels.find(requirement.key);
  return Holds(requirement, found == labels.end() ? nullptr : &found->second);
}

/// matchFields supports two operators with one value each, and one field.
bool MatchesField(const Requirement& requirement, const Node& node) {
  if (requirement.values.size() != 1 || requirement.key != "metadata.name") return false;
  const bool equal = requirement.values.front() == node.meta.name;
  if (requirement.op == SelectorOperator::kIn) return equal;
  return requirement.op == SelectorOperator::kNotIn && !equal;
}

bool Tolerates(const Toleration& toleration, const Taint& taint) {
  if (toleration.effect && *toleration.effect != taint.effect) return false;
  if (!toleration.key.empty() && toleration.key != taint.key) return false;
  return toleration.exists || toleration.value == taint.value;
}

bool EveryAddress(std::string_view ip) { return ip.empty() || ip == "0.0.0.0"; }

std::string_view ProtocolOf(const HostPort& port) {
  return port.protocol.empty() ? std::string_view("TCP") : std::string_view(port.protocol);
}

bool Conflict(const HostPort& a, const HostPort& b) {
  return a.port > 0 && a.port == b.port && ProtocolOf(a) == ProtocolOf(b) &&
         (EveryAddress(a.ip) || EveryAddress(b.ip) || a.ip == b.ip);
}

}  // namespace

bool Matches(const LabelSelector& selector, const StringMap& labels) {
  return std::all_of(selector.requirements.begin(), selector.requirements.end(),
                     [&](const Requirement& requirement) {
                       return requirement.op != SelectorOperator::kGt &&
                              requirement.op != SelectorOperator::kLt &&
                              HoldsIn(requirement, labels);
                     });
}

bool Matches(const std::optional<LabelSelector>& selector, const StringMap& labels) {
  return selector && Matches(*selector, labels);
}

bool MatchesNode(const Requirement& requirement, const StringMap& labels) {
  return HoldsIn(requirement, labels);
}

bool MatchesNode(const NodeSelectorTerm& term, const Node& node) {
  if (term.match_expressions.empty() && term.match_fields.empty()) return false;
  return std::all_of(term.match_expressions.begin(), term.match_expressions.end(),
                     [&](const Requirement& r) { return HoldsIn(r, node.meta.labels); }) &&
         std::all_of(term.match_fields.begin(), term.match_fields.end(),
                     [&](const Requirement& r) { return MatchesField(r, node); });
}

bool MatchesNode(const std::vector<NodeSelectorTerm>& terms, const Node& node) {
  return std::any_of(terms.begin(), terms.end(),
                     [&](const NodeSelectorTerm& term) { return MatchesNode(term, node); });
}

bool MatchesNode(const PodSpec& spec, const Node& node) {
  for (const auto& [key, value] : spec.node_selector) {
    const auto found = node.meta.labels.find(key);
    if (found == node.meta.labels.end() || found->second != value) return false;
  }
  return !spec.has_required_node_affinity || MatchesNode(spec.required_node_affinity, node);
}

bool Tolerates(const std::vector<Toleration>& tolerations, const Taint& taint) {
  return std::any_of(tolerations.begin(), tolerations.end(),
                     [&](const Toleration& toleration) { return Tolerates(toleration, taint); });
}

const Taint* FindUntoleratedTaint(const std::vector<Toleration>& tolerations,
                                  const std::vector<Taint>& taints) {
  for (const Taint& taint : taints) {
    if (taint.effect == TaintEffect::kPreferNoSchedule) continue;
    if (!Tolerates(tolerations, taint)) return &taint;
  }
  return nullptr;
}

bool ToleratesUnschedulable(const std::vector<Toleration>& tolerations) {
  static const Taint kCordoned{
      .key = "node.kubernetes.io/unschedulable", .value = "", .effect = TaintEffect::kNoSchedule};
  return Tolerates(tolerations, kCordoned);
}

bool HostPortsConflict(const std::vector<HostPort>& a, const std::vector<HostPort>& b) {
  return std::any_of(a.begin(), a.end(), [&](const HostPort& mine) {
    return std::any_of(b.begin(), b.end(),
                       [&](const HostPort& theirs) { return Conflict(mine, theirs); });
  });
}

}  // namespace berth::kube
