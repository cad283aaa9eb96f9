#include "engine/eviction.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "engine/min_run_time.h"
#include "policy/fit.h"
#include "policy/neighbours.h"

namespace berth::engine {

using cluster::Charge;
using cluster::PodInfo;
using cluster::ReasonId;
using cluster::Workload;

namespace {

using Pods = std::vector<const PodInfo*>;

bool MayEvictOthers(const View& view, const Workload& workload) {
  return workload.gang && !workload.in_tree && !workload.started &&
         workload.queue != cluster::kNoQueue && MayPreempt(view.store, workload.queue) &&
         std::ranges::none_of(workload.members,
                              [](const PodInfo* pod) { return pod->object.preempt_never; });
}

/// Besides what helps a single pod: a domain may have room once its work has ended.
bool MayHelp(ReasonId reason) {
  return EvictionHelps(reason) || reason == ReasonId::kTopologyUnsatisfied ||
         reason == ReasonId::kSearchExhausted;
}

/// Bound pods that end anyway: their room comes without an eviction.
Pods EndingPods(const View& view) {
  Pods ending;
  for (const auto& node : view.store.nodes()) {
    for (const PodInfo* pod : node->pods) {
      if (!pod->terminating() || *pod->object.meta.deletion + kStuckAfter < view.now) continue;
      ending.push_back(pod);
    }
  }
  std::ranges::sort(ending, {}, [](const PodInfo* pod) { return pod->object.meta.uid; });
  return ending;
}

/// What `workload` holds, if all of it may be taken from it.
std::optional<VictimJob> JobOf(const View& view, const Workload& workload) {
  VictimJob job{.workload = &workload};
  for (const PodInfo* pod : workload.members) {
    if (pod->charge == Charge::kNone) continue;
    if (IsSpared(*pod)) return std::nullopt;
    const MemberState& state = view.states.At(*pod);
    if (!state.victim_of.empty() || state.spared_until > view.now) return std::nullopt;
    job.pods.push_back(pod);
    job.runs |= pod->charge != Charge::kPlanned;
  }
  if (job.pods.empty()) return std::nullopt;
  if (!job.runs) {
    const std::optional<Plan>& plan = view.states.At(workload).plan;
    if (!plan || plan->started) return std::nullopt;
    // Once others were evicted for it, the room is that plan's until its members are bound.
    const bool by_scheduler = plan->evicting == Evicting::kNo && !plan->victims.empty();
    if (plan->evicting == Evicting::kSent || by_scheduler) return std::nullopt;
  }
  for (const PodInfo* pod : job.pods) {
    for (const auto& [id, amount] : pod->charged) {
      const auto& devices = view.store.device_ids();
      if (std::ranges::find(devices, id) != devices.end()) job.devices += amount;
    }
  }
  if (job.runs) job.from = OfAgeAt(view, workload);
  return job;
}

bool IsLower(const Workload& victim, const Workload& preemptor) {
  return victim.priority < preemptor.priority &&
         std::ranges::all_of(victim.members, [&](const PodInfo* pod) {
           return pod->charge == Charge::kNone || (pod->charged_queue == preemptor.queue &&
                                                   pod->object.priority < preemptor.priority);
         });
}

using Jobs = std::vector<const VictimJob*>;

/// How many pods of the shape have room on the node, at most `most`, by counting alone.
int PlacesOn(const View& view, const cluster::PodShape& shape, cluster::NodeIndex node,
             const policy::Overlay& room, int most) {
  if (view.scorer.fit().Row(shape)[static_cast<std::size_t>(node)] == 0) return 0;
  return policy::Capacity(shape, room, node, most);
}

/// Whether, by counting alone, `min` of the pods have room. Only for pods of one shape.
bool HasPlaces(const View& view, const Pods& pods, int min) {
  const policy::Overlay room = RoomOf(view);
  int places = 0;
  for (const auto& node : view.store.nodes()) {
    places += PlacesOn(view, *pods.front()->shape, node->index, room, min - places);
    if (places >= min) return true;
  }
  return false;
}

/// How many pods like one have room, node by node, once jobs have ended.
class Places {
 public:
  /// `view` and `ended` must outlive it. No node counts for more than `most`.
  Places(const View& view, const cluster::PodShape& shape, const Pods& ended, int most)
      : view_(view), shape_(shape), most_(most) {
    for (const PodInfo* pod : ended) ended_[pod->node].push_back(pod);
    policy::Overlay room(view.store);
    for (const PodInfo* pod : ended) room.Remove(*pod);
    for (const auto& node : view.store.nodes()) all_ += On(node->index, room);
  }

