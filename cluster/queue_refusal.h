// Whether a queue accepts a pod, and why none does, in text that says what would help.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "config/policy_configuration.h"

namespace berth::cluster {

/// Whether pods of namespace `ns` may use the queue.
bool Admits(const config::Queue& queue, std::string_view ns);

/// Whether the label berth.dev/class may have this value, empty for none. A policy without classes
/// ignores the label.
bool KnowsClass(const config::PolicyConfiguration& policy, std::string_view name);

/// Whether pods of that class, empty for none, may not be evicted if their own label does not say
/// it.
bool IsNonPreemptible(const config::PolicyConfiguration& policy, std::string_view name);

/// The sentence of QueueNotAllowed for a pod of namespace `ns` that asks for the queue `asked`;
/// empty: it asks for none.
std::string QueueRefusal(std::span<const config::Queue> queues, std::string_view ns,
                         std::string_view asked);

/// What a queue looks at, besides the namespace, before it admits a pod.
struct Work {
  std::string_view priority_class{};  ///< Empty: it names none.
  std::string_view workload_class{};  ///< Empty: it names none.
  bool non_preemptible = false;
};

/// Why the queue does not admit such work, as a sentence; empty: it does.
std::string WorkRefusal(const config::Queue& queue, const Work& work);

}  // namespace berth::cluster
