#include "sim/world/scheduler_queue.h"

#include <algorithm>
#include <vector>

namespace berth::sim {

SchedulingQueue::ActiveKey SchedulingQueue::KeyOf(const std::string& uid, const Entry& entry) {
  return {-std::int64_t{entry.pod->priority}, entry.timestamp, entry.sequence, uid};
}

void SchedulingQueue::TakeOut(const std::string& uid, const Entry& entry) {
  switch (entry.place) {
    case Place::kActive:
      active_.erase(KeyOf(uid, entry));
      break;
    case Place::kBackoff:
      backoff_.erase({entry.due, entry.sequence, uid});
      break;
    case Place::kErrorBackoff:
      error_backoff_.erase({entry.due, entry.sequence, uid});
      break;
    case Place::kAsleep:
      asleep_.erase(uid);
      break;
    case Place::kGated:
    case Place::kInFlight:
      break;
  }
}

void SchedulingQueue::Put(const std::string& uid, Entry& entry, Place place) {
  TakeOut(uid, entry);
  entry.place = place;
  if (place == Place::kActive) active_.insert(KeyOf(uid, entry));
  if (place == Place::kBackoff) backoff_.insert({entry.due, entry.sequence, uid});
  if (place == Place::kErrorBackoff) error_backoff_.insert({entry.due, entry.sequence, uid});
  if (place == Place::kAsleep) asleep_.insert(uid);
}

/// timestamp + initial * 2^(attempts-1), at most max; flushed on whole seconds.
TimePoint SchedulingQueue::BackoffEnd(const Entry& entry) const {
  Duration backoff = options_.initial_backoff;
  for (int i = 1; i < entry.attempts && backoff < options_.max_backoff; ++i) backoff *= 2;
  const TimePoint end = entry.timestamp + std::min(backoff, options_.max_backoff);
  return (end + 999) / 1000 * 1000;
}

void SchedulingQueue::Wake(const std::string& uid, Entry& entry) {
  entry.due = BackoffEnd(entry);
  Put(uid, entry, entry.due > timeline_.now() ? Place::kBackoff : Place::kActive);
}

void SchedulingQueue::Update(const std::shared_ptr<const kube::Pod>& pod, bool wakes) {
  const std::string& uid = pod->meta.uid;
  const auto [it, fresh] = entries_.try_emplace(uid);
  Entry& entry = it->second;
  if (!fresh) {
    TakeOut(uid, entry);  // its key holds the old priority
    ForgetNomination(uid, entry);
  }
  entry.pod = pod;
  if (!pod->nominated_node.empty()) nominated_.emplace(pod->nominated_node, uid);
  if (!fresh && entry.place != Place::kGated) {
    if (entry.place == Place::kInFlight) {
      entry.moved |= wakes;
    } else if (entry.place == Place::kAsleep && wakes) {
      Wake(uid, entry);
    } else {
      Put(uid, entry, entry.place);
    }
    return;
  }
  if (!pod->scheduling_gates.empty()) return;
  entry.timestamp = timeline_.now();
  entry.sequence = ++sequence_;
  Put(uid, entry, Place::kActive);
}

void SchedulingQueue::Delete(const std::string& uid) {
  const auto it = entries_.find(uid);
  if (it == entries_.end()) return;
  TakeOut(uid, it->second);
  ForgetNomination(uid, it->second);
  entries_.erase(it);
}

void SchedulingQueue::ForgetNomination(const std::string& uid, const Entry& entry) {
  const auto [from, to] = nominated_.equal_range(entry.pod->nominated_node);
  const auto it = std::find_if(from, to, [&uid](const auto& pair) { return pair.second == uid; });
  if (it != to) nominated_.erase(it);
}

void SchedulingQueue::Flush() {
  for (auto* line : {&backoff_, &error_backoff_}) {
    while (!line->empty() && std::get<0>(*line->begin()) <= timeline_.now()) {
      const std::string uid = std::get<2>(*line->begin());
      Put(uid, entries_.at(uid), Place::kActive);
    }
  }
  // Every 30 s, those that sleep for longer than 5 minutes.
  std::vector<std::string> leftover;
  for (const std::string& uid : asleep_) {
    const TimePoint since = entries_.at(uid).timestamp + options_.leftover_after;
    const TimePoint flush = (since / options_.leftover_every + 1) * options_.leftover_every;
    if (flush <= timeline_.now()) leftover.push_back(uid);
  }
  for (const std::string& uid : leftover) Wake(uid, entries_.at(uid));
}

std::shared_ptr<const kube::Pod> SchedulingQueue::Pop() {
  Flush();
  std::string uid;
  if (!active_.empty()) {
    uid = std::get<3>(*active_.begin());
  } else if (!backoff_.empty()) {
    uid = std::get<2>(*backoff_.begin());
  } else {
    return nullptr;
  }
  Entry& entry = entries_.at(uid);
  Put(uid, entry, Place::kInFlight);
  entry.moved = false;
  ++entry.attempts;
  return entry.pod;
}

std::optional<TimePoint> SchedulingQueue::NextDue() const {
  if (!active_.empty() || !backoff_.empty()) return timeline_.now();
  std::optional<TimePoint> due;
  if (!error_backoff_.empty()) due = std::get<0>(*error_backoff_.begin());
  for (const std::string& uid : asleep_) {
    const TimePoint since = entries_.at(uid).timestamp + options_.leftover_after;
    const TimePoint flush = (since / options_.leftover_every + 1) * options_.leftover_every;
    due = due ? std::min(*due, flush) : flush;
  }
  return due;
}

void SchedulingQueue::Failed(const std::string& uid, bool error, bool by_extender) {
  const auto it = entries_.find(uid);
  if (it == entries_.end()) return;
  Entry& entry = it->second;
  entry.by_extender = by_extender;
  entry.timestamp = timeline_.now();
  entry.sequence = ++sequence_;
  if (error) {
    entry.due = BackoffEnd(entry);
    Put(uid, entry, Place::kErrorBackoff);
  } else if (entry.moved) {
    Wake(uid, entry);
  } else {
    Put(uid, entry, Place::kAsleep);
  }
}

void SchedulingQueue::Move(ClusterEvent event) {
  const auto helps = [event](const Entry& entry) {
    return entry.by_extender || event == ClusterEvent::kAssignedPodDelete ||
           event == ClusterEvent::kNodeChange;
  };
  for (const std::string& uid : std::vector<std::string>(asleep_.begin(), asleep_.end())) {
    Entry& entry = entries_.at(uid);
    if (helps(entry)) Wake(uid, entry);
  }
  for (auto& [uid, entry] : entries_) {
    if (entry.place == Place::kInFlight) entry.moved = true;
  }
}

bool SchedulingQueue::InFlight(const std::string& uid) const {
  const auto it = entries_.find(uid);
  return it != entries_.end() && it->second.place == Place::kInFlight;
}

std::shared_ptr<const kube::Pod> SchedulingQueue::Find(const std::string& uid) const {
  const auto it = entries_.find(uid);
  return it == entries_.end() ? nullptr : it->second.pod;
}

}  // namespace berth::sim
