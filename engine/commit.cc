// Engine, part: applying decisions (decide.h). Commit charges the ledger, gives the members their
// phases, sets the expiries, and says what is to be written.
#include <algorithm>
#include <utility>

#include "engine/decide.h"
#include "engine/engine.h"
#include "engine/eviction.h"

namespace berth::engine {

using cluster::Charge;
using cluster::NodeIndex;
using cluster::PodInfo;
using cluster::ReasonId;
using cluster::Verdict;
using cluster::Workload;

View Engine::Now(TimePoint now) { return ViewOf(now, spent_); }

/// `work`: View::work. What is only read must not use up the budget of a pass.
View Engine::ViewOf(TimePoint now, std::int64_t& work) const {
  return {.store = store_,
          .states = states_,
          .refusals = refusals_,
          .in_tree_started = in_tree_started_,
          .scorer = scorer_,
          .fair_shares = fair_shares_,
          .ending = ending_,
          .work = work,
          .now = now};
}

/// Nothing that `decision` depends on may have changed since it was made. `caller`: the pod whose
/// own call is answered with the place, so that it needs no writes; null: none.
void Engine::Commit(const Workload& workload, const Reservation& decision, const PodInfo* caller,
                    TimePoint now) {
  switch (decision.kind) {
    case Reservation::Kind::kStart:
      return CommitStart(workload, decision, caller, now);
    case Reservation::Kind::kJoin:
      return CommitJoin(workload, decision, now);
    case Reservation::Kind::kMove:
      return CommitMove(workload, decision, caller);
    case Reservation::Kind::kRetry:
      return CommitRetry(workload, decision, now);
    case Reservation::Kind::kRecover:
      return CommitRecover(workload, decision, now);
    case Reservation::Kind::kDelegated: {
      const policy::Placed& placed = decision.placed.front();
      store_.SetCharge(*placed.pod, placed.node, Charge::kBinding, placed.devices);
      return NoteInTreeStart(workload);
    }
  }
}

/// Takes the room that was found for the member and gives back what the member held.
void Engine::Reserve(Assignment& place, const policy::Placed& placed) {
  place.node = placed.node;
  store_.SetCharge(*place.pod, placed.node, Charge::kPlanned, placed.devices);
}

/// Adds a place, without room yet, to the plan of the workload. `called`: see CalledShapes.
Assignment& Engine::AddPlace(const Workload& workload, const PodInfo& pod, const Shapes& called) {
  return states_[workload].plan->assignments.Add({.pod = &pod, .managed = IsManaged(pod, called)});
}

/// A new plan: its members are released, or, where others are evicted for it, wait for their end.
void Engine::CommitStart(const Workload& workload, const Reservation& decision,
                         const PodInfo* caller, TimePoint now) {
  std::size_t inherited = 0;
  for (const Workload* other : decision.yields) {
    inherited += TakeEvicted(*other);
    Dissolve(*other, plan_ends::kYields, /*hold=*/false, now);
  }
  for (const PodInfo* pod : decision.displaced) GiveUpPlace(*pod, plan_ends::kYields);
  for (const PodInfo* victim : decision.evicts) {
    const bool whole = std::ranges::find(decision.surplus, victim) == decision.surplus.end();
    if (whole && victim->workload != nullptr) GiveUpPlannedOf(*victim->workload);
  }
  const std::string id = NextPlanId(workload);
  LogPlan(workload, decision, id);
  Plan& plan = BeginPlan(workload, id);
  plan.victims = decision.victims;
  plan.joins = workload.started;
  plan.inherited = inherited + std::exchange(states_[workload].evicted_before, 0);
  // It takes over room for which another plan has evicted pods: it evicts no pod itself, and holds
  // that room until those pods have ended.
  if (inherited > 0) plan.evictions.stage = Evicting::kSent;
  if (!plan.victims.empty()) awaiting_.insert(&workload);
  plan.made = now;
  plan.expires = now + store_.policy().gang.plan_timeout.count();
  int rank = 0;
  const Shapes called = CalledShapes(workload);
  for (const policy::Placed& placed : decision.placed) {
    // The queue that was asked: the pod's own may have changed with a plan that was just dropped.
    store_.AdoptQueue(*placed.pod);
    Assignment& place = AddPlace(workload, *placed.pod, called);
    place.rank = rank++;
    Reserve(place, placed);
  }
  plan.barrier = BarrierOf(workload);
  ++counters_.plans["made"];
  timers_.At(plan.expires, workload.key);
  active_.MakeGood();
  if (!plan.victims.empty() && !decision.by_scheduler) return BeginEvictions(workload, decision);
  SetVerdict(workload, {.reason = ReasonId::kStarting, .want = plan.barrier});
  ReleasePlan(workload, caller, now);
}

/// Lets the members of a plan go, all at once or one after the other. A lone pod that is `caller`
/// needs no writes.
void Engine::ReleasePlan(const Workload& workload, const PodInfo* caller, TimePoint now) {
  Plan& plan = *states_[workload].plan;
  if (plan.joins) return ReleaseJoining(workload, now);
  if (plan.barrier == 0) {  // no member will come to the barrier
    StartGang(workload, now);
    return;
  }
  const bool in_turns = plan.barrier > 1 && ComeInTurns(plan);
  for (Assignment& assignment : plan.assignments) {
    if (!assignment.managed || in_turns) continue;
    if (assignment.pod == caller && !workload.gang) {
      MarkReleased(assignment);
    } else {
      Release(workload, assignment);
    }
  }
  ReleaseNext(workload);
}

/// The plan is for members that join a running gang, and the pods evicted for them have ended: they
/// are released, like any members that join.
void Engine::ReleaseJoining(const Workload& workload, TimePoint now) {
  Plan& plan = *states_[workload].plan;
  plan.started = true;
  plan.expires = now + store_.policy().gang.plan_timeout.count();
  timers_.At(plan.expires, workload.key);
  ++counters_.plans["committed"];
  for (Assignment& assignment : plan.assignments) Release(workload, assignment);
}

/// One more member of a gang that has started. It is released at once, or after a pause.
void Engine::CommitJoin(const Workload& workload, const Reservation& decision, TimePoint now) {
  const TimePoint expires = now + store_.policy().gang.plan_timeout.count();
  if (!states_[workload].plan) {
    Plan& plan = BeginPlan(workload, NextPlanId(workload));
    plan.started = true;
    plan.expires = expires;
  }
  const policy::Placed& placed = decision.placed.front();
  Assignment& place = AddPlace(workload, *placed.pod, CalledShapes(workload));
  Reserve(place, placed);
  place.held_until = decision.held_until;
  timers_.At(place.held_until == 0 ? expires : place.held_until, workload.key);
  if (place.held_until != 0) return;
  place.expires = expires;
  Release(workload, place);
}

/// Members of a plan change their places. Calls that wait to post to the old node end.
void Engine::CommitMove(const Workload& workload, const Reservation& decision,
                        const PodInfo* caller) {
  ++counters_.plans["replanned"];
  for (const policy::Placed& placed : decision.placed) store_.GiveBack(*placed.pod);
  for (const policy::Placed& placed : decision.placed) {
    const PodInfo& pod = *placed.pod;
    Assignment& assignment = *FindAssignment(pod);
    const bool moved = assignment.node != placed.node;
    Reserve(assignment, placed);
    if (!moved) continue;
    states_[workload].plan->victims.clear();  // they are where it was before
    assignment.answered = false;
    if (assignment.arrived()) {
      states_[workload].plan->assignments.SetPhase(assignment, MemberPhase::kReleased);
    }
    assignment.bind_error.clear();
    ResolveTickets(pod.object.meta.uid, ResolveBind::Resolution::kError,
                   "berth: planned on another node now");
    const bool released = assignment.managed && !assignment.waits_turn();
    if (&pod != caller && released) Release(workload, assignment);
  }
}

/// A member whose node had refused it is released, there or elsewhere.
void Engine::CommitRetry(const Workload& workload, const Reservation& decision, TimePoint now) {
  const policy::Placed& placed = decision.placed.front();
  Assignment& place = *FindAssignment(*placed.pod);
  Reserve(place, placed);
  place.held_until = 0;
  place.answered = false;
  place.expires = now + store_.policy().gang.plan_timeout.count();
  timers_.At(place.expires, workload.key);
  Release(workload, place);
}

/// Members that the last process planned and released. What it may not have written is written
/// again.
void Engine::CommitRecover(const Workload& workload, const Reservation& decision, TimePoint now) {
  Plan& plan = BeginPlan(workload, decision.plan);
  plan.started = true;
  plan.expires = now + store_.policy().gang.plan_timeout.count();
  timers_.At(plan.expires, workload.key);
  const Shapes called = CalledShapes(workload);
  for (std::size_t i = 0; i < decision.placed.size(); ++i) {
    const policy::Placed& placed = decision.placed[i];
    Assignment& place = AddPlace(workload, *placed.pod, called);
    Reserve(place, placed);
    place.rank = decision.ranks[i];
    plan.assignments.SetPhase(place, MemberPhase::kReleased);
    const kube::Pod& object = placed.pod->object;
    if (HasOurGate(*placed.pod) || object.nominated_node != store_.node(placed.node).name) {
      Release(workload, place);
    }
  }
}

/// The member keeps its place, and is not released before `until`.
void Engine::HoldPlace(const Workload& workload, Assignment& place, TimePoint until) {
  place.held_until = until;
  timers_.At(until, workload.key);
}

/// What a workload that was denied quota waits for.
Wakeups::Wish Engine::WishOf(const Workload& workload, const Verdict& denied) {
  const bool own = denied.queue.empty();
  return {.queue = own ? workload.queue : store_.FindQueue(denied.queue),
          .own = own,
          .id = store_.resources().Intern(denied.subject),
          .amount = denied.want};
}

/// The workload does not start: it waits, and rests where it is known exactly for what.
void Engine::CommitRefusal(const Workload& workload, const StartDecision& decision,
                           const PreemptorDecision& may) {
  if (decision.failure && wakeups_.Known(*decision.failure) == nullptr) {
    wakeups_.Remember(*decision.failure, decision.verdict);
  }
  SetVerdict(workload, decision.verdict);
  if (may.would_preempt) {
    LetPreempt(*workload.members.front());
  } else if (may.preemptor && !wakeups_.CannotPreempt(*may.preemptor)) {
    wakeups_.RememberHopeless(*may.preemptor, may.by_count);
  }
  if (may.unsure || decision.rests_on == StartDecision::RestsOn::kNothing) return;
  const Turn turn = TurnOf(workload, store_, states_.At(workload));
  switch (decision.rests_on) {
    case StartDecision::RestsOn::kNothing:
      break;
    case StartDecision::RestsOn::kQuota:
      wakeups_.RestForQuota(workload, turn, WishOf(workload, decision.verdict), may.preemptor);
      break;
    case StartDecision::RestsOn::kRoom:
      wakeups_.RestForRoom(workload, turn, *decision.failure, may.preemptor);
      break;
  }
}

void Engine::LogPlan(const Workload& workload, const Reservation& decision, const std::string& id) {
  Decision line{.kind = "plan",
                .workload = workload.key,
                .queue = QueueName(workload.queue),
                .plan = id,
                .generation = store_.generation()};
  for (const policy::Placed& placed : decision.placed) {
    line.placed.emplace_back(placed.pod->object.meta.name, store_.node(placed.node).name);
  }
  if (options_.explain_decisions) {
    const PodInfo& first = *decision.placed.front().pod;
    const NodeIndex chosen = decision.placed.front().node;
    const policy::Overlay overlay(store_);
    NodeIndex runner_up = cluster::kNoNode;
    policy::Score best = 0;
    const auto view = scorer_.For(first.shape, overlay);
    for (const auto& node : store_.nodes()) {
      const policy::Score score = view.Of(node->index);
      if (score == policy::ShapeScores::kNoRoom) continue;
      ++line.candidates;
      if (node->index == chosen) continue;
      if (runner_up == cluster::kNoNode || score > best) {
        runner_up = node->index;
        best = score;
      }
    }
    line.chosen = scorer_.Terms(*first.shape, overlay, chosen);
    if (runner_up != cluster::kNoNode) {
      line.runner_up = store_.node(runner_up).name;
      line.next_best = scorer_.Terms(*first.shape, overlay, runner_up);
    }
  }
  actions_.push_back(std::move(line));
}

}  // namespace berth::engine
