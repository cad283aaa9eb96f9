// Resource names as dense ids, and amounts indexed by them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kube/objects.h"

namespace berth::cluster {

using ResourceId = std::uint32_t;

inline constexpr ResourceId kCpu = 0;
inline constexpr ResourceId kMemory = 1;
inline constexpr ResourceId kPods = 3;  ///< 2 is ephemeral-storage, which no code asks for by name.
/// Any resource that neither the policy nor a node has ever named: no node has any of it.
inline constexpr ResourceId kUnknownResource = 4;
inline constexpr std::int64_t kMilli = 1000;  ///< One whole device, or one core.
/// No node has this much of any resource, and cluster-wide sums of such requests do not overflow.
inline constexpr std::int64_t kAbsurdAmount = std::int64_t{1} << 46U;

/// What the ledger of queues counts of a resource beside the whole of it: no node has it, and no
/// pod asks for it by name.
struct Part {
  ResourceId whole;              ///< The resource itself.
  std::string flavor{};          ///< Only on nodes of this flavor; empty: on any.
  bool non_preemptible = false;  ///< Only what pods hold that may not be evicted.
  bool operator==(const Part&) const = default;
};

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

  /// The id of a part of a resource. Its name is for people, and no resource has one like it: it
  /// has spaces.
  ResourceId InternPart(const Part& part) {
    const auto key = std::tuple(part.whole, part.flavor, part.non_preemptible);
    if (const auto it = part_ids_.find(key); it != part_ids_.end()) return it->second;
    std::string name = names_[part.whole];
    if (!part.flavor.empty()) name += " of flavor " + part.flavor;
    if (part.non_preemptible) name += " for non-preemptible work";
    const ResourceId id = Intern(name);
    part_ids_.emplace(key, id);
    parts_.emplace(id, part);
    return id;
  }
  /// null: it is no part, but a resource.
  const Part* FindPart(ResourceId id) const {
    const auto it = parts_.find(id);
    return it == parts_.end() ? nullptr : &it->second;
  }

  /// The id of a resource that a node names. nullopt: there are kMaxOfNodes names already, and this
  /// one is not counted at all.
  std::optional<ResourceId> InternOfNode(std::string_view name) {
    if (name == kUnknown || name.contains(' ')) return std::nullopt;  // see InternPart
    if (const auto id = Find(name)) return id;
    if (names_.size() - parts_.size() >= kMaxOfNodes) return std::nullopt;
    return Intern(name);
  }

  /// The id of a resource that a pod names. Any user may invent names there, so they get no ids:
  /// tables by id stay as narrow as the resources that the cluster has.
  ResourceId OfPod(std::string_view name) {
    if (const auto id = Find(name); id && !name.contains(' ')) return *id;
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
  std::map<std::tuple<ResourceId, std::string, bool>, ResourceId> part_ids_;
  std::map<ResourceId, Part> parts_;
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