  /// If all have ended but the pods of `job`.
  int Without(const VictimJob& job) const {
    std::set<cluster::NodeIndex> nodes;
    for (const PodInfo* pod : job.pods) nodes.insert(pod->node);
    policy::Overlay room(view_.store);
    policy::Overlay less(view_.store);
    int places = all_;
    for (const cluster::NodeIndex node : nodes) {
      for (const PodInfo* pod : ended_.at(node)) {
        room.Remove(*pod);
        if (std::ranges::find(job.pods, pod) == job.pods.end()) less.Remove(*pod);
      }
      places += On(node, less) - On(node, room);
    }
    return places;
  }

 private:
  int On(cluster::NodeIndex node, const policy::Overlay& room) const {
    return PlacesOn(view_, shape_, node, room, most_);
  }

  const View& view_;
  const cluster::PodShape& shape_;
  const int most_;
  std::map<cluster::NodeIndex, Pods> ended_;
  int all_ = 0;
};

/// Judges sets of jobs.
class Chooser {
 public:
  Chooser(const View& view, const Workload& workload, const Pods& pods, int min, Pods ending)
      : view_(view),
        workload_(workload),
        pods_(pods),
        min_(min),
        ending_(std::move(ending)),
        alike_(std::ranges::all_of(
            pods, [&](const PodInfo* pod) { return pod->shape == pods.front()->shape; })) {}

  /// How the gang starts once these have ended, with what ends anyway. nullopt: it does not, or a
  /// budget forbids it, or there were too many searches.
  std::optional<Reservation> Start(std::span<const VictimJob* const> jobs) {
    Pods evicted = Running(jobs);
    if (BreaksBudgets(evicted, view_.store)) return std::nullopt;
    std::optional<Reservation> reserve = Search(jobs);
    if (!reserve) return std::nullopt;
    reserve->evicts = std::move(evicted);
    for (const VictimJob* job : jobs) {
      if (!job->runs) reserve->yields.push_back(job->workload);
    }
    NameVictims(*reserve, jobs);
    return reserve;
  }

  /// The same without budgets, as far as the placement goes.
  std::optional<Reservation> Search(std::span<const VictimJob* const> jobs) {
    if (searches_ == kMaxSearches) return std::nullopt;
    const Pods ended = Ended(jobs, ending_);
    View view = view_;
    view.ended = &ended;
    if (alike_ && !HasPlaces(view, pods_, min_)) return std::nullopt;
    ++searches_;
    return DecideStart(view, workload_, pods_, min_, nullptr).reserve;
  }

  /// The jobs of the set that cannot be left out, one by one, as far as counting tells.
  std::set<const VictimJob*> Needed(const Jobs& jobs) const {
    std::set<const VictimJob*> needed;
    if (!alike_) return needed;
    const Pods ended = Ended(jobs, ending_);
    const Places places(view_, *pods_.front()->shape, ended, min_);
    for (const VictimJob* job : jobs) {
      if (places.Without(*job) < min_) needed.insert(job);
    }
    return needed;
  }

  /// Of the jobs, those whose eviction some budget forbids together with those before them.
  Jobs BreakingBudgets(std::span<const VictimJob* const> jobs) const {
    Jobs within;
    Jobs breaking;
    for (const VictimJob* job : jobs) {
      within.push_back(job);
      if (!BreaksBudgets(Running(within), view_.store)) continue;
      within.pop_back();
      breaking.push_back(job);
    }
    return breaking;
  }

 private:
  static Pods Ended(std::span<const VictimJob* const> jobs, Pods ended) {
    for (const VictimJob* job : jobs) ended.insert(ended.end(), job->pods.begin(), job->pods.end());
    return ended;
  }
  static Pods Running(std::span<const VictimJob* const> jobs) {
    Pods pods;
    for (const VictimJob* job : jobs) {
      for (const PodInfo* pod : job->pods) {
        if (job->runs && pod->charge != Charge::kPlanned) pods.push_back(pod);
      }
    }
    return pods;
  }

  /// The room is held until all of these have ended: who is evicted, who ends on the nodes of the
  /// plan, and, if the quota is not enough before, everybody who ends and gives quota back.
  void NameVictims(Reservation& reserve, std::span<const VictimJob* const> jobs) const {
    std::set<cluster::NodeIndex> nodes;
    for (const policy::Placed& placed : reserve.placed) nodes.insert(placed.node);
    const auto there = [&](const PodInfo* pod) { return nodes.contains(pod->node); };
    Pods awaited;
    std::ranges::copy_if(ending_, std::back_inserter(awaited), there);
    const Pods ended = Ended(jobs, awaited);
    View view = view_;
    view.ended = &ended;
    if (GrantCharge(view, workload_, reserve.placed).reason != ReasonId::kNone) awaited = ending_;
    for (const PodInfo* pod : reserve.evicts) reserve.victims.push_back(pod->object.meta.uid);
    for (const PodInfo* pod : awaited) reserve.victims.push_back(pod->object.meta.uid);
  }

