#include "engine/active_queue.h"

#include <tuple>

namespace berth::engine {

using cluster::QueueId;
using cluster::Workload;

bool ActiveQueue::Place::operator<(const Place& other) const {
  return std::tie(descending_priority, since, workload->key) <
         std::tie(other.descending_priority, other.since, other.workload->key);
}

bool ActiveQueue::Head::operator<(const Head& other) const {
  return std::tie(since, workload->key, queue) <
         std::tie(other.since, other.workload->key, other.queue);
}

ActiveQueue::Place ActiveQueue::PlaceOf(const Workload& workload, const Turn& turn) {
  return {.descending_priority = -std::int64_t{turn.priority},
          .since = turn.since,
          .workload = &workload};
}

ActiveQueue::Head ActiveQueue::HeadOf(QueueId queue, const Line& line) {
  const Place& first = *line.begin();
  return {.since = first.since, .workload = first.workload, .queue = queue};
}

template <typename Change>
void ActiveQueue::ChangeLine(QueueId queue, const Change& change) {
  Line& line = lines_[queue];
  if (!line.empty()) heads_.erase(HeadOf(queue, line));
  change(line);
  if (line.empty()) {
    lines_.erase(queue);
  } else {
    heads_.insert(HeadOf(queue, line));
  }
}

void ActiveQueue::Put(const Workload& workload, const Turn& turn) {
  Rest(workload);
  turns_.emplace(&workload, turn);
  const Place place = PlaceOf(workload, turn);
  if (turn.broken) {
    broken_.insert(place);
  } else {
    ChangeLine(turn.queue, [&](Line& line) { line.insert(place); });
  }
}

void ActiveQueue::Rest(const Workload& workload) {
  LeaveLine(workload);
  awake_.erase(&workload);
}

void ActiveQueue::KeepAwake(const Workload& workload) {
  LeaveLine(workload);
  awake_.insert(&workload);
}

void ActiveQueue::LeaveLine(const Workload& workload) {
  const auto it = turns_.find(&workload);
  if (it == turns_.end()) return;
  const Turn turn = it->second;
  turns_.erase(it);
  const Place place = PlaceOf(workload, turn);
  if (turn.broken) {
    broken_.erase(place);
  } else {
    ChangeLine(turn.queue, [&](Line& line) { line.erase(place); });
  }
}

const Workload* ActiveQueue::Pop() {
  if (turns_.empty()) return nullptr;
  const Workload* next = broken_.empty() ? heads_.begin()->workload : broken_.begin()->workload;
  KeepAwake(*next);
  return next;
}

std::vector<const Workload*> ActiveQueue::Awake(std::string_view after, std::size_t most) {
  std::vector<const Workload*> awake;
  for (auto it = awake_.upper_bound(after); it != awake_.end() && awake.size() < most;) {
    if ((*it)->AllBound()) {
      it = awake_.erase(it);
    } else {
      awake.push_back(*it++);
    }
  }
  return awake;
}

}  // namespace berth::engine
