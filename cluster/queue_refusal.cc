#include "cluster/queue_refusal.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

namespace berth::cluster {
namespace {

/// The first few of them.
std::string Few(std::span<const std::string> names) {
  constexpr std::size_t kNamed = 5;
  if (names.empty()) return "none";
  std::string text =
      fmt::format("{}", fmt::join(names.first(std::min(kNamed, names.size())), ", "));
  if (names.size() > kNamed) text += fmt::format(" and {} more", names.size() - kNamed);
  return text;
}

/// The queues that admit `ns`, the first few by name; empty: none does.
std::string Admitting(std::span<const config::Queue> queues, std::string_view ns) {
  std::vector<std::string> names;
  for (const config::Queue& queue : queues) {
    if (Admits(queue, ns)) names.push_back(queue.name);
  }
  return names.empty() ? "" : Few(names);
}

}  // namespace

bool Admits(const config::Queue& queue, std::string_view ns) {
  return queue.namespaces && std::ranges::any_of(*queue.namespaces, [ns](const std::string& name) {
           return name == "*" || name == ns;
         });
}

bool KnowsClass(const config::PolicyConfiguration& policy, std::string_view name) {
  return name.empty() || policy.classes.empty() ||
         std::ranges::find(policy.classes, name, &config::WorkloadClass::name) !=
             policy.classes.end();
}

bool IsNonPreemptible(const config::PolicyConfiguration& policy, std::string_view name) {
  const auto found = std::ranges::find(policy.classes, name, &config::WorkloadClass::name);
  return found != policy.classes.end() && !found->preemptible;
}

std::string WorkRefusal(const config::Queue& queue, const Work& work) {
  const auto lists = [](const std::vector<std::string>& names, std::string_view name) {
    return std::ranges::find(names, name) != names.end();
  };
  if (queue.priority_classes && !work.priority_class.empty() &&
      !lists(*queue.priority_classes, work.priority_class)) {
    return fmt::format("Queue {} does not admit the PriorityClass {}; those that it admits: {}.",
                       queue.name, work.priority_class, Few(*queue.priority_classes));
  }
  if (queue.classes && !lists(*queue.classes, work.workload_class)) {
    return work.workload_class.empty()
               ? fmt::format(
                     "Queue {} admits only pods with the label berth.dev/class; classes that it "
                     "admits: {}.",
                     queue.name, Few(*queue.classes))
               : fmt::format("Queue {} does not admit the class {}; those that it admits: {}.",
                             queue.name, work.workload_class, Few(*queue.classes));
  }
  if (work.non_preemptible && !queue.non_preemptible) {
    return fmt::format("Queue {} does not admit non-preemptible work.", queue.name);
  }
  return "";
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
