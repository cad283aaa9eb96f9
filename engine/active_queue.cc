#include "engine/active_queue.h"

#include <algorithm>
#include <tuple>

namespace berth::engine {

using cluster::QueueId;
using cluster::Workload;

bool ActiveQueue::Place::operator<(const Place& other) const {
  return std::tie(descending_priority, service, since, workload->key) <
         std::tie(other.descending_priority, other.service, other.since, other.workload->key);
}

bool ActiveQueue::Turning::operator<(const Turning& other) const {
  return std::tie(place.descending_priority, share, place) <
         std::tie(other.place.descending_priority, other.share, other.place);
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

/// REQUIRES: it has heads. The first one, unless it must let another one go first; then the first
/// one that need not. Takes time in proportion to the heads if the first one is beyond its fair
/// share.
const ActiveQueue::Head& ActiveQueue::FirstOf(const Group& group) {
  const Head& first = *group.heads.begin();
  if (first.standing.entitled) return first;
  // Whoever must let any of them go first must let this one.
  const Head* least = nullptr;
  for (const Head& head : group.heads) {
    if (!head.standing.entitled) continue;
    if (least == nullptr || policy::HoldsLess(head.standing, least->standing)) least = &head;
  }
  if (least == nullptr) return first;
  return *std::ranges::find_if_not(group.heads, [&](const Head& head) {
    return policy::Yields(head.standing, least->standing);
  });
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
  if (!group->firsts.empty()) {
    const Place& first = group->firsts.begin()->place;
    own = {
        .standing = policy::StandingOfOwn(*store_, queue, turns_.at(first.workload).wants, past_),
        .since = first.since,
        .workload = first.workload,
        .queue = queue};
  }
  Replace(group->heads, group->own, own);
  while (queue != cluster::kNoQueue) {
    Group& above = GroupOf(ParentOf(queue));
    std::optional<Head> head;
    if (!group->heads.empty()) {
      head = FirstOf(*group);
      head->queue = queue;
      head->standing = policy::StandingOf(*store_, queue, turns_.at(head->workload).wants, past_);
    }
    const std::optional<Head>& known = group->in_parent;
    const bool same = head && known && head->workload == known->workload &&
                      head->since == known->since && head->standing == known->standing &&
                      head->standing.held_excess == known->standing.held_excess &&
                      head->standing.entitled == known->standing.entitled;
    if (same) return;
    Replace(above.heads, group->in_parent, head);
    queue = ParentOf(queue);
    group = &above;
  }
}

/// The lane has changed: its first one, or what its sharer has. It ends when it is empty.
void ActiveQueue::ReorderLane(QueueId queue, Group& group, Lanes::iterator lane) {
  std::optional<Turning>& known = lane->second.first;
  if (lane->second.line.empty()) {
    if (known) group.firsts.erase(*known);
    group.lanes.erase(lane);
    return;
  }
  const Place& first = *lane->second.line.begin();
  std::int64_t share = 0;
  if (!lane->first.empty()) {
    share = policy::LargestPart(
        policy::HeldBy(*store_, queue, lane->first, turns_.at(first.workload).wants),
        policy::TotalDevices(*store_));
  }
  const Turning now{.share = share, .place = first};
  if (known && !(now < *known) && !(*known < now)) return;
  if (known) group.firsts.erase(*known);
  known = now;
  group.firsts.insert(now);
}

void ActiveQueue::Reorder(QueueId queue, std::string_view sharer) {
  const auto group = groups_.find(queue);
  if (group == groups_.end()) return;
  const auto lane = group->second.lanes.find(sharer);
  if (lane == group->second.lanes.end()) return;
  ReorderLane(queue, group->second, lane);
  Reorder(queue);
}

void ActiveQueue::ReorderAll() {
  std::vector<QueueId> queues;
  for (auto it = groups_.begin(); it != groups_.end();) {
    Group& group = it->second;
    group.heads.clear();
    group.own.reset();
    group.in_parent.reset();
    if (group.lanes.empty()) {
      it = groups_.erase(it);
      continue;
    }
    for (auto lane = group.lanes.begin(); lane != group.lanes.end();) {
      ReorderLane(it->first, group, lane++);
    }
    queues.push_back(it++->first);
  }
  for (const QueueId queue : queues) Reorder(queue);
}

void ActiveQueue::Put(const Workload& workload, const Turn& turn) {
  Rest(workload);
  Turn& kept = turns_.emplace(&workload, turn).first->second;
  const Place place = PlaceOf(workload, turn);
  if (turn.broken) {
    kept.sharer = {};
    broken_.insert(place);
    return;
  }
  Group& group = GroupOf(turn.queue);
  auto lane = group.lanes.find(turn.sharer);
  if (lane == group.lanes.end())
    lane = group.lanes.try_emplace(std::pmr::string(turn.sharer, &pool_)).first;
  kept.sharer = lane->first;  // lives as long as anybody is in the lane
  lane->second.line.insert(place);
  ReorderLane(turn.queue, group, lane);
  Reorder(turn.queue);
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
    Group& group = GroupOf(queue);
    const auto lane = group.lanes.find(it->second.sharer);
    lane->second.line.erase(place);
    it->second.sharer = {};
    ReorderLane(queue, group, lane);
    Reorder(queue);
  }
  turns_.erase(it);
}

const Workload* ActiveQueue::Pop() {
  if (turns_.empty()) return nullptr;
  const Workload* next =
      broken_.empty() ? FirstOf(GroupOf(cluster::kNoQueue)).workload : broken_.begin()->workload;
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
