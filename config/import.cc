#include "config/import.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <set>

#include "config/import_draft.h"
#include "config/policy_keys.h"
#include "config/scalars.h"
#include "kube/quantity.h"

namespace berth::config {

namespace internal {
namespace {

constexpr std::string_view kHostLabel = "kubernetes.io/hostname";
constexpr std::string_view kGpu = "nvidia.com/gpu";
constexpr std::size_t kMaxLabel = 63;

/// One line of a comment: texts of objects must not end it.
std::string Line(std::string_view text) {
  constexpr std::size_t kMaxLine = 400;
  std::string line(text.substr(0, kMaxLine));
  std::ranges::replace_if(
      line, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, ' ');
  return line;
}

bool IsCounted(std::string_view resource) {
  return resource == "cpu" || resource == "memory" || resource == "ephemeral-storage" ||
         resource.starts_with("hugepages-");
}

bool IsDevice(std::string_view resource) {
  return resource.find('/') != std::string_view::npos && IsQualifiedName(resource) &&
         resource.find("kubernetes.io/") == std::string_view::npos &&
         !resource.starts_with("requests.");
}

std::string Amounts(const kube::ResourceList& list) {
  std::string text;
  for (const auto& [name, amount] : list) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", name, kube::Format(name, amount));
  }
  return "{" + text + "}";
}

/// Makes a DNS label of any text.
std::string LabelFrom(std::string_view text) {
  std::string label;
  for (const char c : text.substr(0, kMaxLabel)) {
    const char low = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    const bool fine = (low >= 'a' && low <= 'z') || (low >= '0' && low <= '9');
    if (fine || !label.empty()) label += fine ? low : '-';
  }
  while (!label.empty() && label.back() == '-') label.pop_back();
  return label.empty() ? "queue" : label;
}

/// The line of what is not the default; empty: nothing is.
std::string PreemptionText(const Preemption& preemption) {
  std::string parts;
  if (preemption.within == Within::kNever) parts = "within: never";
  if (preemption.reclaim == Reclaim::kNever) {
    parts += std::string(parts.empty() ? "" : ", ") + "reclaim: never";
  }
  return parts.empty() ? "" : fmt::format("  preemption: {{{}}}", parts);
}

/// The text of a policy file.
struct Lines {
  std::string text;

