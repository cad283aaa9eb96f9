#include "engine/active_queue.h"

#include <tuple>

namespace berth::engine {

using cluster::QueueId;
using cluster::Workload;

bool ActiveQueue::Place::operator<(const Place& other) const {
  return std::tie(descending_priority, service, since, workload->key) <
         std::tie(other.descending_priority, other.service, other.since, other.workload->key);
}

bool ActiveQueue::Head::operator<(const Head& other) const {
  if (!(standing == other.standing)) return standing < other.standing;
  return std::tie(since, workload->key, queue) <
         std::tie(other.since, other.workload->key, other.queue);
}

ActiveQueue::Place ActiveQueue::PlaceOf(const Workload& workload, const Turn& turn) {
  return {.descending_priority = -std::int64_t{turn.priority},
          .service = turn.service,
          .since = turn.since,
          .workload = &workload};
}

QueueId ActiveQueue::ParentOf(QueueId queue) const {
  const std::vector<QueueId>& path = store_->queue(queue).path;
  return path.size() > 1 ? path[1] : cluster::kNoQueue;
}

void ActiveQueue::Replace(std::pmr::set<Head>& heads, std::optional<Head>& entry,
                          const std::optional<Head>& by) {
  if (entry) heads.erase(*entry);
  entry = by;
  if (entry) heads.insert(*entry);
}

/// Goes up the tree as far as anything changes: the first workload of a queue above may be another
/// one now. How the queues above stand in any other case is their own Reorder.
void ActiveQueue::Reorder(QueueId queue) {
  Group* group = &GroupOf(queue);
  std::optional<Head> own;
  if (!group->line.empty()) {
    const Place& first = *group->line.begin();
    own = {.standing = policy::StandingOfOwn(*store_, queue, turns_.at(first.workload).wants),
           .since = first.since,
           .workload = first.workload,
           .queue = queue};
  }
  Replace(group->heads, group->own, own);
  while (queue != cluster::kNoQueue) {
    Group& above = GroupOf(ParentOf(queue));
    std::optional<Head> head;
    if (!group->heads.empty()) {
      head = *group->heads.begin();
      head->queue = queue;
      head->standing = policy::StandingOf(*store_, queue, turns_.at(head->workload).wants);
    }
    const std::optional<Head>& known = group->in_parent;
    const bool same = head && known && head->workload == known->workload &&
                      head->since == known->since && head->standing == known->standing;
    if (same) return;
    Replace(above.heads, group->in_parent, head);
    queue = ParentOf(queue);
    group = &above;
  }
}

void ActiveQueue::ReorderAll() {
  std::vector<QueueId> queues;
  for (auto it = groups_.begin(); it != groups_.end();) {
    Group& group = it->second;
    group.heads.clear();
    group.own.reset();
    group.in_parent.reset();
    if (group.line.empty()) {
      it = groups_.erase(it);
    } else {
      queues.push_back(it++->first);
    }
  }
  for (const QueueId queue : queues) Reorder(queue);
}

void ActiveQueue::Put(const Workload& workload, const Turn& turn) {
  Rest(workload);
  turns_.emplace(&workload, turn);
  const Place place = PlaceOf(workload, turn);
  if (turn.broken) {
    broken_.insert(place);
  } else {
    GroupOf(turn.queue).line.insert(place);
    Reorder(turn.queue);
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
  const Place place = PlaceOf(workload, it->second);
  if (it->second.broken) {
    broken_.erase(place);
  } else {
    const QueueId queue = it->second.queue;
    GroupOf(queue).line.erase(place);
    Reorder(queue);
  }
  turns_.erase(it);
}

const Workload* ActiveQueue::Pop() {
  if (turns_.empty()) return nullptr;
  const Workload* next = broken_.empty() ? GroupOf(cluster::kNoQueue).heads.begin()->workload
                                         : broken_.begin()->workload;
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