  const View& view_;
  const Workload& workload_;
  const Pods& pods_;
  const int min_;
  const Pods ending_;
  const bool alike_;
  int searches_ = 0;
};

/// The less is the better set.
auto RankOf(std::span<const VictimJob* const> jobs) {
  std::int64_t gangs = 0;
  std::int64_t devices = 0;
  std::vector<std::int32_t> priorities;
  std::vector<std::int64_t> ages;
  std::vector<std::string_view> uids;
  for (const VictimJob* job : jobs) {
    if (!job->runs) continue;
    gangs += job->workload->gang ? 1 : 0;
    devices += job->devices;
    priorities.push_back(job->workload->priority);
    ages.push_back(-job->workload->creation);
    uids.push_back(job->pods.front()->object.meta.uid);
  }
  std::ranges::sort(priorities, std::ranges::greater{});
  std::ranges::sort(ages, std::ranges::greater{});
  std::ranges::sort(uids);
  return std::tuple(gangs, devices, std::move(priorities), std::move(ages), jobs.size(),
                    std::move(uids));
}

/// All sets, the best first.
std::optional<Reservation> ChooseExactly(const std::vector<VictimJob>& jobs, Chooser& chooser) {
  std::vector<Jobs> sets;
  for (unsigned mask = 1; mask < 1U << jobs.size(); ++mask) {
    Jobs set;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      if ((mask >> i & 1U) != 0) set.push_back(&jobs[i]);
    }
    sets.push_back(std::move(set));
  }
  std::ranges::stable_sort(sets, {}, [](const Jobs& set) { return RankOf(set); });
  for (const Jobs& set : sets) {
    if (auto start = chooser.Start(set)) return start;
  }
  return std::nullopt;
}

/// Of `jobs`, those on the nodes of the plan, if they are enough.
void DropElsewhere(Jobs& jobs, const Reservation& plan, Chooser& chooser) {
  std::set<cluster::NodeIndex> nodes;
  for (const policy::Placed& placed : plan.placed) nodes.insert(placed.node);
  const auto is_there = [&](const PodInfo* pod) { return nodes.contains(pod->node); };
  Jobs there;
  std::ranges::copy_if(jobs, std::back_inserter(there), [&](const VictimJob* job) {
    return std::ranges::any_of(job->pods, is_there);
  });
  if (there.size() < jobs.size() && chooser.Search(there)) jobs = std::move(there);
}

/// Of `jobs`, the shortest part from the front that is enough, and of that what cannot be left out:
/// the last ones are left out first. Empty: all together are not enough.
Jobs MinimalOf(Jobs jobs, Chooser& chooser) {
  std::optional<Reservation> plan = chooser.Search(jobs);
  if (!plan) return {};
  std::size_t least = 1;
  std::size_t most = jobs.size();
  while (least < most) {
    const std::size_t middle = (least + most) / 2;
    if (auto fewer = chooser.Search(std::span(jobs).first(middle))) {
      plan = std::move(fewer);
      most = middle;
    } else {
      least = middle + 1;
    }
  }
  jobs.resize(most);
  DropElsewhere(jobs, *plan, chooser);
  // Who is needed now is all the more needed in a smaller set.
  const std::set<const VictimJob*> needed = chooser.Needed(jobs);
  for (std::size_t i = jobs.size(); i-- > 0 && jobs.size() > 1;) {
    if (needed.contains(jobs[i])) continue;
    Jobs fewer = jobs;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    if (chooser.Search(fewer)) jobs = std::move(fewer);
  }
  return jobs;
}

/// Where budgets forbid the set that is found, it is looked for again without the jobs that they
/// forbid.
std::optional<Reservation> ChooseMinimal(const std::vector<VictimJob>& candidates,
                                         Chooser& chooser) {
  constexpr int kMaxRounds = 16;
  Jobs order;
  for (const VictimJob& job : candidates) order.push_back(&job);
  std::ranges::stable_sort(order, {}, [](const VictimJob* job) {
    return std::pair(job->runs, job->runs && job->workload->gang);
  });
  for (int round = 0; round < kMaxRounds; ++round) {
    const Jobs jobs = MinimalOf(order, chooser);
    if (jobs.empty()) return std::nullopt;
    const Jobs forbidden = chooser.BreakingBudgets(jobs);
    if (forbidden.empty()) return chooser.Start(jobs);
    std::erase_if(order, [&](const VictimJob* job) {
      return std::ranges::find(forbidden, job) != forbidden.end();
    });
  }
  return std::nullopt;
}

/// Leaves out the jobs that may not be evicted yet. Returns when the first of them may be; 0: there
/// are none.
TimePoint LeaveOutYoung(std::vector<VictimJob>& jobs, TimePoint now) {
  TimePoint first = 0;
  std::erase_if(jobs, [&](const VictimJob& job) {
    if (job.from <= now) return false;
    first = Earlier(first, job.from);
    return true;
  });
  return first;
}

/// How the gang is known where it is remembered that nobody can be evicted for it. nullopt:
/// counting does not tell, because its members differ, neighbours matter or nodes have refused it.
std::optional<Preemptor> PreemptorOf(const View& view, const Workload& workload, const Pods& pods,
                                     int min) {
  const policy::Overlay room(view.store);
  const auto plain = [&](const PodInfo* pod) {
    return pod->shape == pods.front()->shape && !policy::NeighboursMatter(*pod, room);
  };
  if (!std::ranges::all_of(pods, plain)) return std::nullopt;
  if (!view.refusals.Of(workload, pods).empty()) return std::nullopt;
  const bool capped = view.store.queue(workload.queue).config.max_jobs_per_user > 0;
  return Preemptor{.shape = pods.front()->shape,
                   .queue = workload.queue,
                   .priority = workload.priority,
                   .members = min,
                   .required = workload.topology_required,
                   .user = capped ? workload.user : std::string()};
}

}  // namespace

