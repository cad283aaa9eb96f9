// Engine, part: judging one workload, in the order in which the reasons to wait come; decide.h has
// the decisions, commit.cc applies them.
#include <fmt/format.h>

#include <algorithm>

#include "engine/decide.h"
#include "engine/engine.h"
#include "engine/eviction.h"
#include "engine/min_run_time.h"
#include "engine/surplus_start.h"
#include "policy/neighbours.h"

namespace berth::engine {

using cluster::Charge;
using cluster::NodeIndex;
using cluster::PodInfo;
using cluster::ReasonId;
using cluster::Verdict;
using cluster::Workload;

namespace {

/// `placeable` of its members exist, are not bound and could be placed.
Verdict WaitsForMembers(const Workload& workload, int placeable) {
  Verdict verdict{.reason = ReasonId::kWaitingForMembers,
                  .want = workload.min_member,
                  .have = placeable + workload.BoundCount() + workload.finished};
  if (workload.finished > 0) {
    verdict.subject = fmt::format(
        "The gang goes on with {} members; {} have succeeded, {} exist that can be placed.",
        workload.min_member, workload.finished, verdict.have - workload.finished);
  }
  return verdict;
}

/// Decides which pods are evicted so that the workload can start. Pods that kube-scheduler tries
/// anyway are left to it where it finds victims: Engine::Preempt answers with the victims of
/// Berth's own plan. A gated one is let go for it where pods must go that are in no queue.
PreemptorDecision DecideEvictions(const View& view, const Workload& workload,
                                  std::vector<const PodInfo*> pods, int min, ReasonId reason,
                                  const Wakeups* memo) {
  const PodInfo& first = *pods.front();
  PreemptorDecision decision =
      DecideStartByEviction(view, workload, std::move(pods), min, reason, memo);
  if (workload.gang) return decision;
  if (!HasOurGate(first)) {
    if (!decision.reserve || !KubeSchedulerPreempts(view, first, /*outside_queues=*/false)) {
      return decision;
    }
    decision.reserve.reset();
    decision.preemptor.reset();  // it found victims
    decision.unsure = true;
  } else if (!decision.reserve && !decision.known && !decision.by_count && EvictionHelps(reason)) {
    decision.would_preempt = KubeSchedulerPreempts(view, first, /*outside_queues=*/true);
  }
  return decision;
}

}  // namespace

Verdict CoolingDown(const Workload& workload, const WorkloadState& state, TimePoint now) {
  Verdict verdict{.reason = ReasonId::kCoolingDown,
                  .want = state.failures,
                  .have = (state.hold_until - now + 999) / 1000};
  if (state.failures > 0) return verdict;
  const bool exempt = std::ranges::any_of(workload.members, &PodInfo::exempt);
  verdict.subject = fmt::format(
      "It was evicted {}, and keeps its place in line; it is planned again in {} s{}.",
      state.before.times == 1 ? "once" : fmt::format("{} times", state.before.times), verdict.have,
      exempt ? ", within the quota of its queue only, and is not evicted again" : "");
  return verdict;
}

void Engine::Judge(const Workload& workload, const PodInfo* caller, TimePoint now) {
  if (Passthrough()) {
    for (const PodInfo* pod : workload.members) Ungate(*pod);
    for (const PodInfo* pod : workload.faulty) Ungate(*pod);
    return;
  }
  std::vector<const PodInfo*> pods = Placeable(workload);
  const bool nothing_to_plan = !workload.gang && !pods.empty() && !pods.front()->shape->asks_device;
  if (nothing_to_plan) {
    for (const PodInfo* pod : pods) Ungate(*pod);
    return;
  }
  if (workload.in_tree) {
    JudgeInTree(workload, pods, now);
    return;
  }
  if (const WorkloadState& state = states_[workload]; state.hold_until > now) {
    if (state.BacksOff(now)) claimants_.insert(&workload);
    return SetVerdict(workload, CoolingDown(workload, state, now));
  }
  if (states_[workload].evicted) {  // its new members wait until the old ones have ended
    SetVerdict(workload, {.reason = ReasonId::kWaitingForVictims});
    return;
  }
  if (workload.started) {
    JudgeStarted(workload, pods, now);
  } else {
    JudgePending(workload, std::move(pods), caller, now);
  }
}

/// For a workload that has not started. `pods`: its members that can be placed.
void Engine::JudgePending(const Workload& workload, std::vector<const PodInfo*> pods,
                          const PodInfo* caller, TimePoint now) {
  // A launcher without devices may run already, and other members may have succeeded: they count
  // towards the minimum, but need no place any more.
  const int missing = workload.Missing();
  if (static_cast<int>(pods.size()) < std::max(1, missing)) {
    TakeMarked(workload);  // it does not take their room
    states_[workload].gathered = 0;
    SetVerdict(workload, WaitsForMembers(workload, static_cast<int>(pods.size())));
    active_.Rest(workload);  // until a member comes or goes
    return;
  }
  if (BacksOff(workload, now)) {
    return SetVerdict(workload, CoolingDown(workload, states_[workload], now));
  }
  ExemptIfEvictedOften(workload);
  if (!workload.gang) {
    const PodInfo& pod = *workload.members.front();
    if (const auto resumed = DecideResumedEviction(Now(now), pod)) {
      return HoldRoomOf(*resumed, pod, now);
    }
  }
  if (const auto marked = TakeMarked(workload); !marked.empty()) {
    const auto resumed = DecideResumedStart(Now(now), workload, pods, std::max(1, missing), marked);
    if (resumed) return Commit(workload, *resumed, caller, now);
  }
  const int have = static_cast<int>(pods.size()) + workload.BoundCount() + workload.finished;
  if (Settles(workload, have, now)) {
    Verdict verdict = WaitsForMembers(workload, static_cast<int>(pods.size()));
    verdict.subject = fmt::format(
        "The gang has its minimum of {}; {} of {} members exist, and it waits a moment for more.",
        workload.min_member, have, workload.size);
    SetVerdict(workload, std::move(verdict));
    return;
  }
  wakeups_.Wake();  // room may have been given back since the pass began
  refusals_.Expire(workload, now);
  const int min = std::max(1, missing);
  const StartDecision decision = DecideStart(Now(now), workload, pods, min, &wakeups_);
  if (decision.reserve && PassesOver(workload, now)) {
    return active_.Put(workload, TurnOf(workload, store_, states_.At(workload)));
  }
  if (decision.reserve && LeavesRoomThatComes(workload, pods, now)) return;
  if (decision.reserve) {
    const Reservation start =
        LeaveRoomToOthers(Now(now), workload, std::move(pods), min, *decision.reserve);
    if (GivesClaim(workload, start, now)) return;
    return Commit(workload, start, caller, now);
  }
  const PreemptorDecision may =
      DecideEvictions(Now(now), workload, std::move(pods), min, decision.verdict.reason, &wakeups_);
  const bool warnings_over = std::exchange(states_[workload].warnings_over, false);
  if (may.reserve && GivesClaim(workload, *may.reserve, now)) return;
  if (may.reserve) return Commit(workload, *may.reserve, caller, now);
  if (warnings_over && may.waits && CountsOnWarned(workload, now)) {
    return JudgePending(workload, Placeable(workload), caller, now);
  }
  if (may.again > now) timers_.AllAt(may.again);
  if (may.claims) claimants_.insert(&workload);
  CommitRefusal(workload, decision, may);
}

/// Whether the workload, which is in line, may start in free room as far as is known. `searches`:
/// how many more it may take to tell; without any it may.
bool Engine::MayStart(const Workload& workload, int& searches, TimePoint now) {
  if (!NeedsPlan(workload)) return true;
  WorkloadState& state = states_[workload];
  if (state.no_room_since == store_.free_generation() + 1 && !workload.started) return false;
  std::vector<const PodInfo*> pods = Placeable(workload);
  if (workload.started) {
    if (state.starts_from > now) return false;
    if (pods.empty() || --searches < 0) return true;
    return DecideJoin(Now(now), workload, *pods.front()).reserve.has_value();
  }
  const int min = std::max(1, workload.Missing());
  const bool ready = !state.Pauses(now) && !state.evicted && std::ssize(pods) >= min;
  if (!ready) return false;
  if (StartsStill(Now(now), workload, pods, state.room_seen)) return true;
  if (--searches < 0) return true;
  const auto start = DecideStart(Now(now), workload, std::move(pods), min, &wakeups_).reserve;
  state.room_seen.clear();
  if (!start) {
    state.no_room_since = store_.free_generation() + 1;
    return false;
  }
  for (const policy::Placed& place : start->placed) {
    if (std::ssize(state.room_seen) < min) state.room_seen.push_back(place.node);
  }
  return true;
}

/// The workload would start beyond its queue's quota. A queue is ordered by its next workload, and
/// if that cannot start, by the one behind it, which may come before this workload: then that one
/// is judged now, and this one later. A workload that cannot start keeps its turn: it may evict
/// others then.
bool Engine::PassesOver(const Workload& workload, TimePoint now) {
  constexpr int kMostSearches = 32;  // one call must not hold the host's lock for long
  if (!store_.policy().borrowing || workload.queue == cluster::kNoQueue) return false;
  if (&workload == goes_first_) return false;
  const Turn turn = TurnOf(workload, store_, states_.At(workload));
  if (!policy::GoesBeyondQuota(store_, workload.queue, turn.wants)) return false;
  int searches = kMostSearches;
  std::vector<const Workload*> passed;
  for (bool more = true; more;) {  // a workload behind one that is passed over may hide others
    more = false;
    for (const Workload* other : active_.FirstOfBetter(workload.queue, turn.wants)) {
      if (MayStart(*other, searches, now)) continue;
      active_.KeepAwake(*other);
      passed.push_back(other);
      more = true;
    }
  }
  if (passed.empty()) return false;
  active_.Put(workload, turn);
  const Workload* first = active_.Pop();
  // What is revealed comes before this workload only to start in free room. What it may evict it
  // does in its turn, after those that were passed over. FirstOfBetter names no last ones.
  while (first != &workload && !MayStart(*first, searches, now)) {
    passed.push_back(first);
    first = active_.Pop();
  }
  for (const Workload* other : passed) {
    claimants_.insert(other);  // it may come to have a claim on what starts before it
    active_.Put(*other, TurnOf(*other, store_, states_.At(*other)));
  }
  if (first == &workload) return false;
  goes_first_ = first;  // its queue, ranked by its first workload, may be behind this one's
  JudgeNext(*first, /*caller=*/nullptr, now);
  goes_first_ = nullptr;
  return true;
}

bool Engine::WouldStart(const Workload& workload, TimePoint now) {
  const WorkloadState& state = states_.At(workload);
  if (Passthrough() || workload.in_tree || workload.started || state.plan) return false;
  if (state.Pauses(now)) return false;
  std::vector<const PodInfo*> pods = Placeable(workload);
  const int missing = std::max(1, workload.Missing());
  if (std::ssize(pods) < missing) return false;
  const StartDecision decision = DecideStart(Now(now), workload, pods, missing, nullptr);
  if (decision.reserve) return true;
  return DecideEvictions(Now(now), workload, std::move(pods), missing, decision.verdict.reason,
                         nullptr)
      .reserve.has_value();
}

/// For a gang that has started: members that wait for a node to take them, and members without a
/// place.
void Engine::JudgeStarted(const Workload& workload, std::span<const PodInfo* const> pods,
                          TimePoint now) {
  if (const auto marked = TakeMarked(workload); !marked.empty() && !states_[workload].plan) {
    // Others may have been lost since.
    const int some = std::min(workload.Missing(), static_cast<int>(pods.size()));
    std::optional<Reservation> resumed;
    if (some > 0) {
      resumed = DecideResumedStart(Now(now), workload, {pods.begin(), pods.end()}, some, marked);
    }
    if (resumed) return Commit(workload, *resumed, nullptr, now);
  }
  std::vector<const PodInfo*> held;
  if (const std::optional<Plan>& plan = states_[workload].plan) {
    for (const Assignment& place : plan->assignments) {
      if (place.held_until != 0) held.push_back(place.pod);
    }
  }
  for (const PodInfo* pod : held) {
    Assignment& place = *FindAssignment(*pod);
    const RetryDecision decision = DecideRetry(Now(now), workload, place);
    if (decision.reserve) {
      Commit(workload, *decision.reserve, nullptr, now);
    } else if (place.held_until != decision.held_until) {
      HoldPlace(workload, place, decision.held_until);
    }
  }
  std::vector<const PodInfo*> without_room;
  for (const PodInfo* pod : pods) {
    JoinDecision decision = DecideJoin(Now(now), workload, *pod);
    if (decision.reserve) {
      const bool contested = !active_.empty() || RoomComes(now);
      const bool needed = !contested || NeededByMinimum(workload, *pod);
      if (!needed && LeavesRoomThatComes(workload, {pod}, now)) return;
      if (!NeededByMinimum(workload, *pod) && GivesClaim(workload, *decision.reserve, now)) return;
      Commit(workload, *decision.reserve, nullptr, now);
      if (!needed && pod != pods.back() && OthersAreNext(workload)) return;
    }
    if (EvictionHelpsGang(decision.verdict.reason)) without_room.push_back(pod);
    if (decision.verdict.reason != ReasonId::kNone) {
      SetVerdict(workload, std::move(decision.verdict));
    }
  }
  const bool enough = std::ssize(without_room) >= workload.Missing();
  if (workload.Missing() > 0 && enough && !states_[workload].plan) {
    MakeRoomForMissing(workload, without_room, now);
  }
}

/// One of its members has got a place, and others wait: whether other work comes before the next of
/// them. Then the gang is in line again.
bool Engine::OthersAreNext(const Workload& workload) {
  if (active_.empty()) return false;
  OrderLine();
  active_.Put(workload, TurnOf(workload, store_, states_.At(workload)));
  const Workload* next = active_.Pop();
  if (next == &workload) return false;
  active_.Put(*next, TurnOf(*next, store_, states_.At(*next)));
  return true;
}

/// A running gang lacks members that its minimum needs. For none of `pods` there is room, which
/// others may leave if they end: enough of these pods get their places together.
void Engine::MakeRoomForMissing(const Workload& workload, const std::vector<const PodInfo*>& pods,
                                TimePoint now) {
  const PreemptorDecision may = DecideStartByEviction(Now(now), workload, pods, workload.Missing(),
                                                      ReasonId::kInsufficientDevices, nullptr);
  if (may.reserve) return Commit(workload, *may.reserve, nullptr, now);
  if (may.again > now) timers_.AllAt(may.again);
  if (may.claims) claimants_.insert(&workload);
}

/// Whether an elastic gang with `have` existing members waits for more: until none has come for a
/// second, ten seconds at most. When its members have ended, those that waited start at once.
bool Engine::Settles(const Workload& workload, int have, TimePoint now) {
  WorkloadState& state = states_[workload];
  constexpr TimePoint kPause = 1'000;
  constexpr TimePoint kMost = 10'000;
  if (have < workload.size && have > state.gathered) {
    if (state.gathered == 0) state.settled_at_most = now + kMost;
    state.gathered = have;
    state.settled_at = std::min(now + kPause, state.settled_at_most);
    timers_.At(state.settled_at, workload.key);
  }
  if (have < workload.size && state.settled_at > now) return true;
  state.settled_at = 0;
  return false;
}

/// Each refused pod gets an Event with its own reason, once.
void Engine::TellFaulty(const Workload& workload) {
  for (const PodInfo* pod : workload.faulty) {
    if (std::exchange(states_[*pod].told, pod->refusal.reason) == pod->refusal.reason) continue;
    const auto& meta = pod->object.meta;
    actions_.push_back(EmitEvent{.pod = {meta.ns, meta.name, meta.uid},
                                 .warning = true,
                                 .reason = std::string(cluster::Token(pod->refusal.reason)),
                                 .note = cluster::Sentence(pod->refusal)});
  }
}

void Engine::SetVerdict(const Workload& workload, Verdict verdict) {
  WorkloadState& state = states_[workload];
  const bool news = state.verdict.reason != verdict.reason;
  state.verdict = std::move(verdict);
  if (!news || state.verdict.reason == ReasonId::kStarting || workload.members.empty()) return;
  const auto& first = workload.members.front()->object.meta;
  actions_.push_back(EmitEvent{.pod = {first.ns, first.name, first.uid},
                               .warning = true,
                               .reason = std::string(cluster::Token(state.verdict.reason)),
                               .note = cluster::Sentence(state.verdict)});
  actions_.push_back(Decision{.kind = "refuse",
                              .workload = workload.key,
                              .queue = QueueName(workload.queue),
                              .generation = store_.generation(),
                              .verdict = state.verdict});
}

}  // namespace berth::engine
