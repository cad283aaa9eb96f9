#include "sim/scheduler/scheduler_queue.h"

#include <algorithm>

namespace berth::sim {

SchedulingQueue::ActiveKey SchedulingQueue::KeyOf(const std::string& uid, const Entry& entry) {
  return {-std::int64_t{entry.pod->priority}, entry.timestamp, entry.sequence, uid};
}

SchedulingQueue::DueKey SchedulingQueue::DueOf(const std::string& uid, const Entry& entry) {
  return {entry.due, KeyOf(uid, entry)};
}

void SchedulingQueue::TakeOut(const std::string& uid, const Entry& entry) {
  switch (entry.place) {
    case Place::kActive:
      active_.erase(KeyOf(uid, entry));
      break;
    case Place::kBackoff:
      backoff_.erase(DueOf(uid, entry));
      break;
    case Place::kErrorBackoff:
      error_backoff_.erase(DueOf(uid, entry));
      break;
    case Place::kAsleep:
      asleep_.erase({entry.timestamp, uid});
      break;
    case Place::kInFlight:
      in_flight_.erase(uid);
      break;
    case Place::kGated:
      break;
  }
}

void SchedulingQueue::Put(const std::string& uid, Entry& entry, Place place) {
  TakeOut(uid, entry);
  entry.place = place;
  if (place == Place::kActive) active_.insert(KeyOf(uid, entry));
  if (place == Place::kBackoff) backoff_.insert(DueOf(uid, entry));
  if (place == Place::kErrorBackoff) error_backoff_.insert(DueOf(uid, entry));
  if (place == Place::kAsleep) asleep_.emplace(entry.timestamp, uid);
  if (place == Place::kInFlight) in_flight_.insert(uid);
}

/// timestamp + initial * 2^(failures-1), at most max. The backoff is over at the end of the second
/// in which that time lies.
TimePoint SchedulingQueue::BackoffEnd(const Entry& entry) const {
  Duration backoff = options_.initial_backoff;
  const int failures = entry.errors > 0 ? entry.errors : entry.unschedulable;
  for (int i = 1; i < failures && backoff < options_.max_backoff; ++i) backoff *= 2;
  const TimePoint end = entry.timestamp + std::min(backoff, options_.max_backoff);
  return (end / 1000 + 1) * 1000;
}

void SchedulingQueue::Wake(const std::string& uid, Entry& entry) {
  entry.due = BackoffEnd(entry);
  Put(uid, entry, entry.due > timeline_.now() ? Place::kBackoff : Place::kActive);
}

void SchedulingQueue::Update(const std::shared_ptr<const kube::Pod>& pod) {
  const std::string& uid = pod->meta.uid;
  const auto [it, fresh] = entries_.try_emplace(uid);
  Entry& entry = it->second;
  if (!fresh) TakeOut(uid, entry);  // its key contains the old priority
  // An update without a nomination does not clear one that was just made.
  const bool known =
      !pod->nominated_node.empty() || (entry.pod != nullptr && !entry.pod->nominated_node.empty());
  entry.pod = pod;
  if (known) Nominate(uid, entry, pod->nominated_node);
  if (fresh) {
    entry.timestamp = timeline_.now();
    entry.sequence = ++sequence_;
  }
  const ClusterEvent update{.what = ClusterEvent::What::kPodUpdate};
  if (entry.place == Place::kGated) {
    if (pod->scheduling_gates.empty()) Put(uid, entry, Place::kActive);
  } else if (entry.place == Place::kInFlight) {
    Put(uid, entry, Place::kInFlight);
    Happened(update);
  } else if (entry.place == Place::kAsleep && MayHelp(update, *pod, entry.rejectors)) {
    Wake(uid, entry);
  } else {
    Put(uid, entry, entry.place);
  }
}

void SchedulingQueue::Delete(const std::string& uid) {
  const auto it = entries_.find(uid);
  if (it == entries_.end()) return;
  TakeOut(uid, it->second);
  Nominate(uid, it->second, "");
  entries_.erase(it);
}

/// Empty `node`: removes the nomination.
void SchedulingQueue::Nominate(const std::string& uid, Entry& entry, const std::string& node) {
  const auto [from, to] = nominated_.equal_range(entry.nominated);
  const auto it = std::find_if(from, to, [&uid](const auto& pair) { return pair.second == uid; });
  if (it != to) nominated_.erase(it);
  entry.nominated = node;
  if (!node.empty()) nominated_.emplace(node, uid);
}

/// When a pod that is unschedulable since `timestamp` is tried again in any case: pods that have
/// waited for more than 5 minutes are looked for every 30 s.
TimePoint SchedulingQueue::LeftoverAt(TimePoint timestamp) const {
  const TimePoint since = timestamp + options_.leftover_after;
  return (since / options_.leftover_every + 1) * options_.leftover_every;
}

void SchedulingQueue::Flush() {
  for (auto* line : {&backoff_, &error_backoff_}) {
    while (!line->empty() && line->begin()->first <= timeline_.now()) {
      const std::string uid = std::get<3>(line->begin()->second);
      Put(uid, entries_.at(uid), Place::kActive);
    }
  }
  while (!asleep_.empty() && LeftoverAt(asleep_.begin()->first) <= timeline_.now()) {
    const std::string uid = asleep_.begin()->second;
    Wake(uid, entries_.at(uid));
  }
}

std::shared_ptr<const kube::Pod> SchedulingQueue::Pop() {
  Flush();
  std::string uid;
  if (!active_.empty()) {
    uid = std::get<3>(*active_.begin());
  } else if (!backoff_.empty()) {
    uid = std::get<3>(backoff_.begin()->second);
  } else {
    return nullptr;
  }
  Entry& entry = entries_.at(uid);
  Put(uid, entry, Place::kInFlight);
  entry.events.clear();
  return entry.pod;
}

std::optional<TimePoint> SchedulingQueue::NextDue() const {
  if (!active_.empty() || !backoff_.empty()) return timeline_.now();
  std::optional<TimePoint> due;
  if (!error_backoff_.empty()) due = error_backoff_.begin()->first;
  if (asleep_.empty()) return due;
  const TimePoint leftover = LeftoverAt(asleep_.begin()->first);
  return due ? std::min(*due, leftover) : leftover;
}

void SchedulingQueue::Failed(const std::string& uid, Rejectors rejectors,
                             const std::optional<std::string>& nominate) {
  const auto it = entries_.find(uid);
  if (it == entries_.end()) return;
  Entry& entry = it->second;
  entry.rejectors = rejectors;
  entry.timestamp = timeline_.now();
  entry.sequence = ++sequence_;
  if (nominate) Nominate(uid, entry, *nominate);
  if (rejectors == 0) {
    ++entry.errors;
    entry.due = BackoffEnd(entry);
    return Put(uid, entry, Place::kErrorBackoff);
  }
  ++entry.unschedulable;
  entry.errors = 0;
  const bool woken = std::ranges::any_of(entry.events, [&entry](const ClusterEvent& event) {
    return MayHelp(event, *entry.pod, entry.rejectors);
  });
  if (woken) return Wake(uid, entry);
  Put(uid, entry, Place::kAsleep);
}

void SchedulingQueue::Move(const ClusterEvent& event) {
  std::vector<std::string> helped;
  for (const auto& [since, uid] : asleep_) {
    const Entry& entry = entries_.at(uid);
    if (entry.pod->priority > event.up_to_priority) continue;
    if (MayHelp(event, *entry.pod, entry.rejectors)) helped.push_back(uid);
  }
  for (const std::string& uid : helped) Wake(uid, entries_.at(uid));
  Happened(event);
}

/// Pods in flight get the event when their attempt has failed.
void SchedulingQueue::Happened(const ClusterEvent& event) {
  for (const std::string& uid : in_flight_) entries_.at(uid).events.push_back(event);
}

bool SchedulingQueue::InFlight(const std::string& uid) const {
  const auto it = entries_.find(uid);
  return it != entries_.end() && it->second.place == Place::kInFlight;
}

std::vector<std::shared_ptr<const kube::Pod>> SchedulingQueue::Ungated() const {
  std::vector<std::shared_ptr<const kube::Pod>> pods;
  for (const auto& [uid, entry] : entries_) {
    if (entry.place != Place::kGated) pods.push_back(entry.pod);
  }
  std::ranges::sort(pods, {}, [](const auto& pod) { return pod->meta.uid; });
  return pods;
}

std::shared_ptr<const kube::Pod> SchedulingQueue::Find(const std::string& uid) const {
  const auto it = entries_.find(uid);
  return it == entries_.end() ? nullptr : it->second.pod;
}

}  // namespace berth::sim
