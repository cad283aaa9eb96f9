// Resource names as dense ids, and amounts indexed by them.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kube/objects.h"

namespace berth::cluster {

using ResourceId = std::uint32_t;

inline constexpr ResourceId kCpu = 0;
inline constexpr ResourceId kMemory = 1;
inline constexpr ResourceId kEphemeralStorage = 2;
inline constexpr ResourceId kPods = 3;
/// Any resource that neither the policy nor a node has ever named: no node has any of it.
inline constexpr ResourceId kUnknownResource = 4;
inline constexpr std::int64_t kMilli = 1000;  ///< One whole device, or one core.
/// No node has this much of any resource, and cluster-wide sums of such requests do not overflow.
inline constexpr std::int64_t kAbsurdAmount = std::int64_t{1} << 46U;

/// Names to ids. Ids are never re-used; the built-in ones are fixed.
class ResourceTable {
 public:
  static constexpr std::size_t kMaxOfNodes = 4096;

  ResourceTable() {
    for (const char* name : {"cpu", "memory", "ephemeral-storage", "pods", kUnknown}) Intern(name);
  }

  /// The id of a resource that the policy names.
  ResourceId Intern(std::string_view name) {
    if (const auto id = Find(name)) return *id;
    const auto id = static_cast<ResourceId>(names_.size());
    names_.emplace_back(name);
    ids_.emplace(names_.back(), id);
    return id;
  }

  /// The id of a resource that a node names. nullopt: there are kMaxOfNodes names already, and this
  /// one is not counted at all.
  std::optional<ResourceId> InternOfNode(std::string_view name) {
    if (name == kUnknown) return std::nullopt;
    if (const auto id = Find(name)) return id;
    if (names_.size() >= kMaxOfNodes) return std::nullopt;
    return Intern(name);
  }

  /// The id of a resource that a pod names. Any user may invent names there, so they get no ids:
  /// tables by id stay as narrow as the resources that the cluster has.
  ResourceId OfPod(std::string_view name) {
    if (const auto id = Find(name)) return *id;
    if (asked_.size() < kMaxAsked) asked_.emplace(name);
    return kUnknownResource;
  }
  /// Whether a pod may have asked for `name` before it had an id.
  bool WasAskedFor(std::string_view name) const {
    return asked_.size() >= kMaxAsked || asked_.contains(name);
  }

  /// nullopt: it has no id yet.
  std::optional<ResourceId> Find(std::string_view name) const {
    const auto it = ids_.find(std::string(name));
    return it == ids_.end() ? std::nullopt : std::optional(it->second);
  }
  const std::string& Name(ResourceId id) const { return names_[id]; }
  std::size_t size() const { return names_.size(); }

 private:
  static constexpr std::size_t kMaxAsked = 4096;
  static constexpr const char* kUnknown = "(unknown)";

  std::vector<std::string> names_;
  std::unordered_map<std::string, ResourceId> ids_;
  std::set<std::string, std::less<>> asked_;
};

/// Amounts by resource id, in canonical units (kube/objects.h). A resource that was never set is 0.
class Amounts {
 public:
  std::int64_t operator[](ResourceId id) const { return id < values_.size() ? values_[id] : 0; }
  void Set(ResourceId id, std::int64_t value) { At(id) = value; }
  void Add(ResourceId id, std::int64_t value) { At(id) += value; }
  std::size_t size() const { return values_.size(); }

  /// Equal in every resource; the lengths may differ.
  friend bool operator==(const Amounts& a, const Amounts& b) {
    const auto n = static_cast<ResourceId>(std::max(a.size(), b.size()));
    for (ResourceId id = 0; id < n; ++id) {
      if (a[id] != b[id]) return false;
    }
    return true;
  }

 private:
  std::int64_t& At(ResourceId id) {
    if (id >= values_.size()) values_.resize(id + 1U, 0);
    return values_[id];
  }

  std::vector<std::int64_t> values_;
};

/// What one pod takes: few resources, sorted by id, every amount above 0.
using Demand = std::vector<std::pair<ResourceId, std::int64_t>>;

}  // namespace berth::cluster
