#include "config/decode.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "config/decode_queues.h"
#include "config/policy_keys.h"
#include "config/scalars.h"
#include "config/strict_reader.h"
#include "kube/label_value.h"

namespace berth::config {
namespace {

constexpr std::string_view kHostLabel = "kubernetes.io/hostname";

/// Reads the keys of one mapping into their members, which keep their defaults where there is no
/// value, or a wrong one.
class Reader {
 public:
  using Uniques = std::map<std::string_view, Uniqueness, std::less<>>;

  /// `devices` are what amounts may name, and `uniques` the names that elements of the same list
  /// have.
  Reader(ErrorSink& sink, const Located& at, std::span<const std::string_view> known,
         const std::vector<DeviceResource>& devices, Uniques& uniques)
      : sink_(sink), fields_(sink, at, known), devices_(devices), uniques_(uniques) {}

  void operator()(std::string_view, const keys::Constant&) {}  // See CheckType.
  template <typename T, typename Type>
  void operator()(std::string_view key, T& member, const Type& type, std::string_view) {
    if (const std::optional<Located> at = fields_.Find(key)) Read(*at, member, type);
  }
  void operator()(std::string_view key, std::string& member, const keys::Name& type,
                  std::string_view) {
    const auto at = type.required ? fields_.Require(key) : fields_.Find(key);
    if (!at) return;
    Assign(member, ReadText(sink_, *at));
    if (at->node->kind != YamlKind::kScalar) return;
    if (type.unique && !uniques_[key].Check(sink_, *at, member)) return;
    CheckForm(*at, member, type.form);
  }

 private:
  template <typename T, typename U>
  static void Assign(T& member, std::optional<U> value) {
    if (value) member = static_cast<T>(*std::move(value));
  }

  template <typename T>
  void Read(const Located& at, T& member, const keys::Choice& type) {
    if (const auto index = ReadOneOf(sink_, at, type.values)) {
      member = static_cast<T>(*index % type.count);
    }
  }
  template <typename T>
  void Read(const Located& at, T& member, const keys::Whole& type) {
    Assign(member, ReadInteger(sink_, at, type.min, type.max));
  }
  void Read(const Located& at, std::int64_t& member, const keys::Decimal& type) {
    Assign(member, ReadThousandths(sink_, at, type.min, type.max));
  }
  void Read(const Located& at, std::chrono::milliseconds& member, const keys::Duration& type) {
    Assign(member, ReadDuration(sink_, at, type.min, type.max));
  }
  void Read(const Located& at, kube::ResourceList& member, const keys::Amounts&) {
    ReadAmounts(sink_, at, devices_, member);
  }
  void Read(const Located& at, kube::StringMap& member, const keys::Labels&) {
    for (const Entry& entry : ReadEntries(sink_, at)) {
      if (!IsQualifiedName(entry.key)) {
        sink_.Add(*entry.key_node, entry.value.path,
                  fmt::format("must be {}, is {}", keys::kNodeLabel.wanted, Quote(entry.key)));
        continue;
      }
      const std::optional<std::string> value = ReadText(sink_, entry.value);
      if (!value) continue;
      if (!kube::IsLabelValue(*value)) {
        sink_.Add(*entry.value.node, entry.value.path,
                  fmt::format("must be the value of a label, is {}", Quote(*value)));
        continue;
      }
      member[entry.key] = *value;
    }
  }
  template <typename T>
  void Read(const Located& at, T& member, const keys::Section&) {
    Uniques none;
    ReadMapping(sink_, at, member, devices_, none);
  }
  template <typename T>
  void Read(const Located& at, std::vector<T>& member, const keys::Elements& type) {
    member.clear();
    Uniques uniques;
    for (const Located& element : ElementsOf(at, type.max, type.empty)) {
      ReadMapping(sink_, element, member.emplace_back(), devices_, uniques);
    }
  }
  void Read(const Located& at, std::optional<std::vector<std::string>>& member,
            const keys::Names& type) {
    Read(at, member.emplace(), type);
  }
  void Read(const Located& at, std::vector<std::string>& member, const keys::Names& type) {
    member.clear();
    Uniqueness unique;
    for (const Located& element : ElementsOf(at, type.max, type.empty)) {
      std::optional<std::string> name = ReadText(sink_, element);
      if (name && unique.Check(sink_, element, *name) && CheckForm(element, *name, type.form)) {
        member.push_back(*std::move(name));
      }
    }
  }