  void Add(std::string_view line) { text.append(line).append("\n"); }
  void Comment(std::string_view line) { Add("# " + Line(line)); }
};

/// `resources`, if any queue has an amount of a device.
void AddDevices(const std::vector<ImportedQueue>& queues, Lines& out) {
  std::set<std::string> devices;
  for (const ImportedQueue& imported : queues) {
    for (const auto* list : {&imported.queue.quota, &imported.queue.limit}) {
      for (const auto& [resource, amount] : *list) {
        if (IsDevice(resource)) devices.insert(resource);
      }
    }
  }
  if (devices.empty()) return;
  out.Add("resources:");
  out.Add("  # The first one is what pods are placed by.");
  out.Add("  devices:");
  if (devices.erase(std::string(kGpu)) > 0) out.Add(fmt::format("  - {{name: {}}}", kGpu));
  for (const std::string& device : devices) {
    const bool handles = device.starts_with("rdma/");
    out.Add(fmt::format("  - {{name: {}{}}}", device, handles ? ", kind: handles" : ""));
  }
}

/// An element of `queues`, without the keys that have their defaults.
void AddQueue(const Queue& queue, Lines& out) {
  out.Add(fmt::format("- name: \"{}\"", queue.name));
  if (!queue.parent.empty()) out.Add(fmt::format("  parent: \"{}\"", queue.parent));
  if (queue.namespaces) {
    std::string names;
    for (const std::string& ns : *queue.namespaces) {
      names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", ns);
    }
    out.Add(fmt::format("  namespaces: [{}]", names));
  }
  if (!queue.quota.empty()) out.Add("  quota: " + Amounts(queue.quota));
  if (!queue.limit.empty()) out.Add("  limit: " + Amounts(queue.limit));
  if (queue.weight != 1000) {
    out.Add(fmt::format("  weight: {}.{:03}", queue.weight / 1000, queue.weight % 1000));
  }
  if (!queue.lending_limit.empty()) out.Add("  lendingLimit: " + Amounts(queue.lending_limit));
  if (queue.priority != 0) out.Add(fmt::format("  priority: {}", queue.priority));
  if (queue.hold != Hold::kNone) {
    out.Add(fmt::format("  hold: {}", keys::kHolds[static_cast<std::size_t>(queue.hold)]));
  }
  if (const std::string text = PreemptionText(queue.preemption); !text.empty()) out.Add(text);
  if (queue.min_run_time.count() != 0)
    out.Add("  minRunTime: " + FormatDuration(queue.min_run_time));
}

}  // namespace

std::string ImportDraft::NameFor(std::string_view name, std::vector<std::string>& notes) {
  std::string label = LabelFrom(name);
  const auto taken = [&](const std::string& candidate) {
    return std::ranges::any_of(queues_, [&](const auto& q) { return q.queue.name == candidate; });
  };
  const std::string base = label.substr(0, kMaxLabel - 4);
  for (int i = 2; taken(label); ++i) label = fmt::format("{}-{}", base, i);
  if (label != name) {
    notes.push_back(fmt::format(
        "renamed: {} is not a valid queue name here, or is taken. Pods that name it find no queue",
        name));
  }
  return label;
}

void ImportDraft::AddAmount(kube::ResourceList& list, const std::string& resource,
                            std::int64_t amount, const std::string& what,
                            std::vector<std::string>& notes) {
  if (!IsCounted(resource) && !IsDevice(resource)) {
    notes.push_back(fmt::format("{} of {}: not counted by Berth", what, resource));
    return;
  }
  if (IsDevice(resource) && amount % 1000 != 0) {
    notes.push_back(fmt::format("{} of {}: {} rounded down to whole devices", what, resource,
                                kube::Format(resource, amount)));
    amount -= amount % 1000;
  }
  std::int64_t& sum = list[resource];
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() - 1000;
  sum = amount > kMost - sum ? kMost - kMost % 1000 : sum + amount;
}

void ImportDraft::AddQuantity(kube::ResourceList& list, const std::string& resource,
                              const Json& quantity, const std::string& what,
                              std::vector<std::string>& notes) {
  const std::string text = quantity.is_string() ? quantity.get<std::string>() : quantity.dump();
  const auto amount = kube::ParseFor(resource, text);
  if (!amount) {
    notes.push_back(
        fmt::format("{} of {}: {}: {}", what, resource, kube::Message(amount.error()), text));
    return;
  }
  AddAmount(list, resource, *amount, what, notes);
}

void ImportDraft::TakePriority(const Json& value, ImportedQueue& imported) {
  const auto number = NumberIn(value);
  if (value.is_null() || number == 0.0) return;
  if (!number || std::abs(*number) > static_cast<double>(keys::kMostQueuePriority) ||
      *number != std::trunc(*number)) {
    imported.notes.push_back(
        fmt::format("priority {}: not carried over (whole numbers up to {} are possible)",
                    value.dump(), keys::kMostQueuePriority));
    return;
  }
  imported.queue.priority = std::llround(*number);
  imported.notes.push_back(fmt::format(
      "priority {}: it decides between queues that are as far above what they are entitled to",
      value.dump()));
}

void ImportDraft::SetLevels(const std::string& topology, const std::vector<std::string>& labels) {
  if (!topology_.empty()) {
    Note(fmt::format("Topology {}: Berth has one tree of levels, that of {}", topology, topology_));
    return;
  }
  topology_ = topology;
  std::set<std::string> names;
  for (const std::string& label : labels) {
    if (!IsQualifiedName(label) || label == kHostLabel) continue;
    std::string_view last = std::string_view(label).substr(label.rfind('/') + 1);
    if (last.starts_with("topology-")) last.remove_prefix(9);
    std::string name = LabelFrom(last);
    while (name == "host" || !names.insert(name).second) name += "-x";
    levels_.push_back({.name = name, .node_label = label});
  }
  levels_.push_back({.name = "host", .node_label = std::string(kHostLabel)});
}

/// Meets the requirement of DecodePolicy that a limit is not less than the quota.
void ImportDraft::Settle() {
  for (ImportedQueue& imported : queues_) {
    for (auto& [resource, limit] : imported.queue.limit) {
      const auto quota = imported.queue.quota.find(resource);
      if (quota == imported.queue.quota.end() || quota->second <= limit) continue;
      imported.notes.push_back(fmt::format("quota of {}: {}, cut to the limit", resource,
                                           kube::Format(resource, quota->second)));
      // What it keeps of its quota stays the same.
      const auto lent = imported.queue.lending_limit.find(resource);
      if (lent != imported.queue.lending_limit.end()) {
        lent->second = std::max<std::int64_t>(0, lent->second - (quota->second - limit));
      }
      quota->second = limit;
    }
    std::erase_if(imported.queue.lending_limit, [&](const auto& amount) {
      const auto& [resource, most] = amount;
      if (!IsDevice(resource)) {
        imported.notes.push_back(
            fmt::format("lendingLimit of {}: not carried over, only devices are kept", resource));
        return true;
      }
      const auto quota = imported.queue.quota.find(resource);
      return quota == imported.queue.quota.end() || quota->second <= most;  // it keeps nothing
    });
  }
}

std::string ImportDraft::ToYaml(std::string_view head) {
  Settle();
  Lines out;
  out.Comment(head);
  for (const std::string& note : notes_) out.Comment(note);
  out.Add("apiVersion: berth.dev/v1alpha1");
  out.Add("kind: PolicyConfiguration");
  AddDevices(queues_, out);
  if (!levels_.empty()) {
    out.Comment(fmt::format("Topology {}", topology_));
    out.Add("topology:");
    out.Add("  levels:");
    for (const TopologyLevel& level : levels_) {
      out.Add(fmt::format("  - {{name: {}, nodeLabel: {}}}", level.name, level.node_label));
    }
  }
  out.Add("borrowing: on");
  out.Add("queues:");
  for (const ImportedQueue& imported : queues_) {
    for (const std::string& note : imported.notes) out.Comment(note);
    AddQueue(imported.queue, out);
  }
  return std::move(out.text);
}

const Json& At(const Json& object, const char* pointer) {
  static const Json kNull;
  const Json::json_pointer where(pointer);
  return object.contains(where) ? object.at(where) : kNull;
}

std::optional<double> NumberIn(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (!value.is_string()) return std::nullopt;
  const auto& text = value.get_ref<const std::string&>();
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::string TextAt(const Json& object, const char* pointer) {
  const Json& value = At(object, pointer);
  return value.is_string() ? value.get<std::string>() : std::string();
}

std::string NameOf(const Json& object) { return TextAt(object, "/metadata/name"); }

std::vector<const Json*> OfKind(const std::vector<Json>& objects, std::string_view group,
                                std::string_view kind) {
  std::vector<const Json*> found;
  for (const Json& object : objects) {
    const std::string version = TextAt(object, "/apiVersion");
    const auto slash = version.find('/');
    const std::string_view of = slash == std::string::npos
                                    ? std::string_view()
                                    : std::string_view(version).substr(0, slash);
    if (of == group && TextAt(object, "/kind") == kind) found.push_back(&object);
  }
  return found;
}

}  // namespace internal

namespace {

constexpr std::array<ApiResource, 5> kKueue{{
    {"kueue.x-k8s.io", {"v1beta2", "v1beta1"}, "clusterqueues", "ClusterQueue"},
    {"kueue.x-k8s.io", {"v1beta2", "v1beta1"}, "localqueues", "LocalQueue"},
    {"kueue.x-k8s.io", {"v1beta2", "v1beta1"}, "cohorts", "Cohort"},
    {"kueue.x-k8s.io", {"v1beta2", "v1beta1"}, "resourceflavors", "ResourceFlavor"},
    {"kueue.x-k8s.io", {"v1beta2", "v1beta1"}, "topologies", "Topology"},
}};
constexpr std::array<ApiResource, 2> kVolcano{{
    {"scheduling.volcano.sh", {"v1beta1"}, "queues", "Queue"},
    {"", {"v1"}, "namespaces", "Namespace"},
}};
constexpr std::array<ApiResource, 3> kKai{{
    {"scheduling.run.ai", {"v2"}, "queues", "Queue"},
    {"kai.scheduler", {"v1alpha1"}, "topologies", "Topology"},
    {"", {"v1"}, "namespaces", "Namespace"},
}};

struct PeerRow {
  std::string_view name;
  std::span<const ApiResource> resources;
  void (*import)(const std::vector<internal::Json>&, internal::ImportDraft&);
};

// In the order of Peer.
const std::array<PeerRow, 3>& Peers() {
  static const std::array<PeerRow, 3> kPeers{{
      {"kueue", kKueue, internal::ImportKueue},
      {"volcano", kVolcano, internal::ImportVolcano},
      {"kai", kKai, internal::ImportKai},
  }};
  return kPeers;
}

const PeerRow& RowOf(Peer peer) { return Peers()[static_cast<std::size_t>(peer)]; }

}  // namespace

std::optional<Peer> PeerNamed(std::string_view name) {
  const auto it = std::ranges::find(Peers(), name, &PeerRow::name);
  if (it == Peers().end()) return std::nullopt;
  return static_cast<Peer>(it - Peers().begin());
}

std::span<const ApiResource> ResourcesOf(Peer peer) { return RowOf(peer).resources; }

std::expected<std::string, std::string> Import(Peer peer, const std::vector<Manifest>& objects,
                                               std::string_view source) {
  std::vector<internal::Json> parsed;
  for (const Manifest& object : objects) {
    internal::Json json = internal::Json::parse(object.json, nullptr, /*allow_exceptions=*/false);
    if (json.is_object()) parsed.push_back(std::move(json));
  }
  internal::ImportDraft draft;
  RowOf(peer).import(parsed, draft);
  if (draft.queues().empty()) {
    return std::unexpected(fmt::format("{}: no {} of {}", source,
                                       RowOf(peer).resources.front().kind,
                                       RowOf(peer).resources.front().group));
  }
  return draft.ToYaml(
      fmt::format("Imported by `berth import {}` from {}. Comments name the settings that have no "
                  "equivalent in Berth.",
                  RowOf(peer).name, source));
}

}  // namespace berth::config