std::vector<VictimJob> FindVictimJobs(const View& view, const Workload& workload) {
  std::set<const Workload*, cluster::ByKey> seen;
  std::vector<VictimJob> jobs;
  for (const auto& node : view.store.nodes()) {
    for (const PodInfo* pod : node->pods) {
      const Workload* holder = pod->workload;
      if (pod->charged_queue != workload.queue || holder == nullptr || holder == &workload)
        continue;
      if (pod->terminating() || !seen.insert(holder).second) continue;
      if (!IsLower(*holder, workload)) continue;
      if (auto job = JobOf(view, *holder)) jobs.push_back(*std::move(job));
    }
  }
  std::ranges::sort(jobs, {}, [](const VictimJob& job) {
    return std::tuple(job.workload->priority, -job.workload->creation,
                      std::string_view(job.pods.front()->object.meta.uid));
  });
  return jobs;
}

PreemptorDecision DecideStartByEviction(const View& view, const Workload& workload, Pods pods,
                                        int min, ReasonId reason, const Wakeups* memo) {
  if (!MayEvictOthers(view, workload) || !MayHelp(reason)) return {};
  PreemptorDecision decision{.preemptor = PreemptorOf(view, workload, pods, min)};
  decision.unsure = !decision.preemptor;
  if (decision.preemptor && memo != nullptr && memo->CannotPreempt(*decision.preemptor)) {
    return decision;
  }
  if (!view.store.HoldsBelow(workload.queue, workload.priority)) {
    decision.by_count = true;
    return decision;
  }
  view.work += std::ssize(view.store.nodes());
  if (decision.preemptor) {
    const auto may = [&](const auto& node) {
      return RoomWithVictims(*decision.preemptor, node->index, view.store);
    };
    decision.by_count = std::ranges::none_of(view.store.nodes(), may);
    if (decision.by_count) return decision;
  }
  std::vector<VictimJob> jobs = FindVictimJobs(view, workload);
  decision.again = LeaveOutYoung(jobs, view.now);
  if (jobs.empty()) return decision;
  const Pods ending = EndingPods(view);
  for (const PodInfo* pod : ending) {
    const TimePoint stuck = *pod->object.meta.deletion + kStuckAfter + 1;
    decision.again = Earlier(decision.again, stuck);
  }
  Chooser chooser(view, workload, pods, min, ending);
  Jobs all;
  for (const VictimJob& job : jobs) all.push_back(&job);
  // It only has to wait, or it never fits.
  if (chooser.Search({}) || !chooser.Search(all)) return decision;
  decision.reserve =
      jobs.size() <= kExactJobs ? ChooseExactly(jobs, chooser) : ChooseMinimal(jobs, chooser);
  return decision;
}

std::optional<Reservation> DecideResumedStart(const View& view, const Workload& workload, Pods pods,
                                              int min, Pods marked) {
  // A mark is only a claim: who does not end yet must be one that may be evicted. Its time was
  // judged by who marked it: another clock, or an edit since, leaves no eviction half done.
  std::erase_if(marked, [&](const PodInfo* pod) {
    return !pod->terminating() && (pod->workload == nullptr || !IsLower(*pod->workload, workload) ||
                                   !JobOf(view, *pod->workload));
  });
  if (!MayEvictOthers(view, workload) || std::ranges::none_of(marked, &PodInfo::terminating)) {
    return std::nullopt;
  }
  View after = view;
  after.ended = &marked;
  StartDecision start = DecideStart(after, workload, std::move(pods), min, nullptr);
  if (!start.reserve) return std::nullopt;
  for (const PodInfo* pod : marked) {
    start.reserve->victims.push_back(pod->object.meta.uid);
    start.reserve->evicts.push_back(pod);
  }
  return std::move(start.reserve);
}

}  // namespace berth::engine
