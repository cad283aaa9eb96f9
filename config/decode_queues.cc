#include "config/decode_queues.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "config/scalars.h"
#include "kube/quantity.h"

namespace berth::config {
namespace {

/// The resources that can be counted for a queue besides devices. Not `pods`: no pod requests it.
constexpr std::array<std::string_view, 3> kNativeResources{"cpu", "memory", "ephemeral-storage"};

/// An error text; empty if queues may be measured in this resource. An extended resource that is
/// not a device is refused because it is mostly a mistake, and because pods that ask for nothing
/// else never reach Berth: a limit on it would have no effect.
std::string CheckResource(std::string_view name, std::span<const DeviceResource> devices) {
  const auto is_name = [&](const DeviceResource& device) { return device.name == name; };
  if (std::ranges::any_of(devices, is_name)) return {};
  if (std::ranges::find(kNativeResources, name) != kNativeResources.end()) return {};
  if (name.starts_with("hugepages-") && IsQualifiedName(name)) return {};
  std::vector<std::string_view> known(kNativeResources.begin(), kNativeResources.end());
  for (const DeviceResource& device : devices) known.push_back(device.name);
  const std::string_view near = Closest(name, known);
  return fmt::format(
      "not a resource of this policy{}",
      near.empty() ? ": list it under resources.devices" : fmt::format(", did you mean {}?", near));
}

std::optional<std::int64_t> ReadAmount(ErrorSink& sink, const Entry& entry) {
  const Located& at = entry.value;
  const std::optional<std::string> text = ReadText(sink, at);
  if (!text) return std::nullopt;
  const auto fail = [&](std::string message) {
    sink.Add(*at.node, at.path, std::move(message));
    return std::nullopt;
  };
  if (!at.node->quoted && text->size() > 1 && text->front() == '0' && (*text)[1] != '.') {
    return fail(fmt::format("must not begin with 0 (YAML reads {} as octal)", Quote(*text)));
  }
  const auto amount = kube::ParseFor(entry.key, *text);
  if (!amount) return fail(fmt::format("{}: {}", kube::Message(amount.error()), Quote(*text)));
  if (*amount == std::numeric_limits<std::int64_t>::max()) {
    return fail(fmt::format("too large: {}", Quote(*text)));
  }
  const bool is_device = entry.key.find('/') != std::string::npos;
  if (is_device && *amount % 1000 != 0) {
    return fail(fmt::format("must be whole devices, is {}", Quote(*text)));
  }
  return amount.value();
}

void CheckLimits(ErrorSink& sink, const kube::ResourceList& quotas,
                 const kube::ResourceList& limits, const Located& at) {
  for (const auto& [resource, limit] : limits) {
    const auto quota = quotas.find(resource);
    if (quota == quotas.end() || limit >= quota->second) continue;
    sink.Add(*at.node->Find(resource), JoinPath(at.path, resource),
             fmt::format("must not be less than the quota: {} < {}", kube::Format(resource, limit),
                         kube::Format(resource, quota->second)));
  }
}

std::optional<Located> Below(const Located& at, std::string_view key) {
  const YamlNode* node = at.node->Find(key);
  if (node == nullptr) return std::nullopt;
  return Located{.node = node, .path = JoinPath(at.path, key)};
}

/// Reports a name that is none of `known`, which are called `what`.
void CheckKnown(ErrorSink& sink, const Located& at, std::string_view name,
                const std::vector<std::string_view>& known, std::string_view what) {
  if (name.empty() || std::ranges::find(known, name) != known.end()) return;
  const std::string_view near = Closest(name, known);
  sink.Add(*at.node, at.path,
           fmt::format("{} has no {}{}", what, Quote(name),
                       near.empty() ? "" : fmt::format(", did you mean {}?", near)));
}

template <typename T>
std::vector<std::string_view> NamesOf(const std::vector<T>& elements) {
  std::vector<std::string_view> names;
  for (const T& element : elements) names.push_back(element.name);
  return names;
}

void CheckFlavors(ErrorSink& sink, const Queue& queue, const Located& list,
                  const PolicyConfiguration& policy) {
  const std::vector<std::string_view> known = NamesOf(policy.flavors);
  for (std::size_t i = 0; i < queue.quotas.size(); ++i) {
    const Located entry{.node = &list.node->items[i], .path = JoinPath(list.path, i)};
    if (const auto at = Below(entry, "flavor")) {
      CheckKnown(sink, *at, queue.quotas[i].flavor, known, "flavors");
    }
    if (const auto at = Below(entry, "limit")) {
      CheckLimits(sink, queue.quotas[i].quota, queue.quotas[i].limit, *at);
    }
  }
}

void CheckClasses(ErrorSink& sink, const Located& list, const PolicyConfiguration& policy) {
  const std::vector<std::string_view> known = NamesOf(policy.classes);
  for (std::size_t i = 0; i < list.node->items.size(); ++i) {
    const Located at{.node = &list.node->items[i], .path = JoinPath(list.path, i)};
    if (at.node->kind == YamlKind::kScalar) CheckKnown(sink, at, at.node->text, known, "classes");
  }
}

/// What is not promised cannot be lent. Only devices are kept: Berth knows how many are free.
void CheckLending(ErrorSink& sink, const Queue& queue, std::span<const DeviceResource> devices,
                  const Located& at) {
  const kube::ResourceList quotas = TotalQuota(queue);
  for (const auto& [resource, most] : queue.lending_limit) {
    const auto quota = quotas.find(resource);
    const std::string_view name = resource;
    std::string error;
    if (std::ranges::find(devices, name, &DeviceResource::name) == devices.end()) {
      error = "must be a resource of resources.devices";
    } else if (quota == quotas.end()) {
      error = "has no quota that could be lent";
    } else if (most > quota->second) {
      error = fmt::format("must not be more than the quota: {} > {}", kube::Format(resource, most),
                          kube::Format(resource, quota->second));
    }
    if (error.empty()) continue;
    sink.Add(*at.node->Find(resource), JoinPath(at.path, resource), std::move(error));
  }
}

/// Everything that a queue takes is charged to each of its ancestors.
constexpr int kMaxDepth = 16;

/// Reports each cycle once, at its first queue in the file, and queues that are too deep.
class ParentCheck {
 public:
  ParentCheck(ErrorSink& sink, const std::vector<Queue>& queues, const Located& list)
      : sink_(sink), queues_(queues), list_(list) {
    // The first of two equal names: the second one is an error of its own.
    for (std::size_t i = 0; i < queues.size(); ++i) index_.emplace(queues[i].name, i);
  }

