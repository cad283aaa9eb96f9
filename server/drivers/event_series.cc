#include "server/drivers/event_series.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace berth::server {

/// Takes one token from the namespace's bucket.
bool EventSeries::Spend(const std::string& ns, kube::MicroTime now) {
  if (budgets_.size() >= kMaxNamespaces) budgets_.clear();
  const auto [it, fresh] = budgets_.try_emplace(ns);
  Budget& budget = it->second;
  if (!fresh && now > budget.at) {
    const std::chrono::duration<double> passed = now - budget.at;
    budget.left = std::min(kBurst, budget.left + passed.count() * kPerSecond);
  }
  budget.at = std::max(budget.at, now);
  if (budget.left < 1) return false;
  budget.left -= 1;
  return true;
}

std::variant<EventWrite, EventHeld> EventSeries::Take(const engine::EmitEvent& event,
                                                      kube::MicroTime now) {
  const std::string key = event.pod.uid + "/" + event.reason;
  const auto known = series_.find(key);
  if (known != series_.end()) {
    Series& series = known->second;
    ++series.count;
    if (now - series.last < kPause) return EventHeld::kAggregated;
    series.last = now;
    return EventWrite{.record = series.record, .count = series.count};
  }
  if (!Spend(event.pod.ns, now)) return EventHeld::kLimited;
  if (series_.size() >= kMaxSeries) series_.clear();
  Series series{.record = {.name = fmt::format("{}.{:x}", event.pod.name.substr(0, 200),
                                               now.time_since_epoch().count()),
                           .regarding = {.ns = event.pod.ns,
                                         .name = event.pod.name,
                                         .uid = event.pod.uid,
                                         .resource_version = {}},
                           .warning = event.warning,
                           .action = "Scheduling",
                           .reason = event.reason,
                           .note = event.note,
                           .time = now},
                .count = 1,
                .last = now};
  const auto& added = series_.emplace(key, std::move(series)).first->second;
  return EventWrite{.record = added.record, .count = 1};
}

}  // namespace berth::server
