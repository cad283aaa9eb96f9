// Pods that hold room and refuse neighbours (required anti-affinity), indexed by the namespaces
// that they can concern: a term that names no namespaces selects only pods of its own namespace.
#pragma once

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "cluster/model.h"

namespace berth::cluster {

/// The pods with required anti-affinity, by the namespaces that their terms are about.
class Repellers {
 public:
  /// Pods of one namespace and one spec: their terms are the same.
  using Alike = std::set<const PodInfo*>;

  void Add(const PodInfo& pod) {
    const std::string& ns = pod.object.meta.ns;
    const bool anywhere = std::ranges::any_of(
        pod.object.spec->required_pod_anti_affinity, [](const kube::PodAffinityTerm& term) {
          return !term.namespaces.empty() || term.namespace_selector.has_value();
        });
    scopes_[anywhere ? kAnywhere : ns][{ns, pod.object.spec}].insert(&pod);
  }

  /// The pod's spec may be another object than when it was added.
  void Remove(const PodInfo& pod) {
    for (const std::string& scope : {pod.object.meta.ns, kAnywhere}) {
      const auto it = scopes_.find(scope);
      if (it == scopes_.end()) continue;
      for (auto kind = it->second.begin(); kind != it->second.end();) {
        const bool last = kind->second.erase(&pod) > 0 && kind->second.empty();
        kind = last ? it->second.erase(kind) : std::next(kind);
      }
      if (it->second.empty()) scopes_.erase(it);
    }
  }

  bool empty() const { return scopes_.empty(); }

  /// Whether `holds(alike)` is true for any that can concern pods of `ns`. In no particular order.
  template <typename Holds>
  bool AnyOf(const std::string& ns, Holds holds) const {
    return std::ranges::any_of(std::array{&ns, &kAnywhere}, [&](const std::string* scope) {
      const auto it = scopes_.find(*scope);
      return it != scopes_.end() && std::ranges::any_of(it->second, [&](const auto& entry) {
               return holds(entry.second);
             });
    });
  }

 private:
  inline static const std::string kAnywhere;  ///< No namespace has this name.

  std::map<std::string,
           std::map<std::pair<std::string, std::shared_ptr<const kube::PodSpec>>, Alike>>
      scopes_;
};

}  // namespace berth::cluster
