// Engine, part: when no pod is evicted for work although that would help it, and when work beyond
// quota does not start in free room yet. While pods end, others may be about to end, too, and leave
// all the room that it needs. What would be evicted at once for other work does not start. If a
// claim that its pods name does not exist, kube-scheduler would not place it. And if kube-scheduler
// did not take it when others had been evicted for it, they would be evicted in vain once more.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "engine/decide.h"
#include "engine/engine.h"
#include "engine/eviction.h"
#include "engine/surplus_start.h"
#include "policy/claims.h"

namespace berth::engine {

using cluster::PodInfo;
using cluster::Workload;

namespace {

/// An object that pods need and that does not exist is looked for again after that time.
constexpr TimePoint kLookAgainAfter = 60'000;

/// Until when work waits because pods ended at `ended`: until none has for `pause`, and for three
/// times as long at most. `at_most`: when that is over; it is set anew where work begins to wait,
/// and goes on if it has waited a moment ago.
TimePoint WaitsUntil(TimePoint ended, TimePoint pause, TimePoint& at_most, TimePoint now) {
  const TimePoint most = 3 * pause;
  if (at_most + most < now) at_most = now + most;
  return std::min(ended + pause, at_most);
}

bool AsksForAsMuch(const cluster::Demand& wants, const cluster::Demand& as) {
  return std::ranges::all_of(as, [&](const auto& part) {
    return std::ranges::any_of(wants, [&](const auto& other) {
      return other.first == part.first && other.second >= part.second;
    });
  });
}

}  // namespace

/// The pod ends, or is gone, and Berth did not evict it. Its end was not expected if it was not
/// deleted before, nor evicted by kube-scheduler. A launcher without devices counts, too: its gang
/// may follow, which until then seems to lack a member.
void Engine::NoteEnd(const PodInfo& pod, TimePoint now) {
  const bool launches =
      pod.workload != nullptr && pod.workload->gang && pod.workload->AsksDevices();
  if (!pod.bound() || !(pod.shape->asks_device || launches)) return;
  if (!states_.At(pod).victim_of.empty()) return;
  room_came_at_ = now;
  if (pod.terminating()) return;
  if (!IsVictimOfScheduler(pod)) pod_ended_at_ = now;
}

bool Engine::RoomComes(TimePoint now) const { return now < room_came_at_ + options_.pods_end; }

bool Engine::PodsEnd(TimePoint now) const { return now < pod_ended_at_ + options_.pods_end; }

/// Whether pods have just ended, so that no pod is evicted for the workload yet: the pods of a
/// gang, or of a Job, end one after the other. Its plan keeps its places, and is judged again in a
/// moment, as after warnings.
bool Engine::WaitsForEnds(const Workload& workload, TimePoint now) {
  if (!PodsEnd(now)) return false;
  WorkloadState& state = states_[workload];
  const TimePoint until = WaitsUntil(pod_ended_at_, options_.pods_end, state.evicts_at_most, now);
  if (until <= now) return false;
  state.plan->evictions.stage = Evicting::kWarned;
  state.plan->expires = until;
  timers_.At(until, workload.key);
  return true;
}

/// Whether pods have just ended, and work of another queue waits within its quota, so that the
/// workload, which would go beyond its own with `pods`, gets no room yet: when all pods of a gang
/// or a Job have ended, that work may take all of it, and would evict this one. It is judged again
/// in a moment.
bool Engine::LeavesRoomThatComes(const Workload& workload, const std::vector<const PodInfo*>& pods,
                                 TimePoint now) {
  if (!RoomComes(now) || !store_.policy().borrowing) return false;
  // With one queue alone no time is spent on its share.
  if (workload.queue == cluster::kNoQueue || store_.queues().size() < 2) return false;
  const Turn turn = TurnOf(workload, store_, states_.At(workload));
  if (!policy::GoesBeyondQuota(store_, workload.queue, turn.wants)) return false;
  if (!OthersLack(Now(now), workload, pods, /*within_quota=*/true)) return false;
  WorkloadState& state = states_[workload];
  const TimePoint until = WaitsUntil(room_came_at_, options_.pods_end, state.starts_at_most, now);
  if (until <= now) return false;
  state.starts_from = until;
  timers_.At(until, workload.key);
  if (state.verdict.reason == cluster::ReasonId::kNone) {  // no Event: it is for a moment
    state.verdict = {.reason = cluster::ReasonId::kCoolingDown,
                     .subject =
                         "Pods have just ended, and work of another queue that is within its quota "
                         "comes first: this workload is tried again in a moment."};
  }
  return true;
}

/// Other work that waits and may come to evict work of other queues: by recent shares it is within
/// what its queue is entitled to, or may take its own queue's lower work with it. Work that was
/// evicted and waits for a moment counts, too: it may do so then. The first few of them, the former
/// first: their claims need nothing else.
std::vector<const Workload*> Engine::ClaimantsBeside(const Workload& workload, TimePoint now) {
  constexpr std::size_t kMost = 4;
  std::vector<const Workload*> claimants(claimants_.begin(), claimants_.end());
  const policy::FairShareTable& shares = fair_shares_.Recent(now);
  const policy::QuotaView use(store_);
  std::erase_if(claimants, [&](const Workload* other) {
    const WorkloadState& state = states_.At(*other);
    const bool pauses = state.Pauses(now) && !state.BacksOff(now);
    const bool may_act = !pauses && !other->started && !state.plan && !state.evicted;
    return !may_act || other->queue == workload.queue || other->queue == cluster::kNoQueue;
  });
  const auto others = std::ranges::stable_partition(claimants, [&](const Workload* other) {
    const Turn turn = TurnOf(*other, store_, states_.At(*other));
    return policy::Exchange(shares, use, use, other->queue).MayClaim(turn.wants);
  });
  // With lower work of its own queue among the victims, a claim reaches further.
  const auto reaches = [&](const Workload* other) {
    return store_.HoldsBelow(other->queue, other->priority);
  };
  const auto end = std::ranges::stable_partition(others, reaches).begin();
  claimants.erase(end, claimants.end());
  claimants.resize(std::min(claimants.size(), kMost));
  return claimants;
}

/// Whether the claimant would start in free room now if it did not wait for a moment.
bool Engine::FindsRoom(const Workload& claimant, TimePoint now) {
  std::vector<const PodInfo*> pods = Placeable(claimant);
  const int min = std::max(1, claimant.Missing());
  return std::ssize(pods) >= min &&
         DecideStart(Now(now), claimant, std::move(pods), min, nullptr).reserve.has_value();
}

/// Whether the claimant would now evict any of the pods that `start` places; or others of their
/// queue, so that this is left below its floor.
bool Engine::WouldEvict(const Workload& claimant, const Workload& workload,
                        const Reservation& start, TimePoint now) {
  std::vector<const PodInfo*> pods = Placeable(claimant);
  const int min = std::max(1, claimant.Missing());
  if (std::ssize(pods) < min) return false;
  const auto reserve = DecideStartByEviction(Now(now), claimant, std::move(pods), min,
                                             cluster::ReasonId::kInsufficientDevices, nullptr)
                           .reserve;
  if (!reserve) return false;
  const std::vector<cluster::QueueId>& path = store_.queue(workload.queue).path;
  const bool undercuts = std::ranges::any_of(reserve->undercut, [&](const auto& undercut) {
    return std::ranges::find(path, undercut.of.queue) != path.end();
  });
  return std::ranges::any_of(reserve->evicts, [&](const PodInfo* pod) {
    return std::ranges::find(start.placed, pod, &policy::Placed::pod) != start.placed.end() ||
           (undercuts && pod->charged_queue == workload.queue);
  });
}

/// Work of another queue that waits, and that would evict the workload at once if it ran as `start`
/// says, or take from its queue what is covered; or that has just come back after its eviction, and
/// would not find the room any more that it has now. null: none. Work that evicts others of the
/// workload's queue takes what it is entitled to, and the free room is of use. This charges the
/// store for a moment, which is news of room and of use afterwards.
const Workload* Engine::FindClaimGivenBy(const Workload& workload, const Reservation& start,
                                         TimePoint now) {
  const std::vector<const Workload*> claimants = ClaimantsBeside(workload, now);
  if (claimants.empty()) return nullptr;
  const policy::FairShareTable& shares = fair_shares_.Recent(now);
  const policy::QuotaView use(store_);
  const auto is_entitled = [&](const Workload& work, const cluster::Demand& wants) {
    return policy::Exchange(shares, use, use, work.queue).MayClaim(wants);
  };
  const bool entitled = is_entitled(workload, TurnOf(workload, store_, states_.At(workload)).wants);
  std::set<const Workload*> have_room;
  for (const Workload* other : claimants) {
    if (!states_.At(*other).BacksOff(now)) continue;
    const cluster::Demand wants = TurnOf(*other, store_, states_.At(*other)).wants;
    if (entitled && policy::GoesBeyondQuota(store_, other->queue, wants)) continue;
    if (is_entitled(*other, wants) && FindsRoom(*other, now)) have_room.insert(other);
  }
  for (const policy::Placed& place : start.placed) {
    store_.AdoptQueue(*place.pod);
    store_.SetCharge(*place.pod, place.node, cluster::Charge::kBinding, place.devices);
  }
  for (const PodInfo* pod : start.evicts) states_.SetVictim(*pod, workload.key);
  const auto claimant = std::ranges::find_if(claimants, [&](const Workload* other) {
    return WouldEvict(*other, workload, start, now) ||
           (have_room.contains(other) && !FindsRoom(*other, now));
  });
  for (const PodInfo* pod : start.evicts) states_.SetVictim(*pod, {});
  for (const policy::Placed& place : start.placed) store_.Unreserve(*place.pod);
  return claimant == claimants.end() ? nullptr : *claimant;
}

/// Whether the workload, which would start or get one more member beyond its queue's quota, would
/// give work of another queue that waits a claim by which it would be evicted at once, or would
/// take its room. Then it does not start yet, and is judged again in a second; until then no work
/// of its queue that is alike and asks for as much is tried. A try takes a time in proportion to
/// the pods: with many of them there is none.
bool Engine::GivesClaim(const Workload& workload, const Reservation& start, TimePoint now) {
  constexpr std::size_t kMostPods = 2'000;
  constexpr TimePoint kAgainAfter = 1'000;
  WorkloadState& state = states_[workload];
  if (state.gives_claim && state.starts_from > now) return true;
  state.gives_claim = false;
  if (!store_.policy().borrowing || claimants_.empty() || store_.pods().size() > kMostPods) {
    return false;
  }
  const Turn turn = TurnOf(workload, store_, state);
  if (workload.queue == cluster::kNoQueue ||
      !policy::GoesBeyondQuota(store_, workload.queue, turn.wants)) {
    return false;
  }
  ClaimGiven& given = claims_given_[workload.queue];
  const std::shared_ptr<const cluster::PodShape>& shape = start.placed.front().pod->shape;
  const bool alike = shape == given.shape && workload.priority == given.priority;
  if (given.until <= now || !alike || !AsksForAsMuch(turn.wants, given.wants)) {
    const Workload* claimant = FindClaimGivenBy(workload, start, now);
    if (claimant == nullptr) return false;
    given = {.until = now + kAgainAfter,
             .wants = turn.wants,
             .shape = shape,
             .priority = workload.priority,
             .to = QueueName(claimant->queue)};
  }
  state.gives_claim = true;
  state.starts_from = given.until;
  timers_.At(state.starts_from, workload.key);
  SetVerdict(workload,
             {.reason = cluster::ReasonId::kCoolingDown,
              .subject = fmt::format(
                  "It would go beyond the quota of its queue, in room that it would have to leave "
                  "to work of queue {} which waits and is entitled to it.",
                  given.to)});
  return true;
}

void Engine::EvictNobodyBefore(const Workload& workload, TimePoint from) {
  states_[workload].evicts_from = from;
  timers_.At(from, workload.key);
}

/// Asks for the objects that kube-scheduler would not place the pods without.
void Engine::LookForNeeded(const Workload& workload) {
  Plan& plan = *states_[workload].plan;
  for (const Assignment& place : plan.assignments) {
    const kube::Pod& pod = place.pod->object;
    for (const kube::NeededObject& object : pod.needs) {
      if (!plan.evictions.unanswered.insert(KeyOf(object)).second) continue;
      actions_.push_back(FindNeeded{
          .workload = workload.key, .id = plan.evictions.id, .ns = pod.meta.ns, .object = object});
    }
  }
}

/// There is no such object: no pod is evicted for the workload, until it is looked for again.
void Engine::LacksNeeded(const Workload& workload, const std::string& key, TimePoint now) {
  WorkloadState& state = states_[workload];
  for (const Assignment& place : state.plan->assignments) {
    for (const kube::NeededObject& object : place.pod->object.needs) {
      if (KeyOf(object) == key) state.lacks = object;
    }
  }
  EvictNobodyBefore(workload, now + kLookAgainAfter);
  Dissolve(workload, plan_ends::kLacksObject, /*hold=*/false, now);
}

/// kube-scheduler does not take the work, for a reason that Berth does not know. If pods were
/// evicted for it, others are not for 10 minutes, doubled each time, at most for a day.
void Engine::RefrainFromEvicting(const Workload& workload, TimePoint now) {
  WorkloadState& state = states_[workload];
  if (state.plan->evictions.accepted.size() + state.plan->inherited == 0) return;
  EvictNobodyBefore(workload,
                    now + std::min(600'000LL << std::min(state.evicted_in_vain, 10), 86'400'000LL));
  ++state.evicted_in_vain;
  state.lacks.reset();
}

}  // namespace berth::engine
