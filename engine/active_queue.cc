#include "engine/active_queue.h"

#include <algorithm>
#include <ranges>
#include <tuple>
#include <utility>

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

/// REQUIRES: the group has heads. Returns the first one, unless it must let another one go first;
/// then the first one that need not. Takes time in proportion to the heads if the first one is
/// beyond its fair share.
const ActiveQueue::Head& ActiveQueue::FirstOf(const Group& group) {
  const Head& first = *group.heads.begin();
  if (first.standing.entitled) return first;
  // A head that must let any entitled head go first must let the one go first that holds least.
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

bool ActiveQueue::IsOwed(policy::Claimant of, const cluster::Demand* wants) const {
  if (owed_.empty()) return false;  // as nearly always
  return std::ranges::any_of(owed_, [&](const policy::Undercut& floor) {
    if (floor.of != of) return false;
    const std::int64_t used = UsedOf(floor);
    if (used >= floor.floor || wants == nullptr) return used < floor.floor;
    return std::ranges::any_of(*wants, [&](const auto& part) {
      return part.first == floor.id && used + part.second > floor.floor;
    });
  });
}

policy::Standing ActiveQueue::StandingOf(policy::Claimant of, const cluster::Demand& wants) const {
  policy::Standing standing = of.own ? policy::StandingOfOwn(*store_, of.queue, wants, past_)
                                     : policy::StandingOf(*store_, of.queue, wants, past_);
  standing.owed = of.queue != cluster::kNoQueue && IsOwed(of, &wants);
  return standing;
}

std::int64_t ActiveQueue::UsedOf(const policy::Undercut& floor) const {
  const cluster::QueueInfo& info = store_->queue(floor.of.queue);
  return (floor.of.own ? info.own : info.used)[floor.id];
}

void ActiveQueue::Owe(const policy::Undercut& floor) {
  std::erase_if(owed_,
                [&](const auto& known) { return known.of == floor.of && known.id == floor.id; });
  owed_.push_back(floor);
  Reorder(floor.of.queue);
}

void ActiveQueue::MakeGood() {
  // The ranks follow with the use of the queues: Store::TakeUseNews.
  std::erase_if(owed_, [&](const policy::Undercut& floor) { return UsedOf(floor) >= floor.floor; });
}

/// Goes up the tree as far as anything changes: the first workload of a queue above may be another
/// one now. A queue above whose rank changes for any other reason has its own call of Reorder.
void ActiveQueue::Reorder(QueueId queue) {
  Group* group = &GroupOf(queue);
  std::optional<Head> own;
  if (!group->firsts.empty()) {
    const Place& first = group->firsts.begin()->place;
    const Turn& turn = turns_.at(first.workload).turn;
    own = {.standing = StandingOf({.queue = queue, .own = true}, turn.wants),
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
      const Turn& turn = turns_.at(head->workload).turn;
      head->standing = StandingOf({.queue = queue}, turn.wants);
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

bool ActiveQueue::IsInLine(const Waiting& waiting) const {
  return !waiting.rests() || std::ranges::any_of(waiting.conditions, [&](const Condition* it) {
    return it != nullptr && IsOpen(*it);
  });
}

/// Null: no workload of the lane is in line.
const ActiveQueue::Place* ActiveQueue::FirstOf(Lane& lane) const {
  const Place* first = lane.line.empty() ? nullptr : &*lane.line.begin();
  if (called_ == 0) return first;
  if (std::exchange(lane.searched, round_) != round_) lane.next = lane.resting.begin();
  const auto in_line = [&](const Place& place) { return IsInLine(turns_.at(place.workload)); };
  lane.next = std::find_if(lane.next, lane.resting.end(), in_line);
  if (lane.next == lane.resting.end()) return first;
  return first != nullptr && *first < *lane.next ? first : &*lane.next;
}

/// The lane has changed: its first workload, or what its sharer has. An empty lane is removed.
/// False: it has the same first workload, with the same share.
bool ActiveQueue::ReorderLane(QueueId queue, Group& group, Lanes::iterator lane) {
  std::optional<Turning>& known = lane->second.first;
  std::optional<Turning> now;
  if (const Place* first = FirstOf(lane->second)) {
    now = {.share = 0, .place = *first};
    if (!lane->first.empty()) {
      const Turn& turn = turns_.at(first->workload).turn;
      now->share = policy::LargestPart(policy::HeldBy(*store_, queue, lane->first, turn.wants),
                                       policy::TotalDevices(*store_));
    }
  }
  const bool same = now && known ? !(*now < *known) && !(*known < *now) : !now && !known;
  if (!same) {
    if (known) group.firsts.erase(*known);
    known = now;
    if (known) group.firsts.insert(*known);
  }
  if (lane->second.empty()) group.lanes.erase(lane);
  return !same;
}

void ActiveQueue::Reorder(QueueId queue, std::string_view sharer) {
  const auto group = groups_.find(queue);
  if (group == groups_.end()) return;
  const auto lane = group->second.lanes.find(sharer);
  if (lane == group->second.lanes.end()) return;
  ReorderLane(queue, group->second, lane);
  Reorder(queue);
}

/// Reorders the lanes for which `concerned` is true, and the queues above lanes that changed.
template <typename Concerned>
void ActiveQueue::ReorderLanes(const Concerned& concerned) {
  for (auto& [queue, group] : groups_) {
    bool changed = false;
    for (auto next = group.lanes.begin(); next != group.lanes.end();) {
      const auto lane = next++;
      if (concerned(lane->second)) changed |= ReorderLane(queue, group, lane);
    }
    if (changed) Reorder(queue);
  }
}

void ActiveQueue::ForgetFirsts() {
  for (auto& [queue, group] : groups_) {
    for (auto& [sharer, lane] : group.lanes) lane.first.reset();
    group.firsts.clear();
    group.heads.clear();
    group.own.reset();
    group.in_parent.reset();
  }
}

void ActiveQueue::ReorderAll() {
  ForgetFirsts();
  std::erase_if(groups_, [](const auto& group) { return group.second.lanes.empty(); });
  ReorderLanes([](const Lane&) { return true; });
}

/// The lane of `waiting`.
ActiveQueue::Lanes::iterator ActiveQueue::Enter(Group& group, Waiting& waiting) {
  auto lane = group.lanes.find(waiting.turn.sharer);
  if (lane == group.lanes.end()) {
    lane = group.lanes.try_emplace(std::pmr::string(waiting.turn.sharer, &pool_)).first;
  }
  waiting.turn.sharer = lane->first;  // lives as long as the lane has any workload
  return lane;
}

void ActiveQueue::Put(const Workload& workload, const Turn& turn) {
  Rest(workload);
  DropStale();
  Waiting& waiting = turns_.emplace(&workload, Waiting{.turn = turn}).first->second;
  ++in_line_;
  const Place place = PlaceOf(workload, turn);
  if (turn.broken) {
    waiting.turn.sharer = {};
    broken_.insert(place);
    return;
  }
  Group& group = GroupOf(turn.queue);
  const auto lane = Enter(group, waiting);
  lane->second.line.insert(place);
  if (ReorderLane(turn.queue, group, lane)) Reorder(turn.queue);
}

void ActiveQueue::RestOn(const Workload& workload, const Turn& turn,
                         std::span<Condition* const> conditions) {
  Rest(workload);
  Waiting& waiting = turns_.emplace(&workload, Waiting{.turn = turn}).first->second;
  std::ranges::copy(conditions, waiting.conditions.begin());
  for (Condition* condition : conditions) ++condition->resting_;
  Group& group = GroupOf(turn.queue);
  Enter(group, waiting)->second.resting.insert(PlaceOf(workload, turn));
}

void ActiveQueue::Rest(const Workload& workload) {
  LeaveLine(workload);
  awake_.erase(&workload);
}

void ActiveQueue::KeepAwake(const Workload& workload) {
  LeaveLine(workload);
  awake_.insert(&workload);
}

bool ActiveQueue::InLine(const Workload& workload) const {
  const auto waiting = turns_.find(&workload);
  return waiting != turns_.end() && IsInLine(waiting->second);
}

void ActiveQueue::LeaveLine(const Workload& workload) {
  const auto it = turns_.find(&workload);
  if (it == turns_.end()) return;
  Waiting& waiting = it->second;
  const Place place = PlaceOf(workload, waiting.turn);
  if (waiting.turn.broken) {
    broken_.erase(place);
    --in_line_;
  } else {
    const QueueId queue = waiting.turn.queue;
    Group& group = GroupOf(queue);
    const auto lane = group.lanes.find(waiting.turn.sharer);
    LeaveLane(lane->second, place, waiting);
    waiting.turn.sharer = {};
    const std::optional<Turning>& first = lane->second.first;
    const bool is_first = first && first->place.workload == &workload;
    // The other workloads of the lane keep their places.
    if ((is_first || lane->second.empty()) && ReorderLane(queue, group, lane)) Reorder(queue);
  }
  turns_.erase(it);
}

void ActiveQueue::LeaveLane(Lane& lane, const Place& place, Waiting& waiting) {
  if (!waiting.rests()) {
    lane.line.erase(place);
    --in_line_;
    return;
  }
  for (Condition* condition : waiting.conditions) {
    if (condition == nullptr) continue;
    Count(*condition, -1);
    --condition->resting_;
  }
  const auto at = lane.resting.find(place);
  const bool moves = lane.searched == round_ && lane.next == at;
  const auto after = lane.resting.erase(at);
  if (moves) lane.next = after;
}

/// `members` more workloads rest on the condition.
void ActiveQueue::Count(const Condition& condition, int members) {
  if (condition.open()) (IsOpen(condition) ? called_ : opened_) += members;
}

void ActiveQueue::Open(Condition& condition) {
  if (condition.open()) return;
  condition.opened_ = round_ + 1;
  Count(condition, condition.resting_);
}

void ActiveQueue::Close(Condition& condition) {
  if (!condition.open()) return;
  Count(condition, -condition.resting_);
  stale_ |= IsOpen(condition) && condition.resting_ > 0;
  condition.opened_ = Condition::kClosed;
}

void ActiveQueue::CallOpened() {
  if (opened_ == 0) return;
  ++round_;
  called_ += std::exchange(opened_, 0);
  stale_ = false;
  ReorderLanes([](const Lane&) { return true; });
}

/// A workload that was first of its lane when its condition was closed must not decide the rank of
/// its queue.
void ActiveQueue::DropStale() {
  if (!std::exchange(stale_, false)) return;
  if (empty()) return ForgetFirsts();
  ReorderLanes(
      [&](const Lane& lane) { return lane.first && !InLine(*lane.first->place.workload); });
}

std::size_t ActiveQueue::ForgetPlaces(std::size_t most) {
  std::size_t count = 0;
  for (auto& [queue, group] : groups_) {
    for (auto lane = group.lanes.begin(); lane != group.lanes.end();) {
      const Line& resting = (lane++)->second.resting;  // the lane is removed with its last workload
      for (std::size_t left = resting.size(); left > 0; --left) {
        if (count == most) return count;
        ++count;
        LeaveLine(*resting.begin()->workload);
      }
    }
  }
  return count;
}

const Workload* ActiveQueue::Pop() {
  DropStale();
  if (empty()) return nullptr;
  const Workload* next =
      broken_.empty() ? FirstOf(GroupOf(cluster::kNoQueue)).workload : broken_.begin()->workload;
  KeepAwake(*next);
  return next;
}

/// Whether `head`, in the group of `above`, could come before a sibling with `standing`, if its
/// next job asked for as little as possible of some kind of devices.
bool ActiveQueue::MayStandBefore(QueueId above, const Head& head,
                                 const policy::Standing& standing) const {
  return std::ranges::any_of(store_->device_ids(), [&](cluster::ResourceId id) {
    const cluster::Demand none{{id, 0}};
    const policy::Claimant of{.queue = head.queue, .own = head.queue == above};
    policy::Standing least = StandingOf(of, none);
    least.owed = IsOwed(of, nullptr);
    return least < standing || policy::Yields(standing, least);
  });
}

/// Whether the queue itself has several workloads, in line or at rest.
bool ActiveQueue::HasSeveral(const Group& group) {
  std::size_t places = 0;
  for (const auto& [sharer, lane] : group.lanes) {
    places += lane.line.size() + lane.resting.size();
    if (places > 1) return true;
  }
  return false;
}

bool ActiveQueue::HasSeveralBelow(QueueId queue) const {
  const auto group = groups_.find(queue);
  if (group == groups_.end() || group->second.heads.empty()) return false;
  const std::pmr::set<Head>& heads = group->second.heads;
  if (heads.size() > 1) return true;
  const Head& only = *heads.begin();
  return only.queue == queue ? HasSeveral(group->second) : HasSeveralBelow(only.queue);
}

std::vector<const Workload*> ActiveQueue::FirstOfBetter(QueueId queue,
                                                        const cluster::Demand& wants) const {
  std::vector<const Workload*> first;
  const auto append = [&](QueueId above, QueueId own, const policy::Standing& standing) {
    const auto group = groups_.find(above);
    if (group == groups_.end()) return;
    for (const Head& head : group->second.heads) {
      if (head.queue == own || !MayStandBefore(above, head, standing)) continue;
      const bool several =
          head.queue == above ? HasSeveral(group->second) : HasSeveralBelow(head.queue);
      if (several) first.push_back(head.workload);
    }
  };
  QueueId above = cluster::kNoQueue;
  for (const QueueId next : store_->queue(queue).path | std::views::reverse) {
    append(above, next, StandingOf({.queue = next}, wants));
    above = next;
  }
  append(queue, queue, StandingOf({.queue = queue, .own = true}, wants));
  return first;
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
