// Resource names as dense ids, and amounts indexed by them.
#pragma once

#include <cstdint>
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
inline constexpr std::int64_t kMilli = 1000;  ///< One whole device, or one core.
/// No node has this much of anything, and sums over a cluster of such requests do not overflow.
inline constexpr std::int64_t kAbsurdAmount = std::int64_t{1} << 46U;

/// Names to ids. Ids are never re-used; the four built-in ones are fixed.
class ResourceTable {
 public:
  ResourceTable() {
    for (const char* name : {"cpu", "memory", "ephemeral-storage", "pods"}) Intern(name);
  }

  /// Of nodes and the policy, whose authors are trusted: as many as there are.
  ResourceId Intern(std::string_view name) {
    if (auto it = ids_.find(std::string(name)); it != ids_.end()) return it->second;
    const auto id = static_cast<ResourceId>(names_.size());
    names_.emplace_back(name);
    ids_.emplace(names_.back(), id);
    return id;
  }

  /// Of pods, whose names anybody may invent. From kMaxOfPods names on all new ones are one
  /// resource, which no node has.
  ResourceId InternOfPod(std::string_view name) {
    const bool full = names_.size() >= kMaxOfPods && !ids_.contains(std::string(name));
    return Intern(full ? kAnother : name);
  }
  /// A pod was told so: a name that is new from now on may be one that it asks for.
  bool overflown() const { return ids_.contains(std::string(kAnother)); }

  const std::string& Name(ResourceId id) const { return names_[id]; }
  std::size_t size() const { return names_.size(); }

 private:
  static constexpr std::size_t kMaxOfPods = 4096;
  static constexpr std::string_view kAnother = "(another)";

  std::vector<std::string> names_;
  std::unordered_map<std::string, ResourceId> ids_;
};

/// Amounts by resource id, in canonical units (kube/objects.h). What was never set is 0.
class Amounts {
 public:
  std::int64_t operator[](ResourceId id) const { return id < values_.size() ? values_[id] : 0; }
  void Set(ResourceId id, std::int64_t value) { At(id) = value; }
  void Add(ResourceId id, std::int64_t value) { At(id) += value; }
  std::size_t size() const { return values_.size(); }

  /// Equal in every resource, whatever the length.
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