  /// Of a list with at most `max` elements; `empty`: the error of one that has none.
  std::vector<Located> ElementsOf(const Located& at, std::size_t max, std::string_view empty) {
    std::vector<Located> elements = ReadList(sink_, at).value_or(std::vector<Located>{});
    const std::size_t size = at.node->items.size();
    if (at.node->kind == YamlKind::kSequence && size == 0 && !empty.empty()) {
      sink_.Add(*at.node, at.path, std::string(empty));
    }
    if (elements.size() <= max) return elements;
    sink_.Add(*at.node, at.path, fmt::format("at most {} entries, has {}", max, size));
    return {};
  }
  bool CheckForm(const Located& at, const std::string& text, const keys::Form& form) {
    if (form.valid(text)) return true;
    sink_.Add(*at.node, at.path, fmt::format("must be {}, is {}", form.wanted, Quote(text)));
    return false;
  }

 public:
  template <typename T>
  static void ReadMapping(ErrorSink& sink, const Located& at, T& target,
                          const std::vector<DeviceResource>& devices, Uniques& uniques) {
    std::vector<std::string_view> known;
    const auto note = [&known](std::string_view key, const auto&...) { known.push_back(key); };
    keys::Keys(note, target);
    Reader reader(sink, at, known, devices, uniques);
    keys::Keys(reader, target);
  }

