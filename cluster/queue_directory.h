// Which queue of a policy a pod belongs to, by its namespace and by what it asks for.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "config/policy_configuration.h"

namespace berth::cluster {

/// The queues of one policy, by name and by the namespaces that they list.
class QueueDirectory {
 public:
  QueueDirectory() = default;
  explicit QueueDirectory(std::span<const config::Queue> queues);

  /// The queue that admits a pod of the namespace `ns`: `held`, to which its Binding charged it; or
  /// `asked`, which its label names; or, where it names none, the first queue that lists the
  /// namespace, or else `default`. Empty: none. Returns the queue's place in the policy; nullopt:
  /// no queue admits the pod.
  std::optional<std::size_t> Find(std::string_view ns, std::string_view held,
                                  std::string_view asked) const;

 private:
  struct Entry {
    std::size_t place = 0;
    bool all = false;  ///< It admits every namespace.
    std::set<std::string, std::less<>> namespaces{};
  };
  std::optional<std::size_t> Admitting(std::string_view name, std::string_view ns) const;

  std::map<std::string, Entry, std::less<>> by_name_;
  /// The first queue that lists the namespace by name.
  std::map<std::string, std::size_t, std::less<>> by_namespace_;
};

}  // namespace berth::cluster
