#include "cluster/queue_directory.h"

namespace berth::cluster {

QueueDirectory::QueueDirectory(std::span<const config::Queue> queues) {
  for (std::size_t i = 0; i < queues.size(); ++i) {
    Entry entry{.place = i};
    if (queues[i].namespaces) {
      for (const std::string& ns : *queues[i].namespaces) {
        entry.all |= ns == "*";
        entry.namespaces.insert(ns);
        by_namespace_.try_emplace(ns, i);
      }
    }
    by_name_.try_emplace(queues[i].name, std::move(entry));
  }
}

/// The queue of that name, if it admits the namespace.
std::optional<std::size_t> QueueDirectory::Admitting(std::string_view name,
                                                     std::string_view ns) const {
  const auto it = by_name_.find(name);
  if (it == by_name_.end()) return std::nullopt;
  const Entry& queue = it->second;
  return queue.all || queue.namespaces.contains(ns) ? std::optional(queue.place) : std::nullopt;
}

std::optional<std::size_t> QueueDirectory::Find(std::string_view ns, std::string_view held,
                                                std::string_view asked) const {
  if (!held.empty()) {
    if (const auto queue = Admitting(held, ns)) return queue;
  }
  if (!asked.empty()) return Admitting(asked, ns);
  const auto listing = by_namespace_.find(ns);
  return listing != by_namespace_.end() ? listing->second : Admitting("default", ns);
}

}  // namespace berth::cluster