 private:
  ErrorSink& sink_;
  Fields fields_;
  const std::vector<DeviceResource>& devices_;
  Uniques& uniques_;
};

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

/// The value below `root` at this path of keys.
std::optional<Located> Below(Located root, std::initializer_list<std::string_view> path) {
  for (const std::string_view key : path) {
    const YamlNode* node = root.node->Find(key);
    if (node == nullptr) return std::nullopt;
    root = {.node = node, .path = JoinPath(root.path, key)};
  }
  return root;
}

/// The host is the last level, and no other one.
void CheckLevels(ErrorSink& sink, const Located& list, const std::vector<TopologyLevel>& levels) {
  for (std::size_t i = 0; i < levels.size(); ++i) {
    const bool last = i + 1 == levels.size();
    const std::string& label = levels[i].node_label;
    if (!IsQualifiedName(label) || (label == kHostLabel) == last) continue;
    const Located at = *Below({&list.node->items[i], JoinPath(list.path, i)}, {"nodeLabel"});
    sink.Add(*at.node, at.path,
             last ? fmt::format("the last level must be the host, {}", kHostLabel)
                  : fmt::format("{} is the host: it must be the last level", kHostLabel));
  }
}

/// A plan that ends before one bind may would dissolve while members are parked.
void CheckTimeouts(ErrorSink& sink, const Located& root, const Gang& gang) {
  const auto plan = Below(root, {"gang", "planTimeout"});
  const auto bind = Below(root, {"gang", "bindTimeout"});
  const auto bad = [&sink](const std::optional<Located>& at) {
    return at && std::ranges::find(sink.bad_values(), at->path) != sink.bad_values().end();
  };
  if (gang.plan_timeout >= gang.bind_timeout || bad(plan) || bad(bind)) return;
  const Located& at = plan ? *plan : *bind;
  sink.Add(*at.node, at.path,
           fmt::format("gang.planTimeout ({}) must not be less than gang.bindTimeout ({})",
                       FormatDuration(gang.plan_timeout), FormatDuration(gang.bind_timeout)));
}

PolicyConfiguration ReadPolicy(ErrorSink& sink, const Located& root) {
  PolicyConfiguration policy;
  Reader::Uniques none;
  Reader::ReadMapping(sink, root, policy, policy.devices, none);
  if (const auto levels = Below(root, {"topology", "levels"})) {
    CheckLevels(sink, *levels, policy.levels);
  }
  CheckTimeouts(sink, root, policy.gang);
  if (const auto queues = Below(root, {"queues"})) CheckQueues(sink, *queues, policy);
  return policy;
}

/// For queues at their places in the list: a parent that was not understood is dropped, and a queue
/// of which an amount, or what it admits, was not understood, or which names a resource that is not
/// a device after all, admits no pods.
void CloseQueues(PolicyConfiguration& policy, const std::vector<std::string>& bad_values) {
  for (std::size_t i = 0; i < policy.queues.size(); ++i) {
    Queue& queue = policy.queues[i];
    const std::string path = fmt::format("queues[{}]", i);
    const bool bad = std::ranges::any_of(bad_values, [&path](const std::string& value) {
      // `.quota` is also the beginning of `.quotas`.
      return value == path ||
             std::ranges::any_of(std::array{".quota", ".limit", ".classes", ".priorityClasses",
                                            ".nonPreemptible", ".maxJobsPerUser"},
                                 [&](const char* key) { return value.starts_with(path + key); });
    });
    if (std::ranges::find(bad_values, path + ".parent") != bad_values.end()) queue.parent.clear();
    const auto counted = [&policy](const auto& amount) {
      return amount.first.find('/') == std::string::npos ||
             std::ranges::find(policy.devices, amount.first, &DeviceResource::name) !=
                 policy.devices.end();
    };
    const auto all_counted = [&counted](const auto& amounts) {
      return std::ranges::all_of(amounts.quota, counted) &&
             std::ranges::all_of(amounts.limit, counted);
    };
    if (!bad && all_counted(queue) && std::ranges::all_of(queue.quotas, all_counted)) continue;
    queue.namespaces.emplace();
    queue.quota.clear();
    queue.limit.clear();
    queue.quotas.clear();
  }
}

/// A flavor without the key that was not understood could be every node: queues with amounts of
/// flavors admit no pods. A class might have said that its pods are not to be evicted, and a queue
/// that its work is not to be evicted for long.
void ProtectWhatIsUnclear(PolicyConfiguration& policy, const ErrorSink& sink) {
  const auto unclear = [&sink](std::string_view path) {
    const auto below = [path](const std::string& value) { return value.starts_with(path); };
    return std::ranges::any_of(sink.bad_values(), below) ||
           std::ranges::any_of(sink.unknown_keys(), below);
  };
  if (unclear("flavors")) {
    for (Queue& queue : policy.queues) {
      if (queue.quotas.empty()) continue;
      queue.namespaces.emplace();
      queue.quotas.clear();
    }
  }
  for (std::size_t i = 0; i < policy.queues.size(); ++i) {
    if (!unclear(fmt::format("queues[{}].minRunTime", i))) continue;
    policy.queues[i].min_run_time = keys::kLongestRunTime;
  }
  for (std::size_t i = 0; i < policy.classes.size(); ++i) {
    if (unclear(fmt::format("classes[{}]", i))) policy.classes[i].preemptible = false;
  }
}

/// Drops elements whose name cannot be one, or was given before.
template <typename T>
void DropMisnamed(std::vector<T>& elements) {
  std::set<std::string> names;
  std::erase_if(elements, [&names](const T& element) {
    return !IsDnsLabel(element.name) || !names.insert(element.name).second;
  });
}

/// Completes a policy although the values at these paths were not understood.
void MakeWhole(PolicyConfiguration& policy, const ErrorSink& sink) {
  const std::vector<std::string>& bad_values = sink.bad_values();
  const PolicyConfiguration defaults;
  std::set<std::string> devices;
  std::erase_if(policy.devices, [&devices](const DeviceResource& device) {
    return !keys::IsDeviceName(device.name) || !devices.insert(device.name).second;
  });
  if (policy.devices.empty()) policy.devices = defaults.devices;
  CloseQueues(policy, bad_values);
  ProtectWhatIsUnclear(policy, sink);
  DropMisnamed(policy.flavors);
  DropMisnamed(policy.classes);
  DropMisnamed(policy.queues);
  std::set<std::string_view> names;
  for (const Queue& queue : policy.queues) names.insert(queue.name);
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
  MakeWhole(policy, sink);
  return StoredPolicy{.policy = std::move(policy), .left_out = std::move(sink).Take()};
}

}  // namespace berth::config
