#include "config/device_lists.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

namespace berth::config {
namespace {

using Json = nlohmann::json;
using Names = std::vector<std::string>;

/// The texts of a CEL list of literals: the part between `[` and `]`, before `after`. nullopt: the
/// expression has no such list.
std::optional<Names> ListBefore(const std::string& cel, const std::string& after) {
  std::string text;
  for (const char c : cel) {
    if (c != ' ' && c != '\n' && c != '\t') text += c == '"' ? '\'' : c;
  }
  const auto end = text.find(']' + after);
  const auto begin = end == text.npos ? text.npos : text.rfind('[', end);
  if (begin == text.npos) return std::nullopt;
  Names names;
  for (auto at = begin; (at = text.find('\'', at)) < end;) {
    const auto close = text.find('\'', at + 1);
    if (close > end) return std::nullopt;
    names.push_back(text.substr(at + 1, close - at - 1));
    at = close + 1;
  }
  return names;
}

/// The expression of the named entry of spec.matchConditions or spec.variables; nullopt: no entry.
std::optional<std::string> Expression(const Json& object, const char* list, const char* name) {
  const Json::json_pointer where(std::string("/spec/") + list);
  if (!object.contains(where) || !object[where].is_array()) return std::nullopt;
  for (const Json& entry : object[where]) {
    if (!entry.is_object() || entry.value("name", Json()) != name) continue;
    const Json text = entry.value("expression", Json());
    if (text.is_string()) return text.get<std::string>();
  }
  return std::nullopt;
}

/// One list of an object, its name in the policy, and the effect of a missing entry.
struct Compared {
  std::string object;
  std::string where;
  std::string key;
  std::string lacking;
  std::string beyond;
};

void Compare(const Compared& what, const std::optional<Names>& said, const Names& policy,
             std::vector<ListFinding>& findings) {
  const auto add = [&](Severity severity, std::string message) {
    findings.push_back(
        {.severity = severity, .object = what.object, .message = std::move(message)});
  };
  if (!said) {
    return add(Severity::kWarning, fmt::format("its list in {} cannot be read: compare it with the "
                                               "policy's {} by hand",
                                               what.where, what.key));
  }
  for (const std::string& name : policy) {
    if (std::ranges::find(*said, name) != said->end()) continue;
    add(Severity::kError, fmt::format("{} lacks {}, which is in the policy's {}: {}", what.where,
                                      name, what.key, what.lacking));
  }
  for (const std::string& name : *said) {
    if (std::ranges::find(policy, name) != policy.end()) continue;
    add(Severity::kWarning, fmt::format("{} has {}, which is not in the policy's {}: {}",
                                        what.where, name, what.key, what.beyond));
  }
}

struct Lists {
  Names devices;
  Names schedulers;
};

/// True: the object is the policy that gates pods.
bool CompareGate(const std::string& object, const Json& json, const Lists& lists,
                 std::vector<ListFinding>& findings) {
  const auto releases = Expression(json, "matchConditions", "berth-releases-it");
  if (!releases) return false;
  Compare({.object = object,
           .where = "matchConditions[berth-releases-it]",
           .key = "resources.devices",
           .lacking = "single pods with it wait without the gate, and kube-scheduler tries them "
                      "again and again",
           .beyond = "pods with it are gated though Berth does not count it"},
          ListBefore(*releases, ".exists(device,"), lists.devices, findings);
  if (const auto names = Expression(json, "matchConditions", "scheduler")) {
    Compare({.object = object,
             .where = "matchConditions[scheduler]",
             .key = "schedulerNames",
             .lacking = "its pods are not gated",
             .beyond = "its pods are gated, and nothing removes the gate"},
            ListBefore(*names, ""), lists.schedulers, findings);
  }
  return true;
}

/// True: the object is the policy that sends pods with devices through Berth.
bool CompareTenants(const std::string& object, const Json& json, const Lists& lists,
                    std::vector<ListFinding>& findings) {
  const auto devices = Expression(json, "variables", "devices");
  if (!devices || !Expression(json, "variables", "asksForDevices")) return false;
  Compare({.object = object,
           .where = "variables[devices]",
           .key = "resources.devices",
           .lacking = "pods with it may name a node or another scheduler, and go past their queue",
           .beyond = "pods with it are kept from other schedulers though Berth does not count it"},
          ListBefore(*devices, ""), lists.devices, findings);
  if (const auto names = Expression(json, "variables", "schedulerNames")) {
    Compare({.object = object,
             .where = "variables[schedulerNames]",
             .key = "schedulerNames",
             .lacking = "its pods with devices are refused",
             .beyond = "its pods with devices are let through, and Berth leaves them alone"},
            ListBefore(*names, ""), lists.schedulers, findings);
  }
  return true;
}

}  // namespace

std::string ListFinding::ToString() const {
  return fmt::format("{}: {}: {}", object, severity == Severity::kError ? "error" : "warning",
                     message);
}

std::vector<ListFinding> CompareLists(const std::vector<Manifest>& objects,
                                      const PolicyConfiguration& policy) {
  Lists lists{.devices = {}, .schedulers = policy.scheduler_names};
  for (const DeviceResource& device : policy.devices) lists.devices.push_back(device.name);
  std::vector<ListFinding> findings;
  bool gate = false;
  bool tenants = false;
  for (const Manifest& manifest : objects) {
    const Json json = Json::parse(manifest.json, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) continue;
    const std::string object = manifest.kind + ' ' + manifest.name;
    if (manifest.kind == "MutatingAdmissionPolicy") {
      gate |= CompareGate(object, json, lists, findings);
    } else if (manifest.kind == "ValidatingAdmissionPolicy") {
      tenants |= CompareTenants(object, json, lists, findings);
    }
  }
  const auto missing = [&](const char* object, const char* follows) {
    findings.push_back({.severity = Severity::kWarning, .object = object, .message = follows});
  };
  if (!gate) {
    missing("MutatingAdmissionPolicy",
            "there is none that gates pods for Berth: pods wait without the gate");
  }
  if (!tenants) {
    missing("ValidatingAdmissionPolicy",
            "there is none that sends pods with devices through Berth: tenants can go past their "
            "queue");
  }
  return findings;
}

std::vector<ConfigText> TextsOf(const std::vector<Manifest>& objects, const std::string& key) {
  std::vector<ConfigText> texts;
  for (const Manifest& manifest : objects) {
    if (manifest.kind != "ConfigMap") continue;
    const Json json = Json::parse(manifest.json, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("data") || !json["data"].is_object()) continue;
    const Json text = json["data"].value(key, Json());
    if (!text.is_string()) continue;
    texts.push_back({.object = "ConfigMap " + manifest.name, .text = text.get<std::string>()});
  }
  return texts;
}

}  // namespace berth::config
