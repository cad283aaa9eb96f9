#include "cluster/queue_refusal.h"

#include <fmt/format.h>

#include <algorithm>

namespace berth::cluster {
namespace {

/// The queues that admit `ns`, the first few by name.
std::string Admitting(std::span<const config::Queue> queues, std::string_view ns) {
  constexpr int kNamed = 5;
  std::string names;
  int count = 0;
  for (const config::Queue& queue : queues) {
    if (!Admits(queue, ns) || ++count > kNamed) continue;
    names += (names.empty() ? "" : ", ") + queue.name;
  }
  if (count > kNamed) names += fmt::format(" and {} more", count - kNamed);
  return names;
}

}  // namespace

bool Admits(const config::Queue& queue, std::string_view ns) {
  return queue.namespaces && std::ranges::any_of(*queue.namespaces, [ns](const std::string& name) {
           return name == "*" || name == ns;
         });
}

std::string QueueRefusal(std::span<const config::Queue> queues, std::string_view ns,
                         std::string_view asked) {
  const std::string admitting = Admitting(queues, ns);
  if (!asked.empty()) {
    return fmt::format("Queue {} does not admit pods of namespace {}; {}.", asked, ns,
                       admitting.empty() ? "no queue does" : "those that do: " + admitting);
  }
  if (admitting.empty()) return fmt::format("No queue admits pods of namespace {}.", ns);
  return fmt::format(
      "No queue lists namespace {} by name, and there is no queue default that admits it: name a "
      "queue with the label berth.dev/queue. Those that admit it: {}.",
      ns, admitting);
}

}  // namespace berth::cluster