  void Run() {
    std::vector<std::size_t> seen_from(queues_.size(), kNever);
    bool cyclic = false;
    for (std::size_t start = 0; start < queues_.size(); ++start) {
      // Every queue is visited once in total: a walk ends where an earlier one has been.
      std::optional<std::size_t> queue = start;
      while (queue && seen_from[*queue] == kNever) {
        seen_from[*queue] = start;
        queue = Parent(*queue);
      }
      if (!queue || seen_from[*queue] != start) continue;
      ReportCycle(*queue);
      cyclic = true;
    }
    for (std::size_t queue = 0; !cyclic && queue < queues_.size(); ++queue) {
      if (Ancestors(queue) != kMaxDepth) continue;  // those below it are reported with it
      Add(queue, fmt::format("a tree of queues is at most {} levels deep", kMaxDepth));
    }
  }

 private:
  static constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

  std::optional<std::size_t> Parent(std::size_t queue) const {
    const auto found = index_.find(queues_[queue].parent);
    if (queues_[queue].parent.empty() || found == index_.end()) return std::nullopt;
    return found->second;
  }

  /// Counts to one more than kMaxDepth. A parent that the policy does not name is one, too.
  /// REQUIRES: no cycle.
  int Ancestors(std::size_t queue) const {
    int count = 0;
    for (auto parent = Parent(queue); parent && count <= kMaxDepth; parent = Parent(queue)) {
      ++count;
      queue = *parent;
    }
    return Parent(queue) || queues_[queue].parent.empty() ? count : count + 1;
  }

  void ReportCycle(std::size_t member) {
    std::size_t first = member;
    std::size_t length = 1;
    for (std::size_t i = *Parent(member); i != member; i = *Parent(i), ++length) {
      first = std::min(first, i);
    }
    constexpr std::size_t kMaxNamed = 8;
    std::string story = queues_[first].name;
    std::size_t at = first;
    for (std::size_t i = 0; i < std::min(length, kMaxNamed); ++i) {
      at = *Parent(at);
      story += " -> " + queues_[at].name;
    }
    Add(first, fmt::format("a queue cannot be its own ancestor: {}{}", story,
                           length > kMaxNamed ? " -> ..." : ""));
  }

  void Add(std::size_t queue, std::string message) {
    const YamlNode& at = *list_.node->items[queue].Find("parent");
    sink_.Add(at, JoinPath(JoinPath(list_.path, queue), "parent"), std::move(message));
  }

  ErrorSink& sink_;
  const std::vector<Queue>& queues_;
  const Located& list_;
  std::map<std::string_view, std::size_t> index_;
};

}  // namespace

void ReadAmounts(ErrorSink& sink, const Located& at, std::span<const DeviceResource> devices,
                 kube::ResourceList& amounts) {
  for (const Entry& entry : ReadEntries(sink, at)) {
    if (std::string error = CheckResource(entry.key, devices); !error.empty()) {
      sink.Add(*entry.key_node, entry.value.path, std::move(error));
      continue;
    }
    if (const auto amount = ReadAmount(sink, entry)) amounts[entry.key] = *amount;
  }
}

void CheckQueues(ErrorSink& sink, const Located& list, const PolicyConfiguration& policy) {
  const std::vector<Queue>& queues = policy.queues;
  for (std::size_t i = 0; i < queues.size(); ++i) {
    const Located queue{.node = &list.node->items[i], .path = JoinPath(list.path, i)};
    if (const auto at = Below(queue, "limit")) {
      CheckLimits(sink, queues[i].quota, queues[i].limit, *at);
    }
    if (const auto at = Below(queue, "lendingLimit")) {
      CheckLending(sink, queues[i], policy.devices, *at);
    }
    if (const auto at = Below(queue, "quotas")) CheckFlavors(sink, queues[i], *at, policy);
    if (const auto at = Below(queue, "classes")) CheckClasses(sink, *at, policy);
  }
  ParentCheck(sink, queues, list).Run();
}

}  // namespace berth::config
