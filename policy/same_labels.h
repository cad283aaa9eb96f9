// Whether two sets of labels agree in the keys that matter.
#pragma once

#include <algorithm>
#include <set>
#include <string>

#include "kube/objects.h"

namespace berth::policy {

/// Each of `keys` is in both with the same value, or in neither.
inline bool SameLabels(const std::set<std::string>& keys, const kube::StringMap& a,
                       const kube::StringMap& b) {
  return std::ranges::all_of(keys, [&](const std::string& key) {
    const auto in_a = a.find(key);
    const auto in_b = b.find(key);
    if (in_a == a.end() || in_b == b.end()) return (in_a == a.end()) == (in_b == b.end());
    return in_a->second == in_b->second;
  });
}

}  // namespace berth::policy
