#include "config/decode.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "config/decode_queues.h"
#include "config/policy_keys.h"
#include "config/scalars.h"
#include "config/strict_reader.h"

namespace berth::config {
namespace {

constexpr std::string_view kHostLabel = "kubernetes.io/hostname";

/// Calls `read(value)` if `fields` has the key.
template <typename Read>
void With(const Fields& fields, std::string_view key, Read read) {
  if (const std::optional<Located> value = fields.Find(key)) read(*value);
}

/// Stores the result of a reader, and keeps the default if there is none.
template <typename T, typename U>
void Assign(T& target, std::optional<U> value) {
  if (value) target = static_cast<T>(*std::move(value));
}

/// A list of 1 to `max` elements; `why` describes the effect of an empty one.
std::vector<Located> ReadNonEmpty(ErrorSink& sink, const Located& at, std::size_t max,
                                  std::string_view why) {
  std::optional<std::vector<Located>> elements = ReadList(sink, at);
  if (!elements) return {};
  if (elements->empty()) sink.Add(*at.node, at.path, fmt::format("must not be empty: {}", why));
  if (elements->size() > max) {
    sink.Add(*at.node, at.path, fmt::format("at most {} entries, has {}", max, elements->size()));
    elements->clear();
  }
  return *std::move(elements);
}

/// False, with errors, if the document is not a policy of this version. If it is of another kind,
/// the rest is not read.
bool CheckType(ErrorSink& sink, const Located& root) {
  const auto check = [&](std::string_view key, std::string_view wanted) {
    const YamlNode* value = root.node->Find(key);
    if (value == nullptr) {
      sink.Add(*root.node, std::string(key), fmt::format("missing, must be {}", wanted));
      return true;
    }
    if (value->kind == YamlKind::kScalar && value->text == wanted) return true;
    sink.Add(*value, std::string(key),
             fmt::format("must be {}, is {}", wanted,
                         value->kind == YamlKind::kScalar ? Quote(value->text) : "not a text"));
    return false;
  };
  if (root.node->kind != YamlKind::kMapping) {
    sink.Add(*root.node, "", fmt::format("must be a mapping with kind {}", kPolicyKind));
    return false;
  }
  check("apiVersion", kPolicyApiVersion);
  return check("kind", kPolicyKind);
}

std::vector<std::string> ReadSchedulerNames(ErrorSink& sink, const Located& at) {
  std::vector<std::string> names;
  Uniqueness unique;
  for (const Located& element :
       ReadNonEmpty(sink, at, keys::kMaxSchedulerNames, "no pod would be Berth's")) {
    std::optional<std::string> name = ReadText(sink, element);
    if (!name || !unique.Check(sink, element, *name)) continue;
    if (!IsDnsSubdomain(*name)) {
      sink.Add(*element.node, element.path,
               fmt::format("must be a scheduler name (a DNS name), is {}", Quote(*name)));
      continue;
    }
    names.push_back(*std::move(name));
  }
  return names;
}

DialectSwitch ToSwitch(std::size_t word) {
  const std::string_view text = keys::kSwitches[word];
  if (text == "auto") return DialectSwitch::kAuto;
  return text == "on" || text == "true" ? DialectSwitch::kOn : DialectSwitch::kOff;
}

void ReadDialects(ErrorSink& sink, const Located& at, Dialects& dialects) {
  const Fields fields(sink, at, keys::kDialects);
  for (const auto& [key, member] : keys::kDialectMembers) {
    With(fields, key, [&](const Located& value) {
      if (const auto word = ReadOneOf(sink, value, keys::kSwitches)) {
        dialects.*member = ToSwitch(*word);
      }
    });
  }
}

/// Kubernetes' extended resources, the only ones that a device plugin can offer.
bool IsDeviceName(std::string_view name) {
  return name.find('/') != std::string_view::npos && IsQualifiedName(name) &&
         name.find("kubernetes.io/") == std::string_view::npos && !name.starts_with("requests.");
}

std::vector<DeviceResource> ReadDevices(ErrorSink& sink, const Located& at) {
  std::vector<DeviceResource> devices;
  Uniqueness unique;
  for (const Located& element :
       ReadNonEmpty(sink, at, keys::kMaxDevices, "nothing would be scheduled")) {
    Fields fields(sink, element, keys::kDevice);
    DeviceResource device;
    if (const auto at_name = fields.Require("name")) {
      Assign(device.name, ReadText(sink, *at_name));
      if (!device.name.empty() && !IsDeviceName(device.name)) {
        sink.Add(*at_name->node, at_name->path,
                 fmt::format("must be an extended resource such as nvidia.com/gpu, is {}",
                             Quote(device.name)));
      }
      unique.Check(sink, *at_name, device.name);
    }
    With(fields, "kind", [&](const Located& value) {
      Assign(device.kind, ReadOneOf(sink, value, keys::kDeviceKinds));
    });
    devices.push_back(std::move(device));
  }
  return devices;
}

TopologyLevel ReadLevel(ErrorSink& sink, const Located& at, bool last, Uniqueness& names,
                        Uniqueness& labels) {
  Fields fields(sink, at, keys::kLevel);
  TopologyLevel level;
  if (const auto name = fields.Require("name")) {
    Assign(level.name, ReadText(sink, *name));
    if (!IsDnsLabel(level.name) && name->node->kind == YamlKind::kScalar) {
      sink.Add(*name->node, name->path,
               fmt::format("must be a DNS label such as rack, is {}", Quote(level.name)));
    }
    names.Check(sink, *name, level.name);
  }
  if (const auto label = fields.Require("nodeLabel")) {
    Assign(level.node_label, ReadText(sink, *label));
    if (label->node->kind != YamlKind::kScalar) return level;
    const bool host = level.node_label == kHostLabel;
    labels.Check(sink, *label, level.node_label);
    if (!IsQualifiedName(level.node_label)) {
      sink.Add(*label->node, label->path,
               fmt::format("must be a label key such as topology.example.com/rack, is {}",
                           Quote(level.node_label)));
    } else if (host != last) {
      sink.Add(*label->node, label->path,
               last ? fmt::format("the last level must be the host, {}", kHostLabel)
                    : fmt::format("{} is the host: it must be the last level", kHostLabel));
    }
  }
  return level;
}

std::vector<TopologyLevel> ReadLevels(ErrorSink& sink, const Located& at) {
  const std::vector<Located> elements = ReadNonEmpty(
      sink, at, keys::kMaxLevels, fmt::format("list at least the host, {}", kHostLabel));
  std::vector<TopologyLevel> levels;
  Uniqueness names;
  Uniqueness labels;
  for (const Located& element : elements) {
    levels.push_back(ReadLevel(sink, element, &element == &elements.back(), names, labels));
  }
  return levels;
}

void ReadPlacement(ErrorSink& sink, const Located& at, Placement& placement) {
  const Fields fields(sink, at, keys::kPlacement);
  With(fields, "maxNodesReturned", [&](const Located& value) {
    Assign(placement.max_nodes_returned, ReadInteger(sink, value, 1, keys::kMaxNodesReturned));
  });
  With(fields, "score", [&](const Located& value) {
    const Fields weights(sink, value, keys::kScore);
    for (const auto& [key, member] : keys::kScoreMembers) {
      With(weights, key, [&](const Located& weight) {
        Assign(placement.score.*member, ReadThousandths(sink, weight, 0, keys::kMaxWeight));
      });
    }
  });
}

void ReadGang(ErrorSink& sink, const Located& at, Gang& gang) {
  const Fields fields(sink, at, keys::kGang);
  bool good = true;
  const auto read = [&](std::string_view key, std::chrono::milliseconds max,
                        std::chrono::milliseconds& target) {
    With(fields, key, [&](const Located& value) {
      const auto duration = ReadDuration(sink, value, keys::kMinBindTimeout, max);
      good = good && duration.has_value();
      Assign(target, duration);
    });
  };
  read("planTimeout", keys::kMaxPlanTimeout, gang.plan_timeout);
  read("bindTimeout", keys::kMaxBindTimeout, gang.bind_timeout);
  With(fields, "maxStanding", [&](const Located& value) {
    Assign(gang.max_standing, ReadInteger(sink, value, 1, keys::kMaxStanding));
  });
  if (!good || gang.plan_timeout >= gang.bind_timeout) return;
  // A plan that ends before one bind may would dissolve while members are parked.
  const std::optional<Located> plan = fields.Find("planTimeout");
  const Located& where = plan ? *plan : *fields.Find("bindTimeout");
  sink.Add(*where.node, where.path,
           fmt::format("gang.planTimeout ({}) must not be less than gang.bindTimeout ({})",
                       FormatDuration(gang.plan_timeout), FormatDuration(gang.bind_timeout)));
}

PolicyConfiguration ReadPolicy(ErrorSink& sink, const Located& root) {
  PolicyConfiguration policy;
  const Fields fields(sink, root, keys::kPolicy);
  With(fields, "mode",
       [&](const Located& value) { Assign(policy.mode, ReadOneOf(sink, value, keys::kModes)); });
  With(fields, "schedulerNames",
       [&](const Located& value) { policy.scheduler_names = ReadSchedulerNames(sink, value); });
  With(fields, "dialects",
       [&](const Located& value) { ReadDialects(sink, value, policy.dialects); });
  With(fields, "resources", [&](const Located& value) {
    With(Fields(sink, value, keys::kResources), "devices",
         [&](const Located& devices) { policy.devices = ReadDevices(sink, devices); });
  });
  With(fields, "topology", [&](const Located& value) {
    With(Fields(sink, value, keys::kTopology), "levels",
         [&](const Located& levels) { policy.levels = ReadLevels(sink, levels); });
  });
  With(fields, "placement",
       [&](const Located& value) { ReadPlacement(sink, value, policy.placement); });
  With(fields, "gang", [&](const Located& value) { ReadGang(sink, value, policy.gang); });
  With(fields, "queues",
       [&](const Located& value) { policy.queues = ReadQueues(sink, value, policy.devices); });
  return policy;
}

/// For queues at their places in the list: a parent that was not understood is dropped, and a queue
/// whose quota or limit was not understood, or names a resource that is not a device after all,
/// admits no pods.
void CloseQueues(PolicyConfiguration& policy, const std::vector<std::string>& bad_values) {
  for (std::size_t i = 0; i < policy.queues.size(); ++i) {
    Queue& queue = policy.queues[i];
    const std::string path = fmt::format("queues[{}]", i);
    const bool bad = std::ranges::any_of(bad_values, [&path](const std::string& value) {
      return value == path || value.starts_with(path + ".quota") ||
             value.starts_with(path + ".limit");
    });
    if (std::ranges::find(bad_values, path + ".parent") != bad_values.end()) queue.parent.clear();
    const auto counted = [&policy](const auto& amount) {
      return amount.first.find('/') == std::string::npos ||
             std::ranges::find(policy.devices, amount.first, &DeviceResource::name) !=
                 policy.devices.end();
    };
    if (!bad && std::ranges::all_of(queue.quota, counted) &&
        std::ranges::all_of(queue.limit, counted)) {
      continue;
    }
    queue.namespaces.emplace();
    queue.quota.clear();
    queue.limit.clear();
  }
}

/// Completes a policy although the values at these paths were not understood.
void MakeWhole(PolicyConfiguration& policy, const std::vector<std::string>& bad_values) {
  const PolicyConfiguration defaults;
  std::set<std::string> devices;
  std::erase_if(policy.devices, [&devices](const DeviceResource& device) {
    return !IsDeviceName(device.name) || !devices.insert(device.name).second;
  });
  if (policy.devices.empty()) policy.devices = defaults.devices;
  CloseQueues(policy, bad_values);
  std::set<std::string> names;
  std::erase_if(policy.queues, [&names](const Queue& queue) {
    return !IsDnsLabel(queue.name) || !names.insert(queue.name).second;
  });
  for (Queue& queue : policy.queues) {
    if (!names.contains(queue.parent)) queue.parent.clear();
  }
  if (policy.queues.empty()) {
    policy.queues = {{.name = "default", .namespaces = std::vector<std::string>{}}};
  }
  if (policy.scheduler_names.empty()) policy.scheduler_names = defaults.scheduler_names;
  const bool levels = std::ranges::any_of(
      bad_values, [](const std::string& value) { return value.starts_with("topology"); });
  if (levels) policy.levels = defaults.levels;
  policy.gang.plan_timeout = std::max(policy.gang.plan_timeout, policy.gang.bind_timeout);
}

/// Errors go to `sink`.
PolicyConfiguration ReadFile(ErrorSink& sink, const std::vector<YamlNode>& documents) {
  if (documents.empty()) {
    sink.Add(YamlNode{}, "",
             fmt::format("the file is empty: it must begin with apiVersion: {} and kind: {}",
                         kPolicyApiVersion, kPolicyKind));
    return {};
  }
  const Located root{.node = &documents.front(), .path = ""};
  PolicyConfiguration policy;
  if (CheckType(sink, root)) policy = ReadPolicy(sink, root);
  if (documents.size() > 1) {
    sink.Add(documents[1], "", "a second document: a policy file holds exactly one");
  }
  return policy;
}

}  // namespace

std::expected<PolicyConfiguration, std::vector<Diagnostic>> DecodePolicy(
    std::string_view yaml, std::string_view file_name) {
  const auto documents = ReadYaml(yaml, file_name);
  if (!documents) return std::unexpected(documents.error());
  ErrorSink sink(file_name);
  PolicyConfiguration policy = ReadFile(sink, *documents);
  if (sink.empty()) return policy;
  return std::unexpected(std::move(sink).Take());
}

std::expected<StoredPolicy, std::vector<Diagnostic>> DecodeStoredPolicy(
    std::string_view yaml, std::string_view file_name) {
  const auto documents = ReadYaml(yaml, file_name);
  if (!documents) return std::unexpected(documents.error());
  ErrorSink sink(file_name);
  const bool one = documents->size() == 1;
  const Located root{.node = one ? &documents->front() : nullptr, .path = ""};
  if (!one || !CheckType(sink, root) || !sink.empty()) {
    ErrorSink all(file_name);
    ReadFile(all, *documents);
    return std::unexpected(std::move(all).Take());
  }
  PolicyConfiguration policy = ReadPolicy(sink, root);
  if (sink.overflowed()) return std::unexpected(std::move(sink).Take());
  MakeWhole(policy, sink.bad_values());
  return StoredPolicy{.policy = std::move(policy), .left_out = std::move(sink).Take()};
}

}  // namespace berth::config
