#include "engine/eviction_texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <ranges>
#include <set>

namespace berth::engine {

using cluster::PodInfo;
using cluster::Workload;

namespace {

std::string QueueName(const cluster::Store& store, cluster::QueueId queue) {
  return queue == cluster::kNoQueue ? std::string() : store.queue(queue).config.name;
}

}  // namespace

const char* EvictionReason(cluster::QueueId victims, const Workload& workload) {
  return victims != workload.queue ? "Reclaimed" : "Preempted";
}

std::string WhyEvicted(const cluster::Store& store, const PodInfo& victim, const Workload& workload,
                       bool surplus) {
  const std::string queue = QueueName(store, workload.queue);
  const std::string why =
      victim.charged_queue != workload.queue
          ? fmt::format(
                "queue {} takes back what queue {} uses above its quota and its fair share.", queue,
                QueueName(store, victim.charged_queue))
          : fmt::format(
                "work of priority {} in queue {} takes its room, and this work has priority {}.",
                workload.priority, queue, victim.object.priority);
  return surplus ? why + " Its gang goes on with its minimum." : why;
}

EmitEvent EvictionEvent(const cluster::Store& store, const PodInfo& victim,
                        const Workload& workload, bool surplus) {
  const auto& meta = victim.object.meta;
  return {.pod = {meta.ns, meta.name, meta.uid},
          .warning = true,
          .reason = EvictionReason(victim.charged_queue, workload),
          .note = "Evicted: " + WhyEvicted(store, victim, workload, surplus)};
}

std::string WhoEnds(const cluster::Store& store, const Workload& workload,
                    const std::vector<const PodInfo*>& pods) {
  if (pods.empty()) return {};
  constexpr std::size_t kMostQueues = 3;
  std::set<std::string> others;
  for (const PodInfo* pod : pods) {
    if (pod->charged_queue == workload.queue || pod->charged_queue == cluster::kNoQueue) continue;
    others.insert(store.queue(pod->charged_queue).config.name);
  }
  const auto own = std::ranges::count(pods, workload.queue, &PodInfo::charged_queue);
  const auto count = [](std::ptrdiff_t number) {
    return number == 1 ? "1 pod" : fmt::format("{} pods", number);
  };
  const char* const verb = pods.size() == 1 ? "is" : "are";
  if (others.empty()) {
    return fmt::format("It preempts work of lower priority in its queue: {} {} to be evicted.",
                       count(std::ssize(pods)), verb);
  }
  std::string names;
  for (const std::string& name : others | std::views::take(kMostQueues)) {
    names += fmt::format("{}queue {}", names.empty() ? "" : ", ", name);
  }
  if (others.size() > kMostQueues)
    names += fmt::format(" and {} more", others.size() - kMostQueues);
  const std::string beside =
      own == 0 ? "" : fmt::format(", and {} of lower priority in its own queue,", count(own));
  return fmt::format(
      "Its queue takes back what is used above quota and fair share in {}: {}{} {} to be evicted.",
      names, count(std::ssize(pods) - own), beside, verb);
}

}  // namespace berth::engine
