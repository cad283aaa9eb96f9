#include "engine/candidates.h"

#include <algorithm>
#include <compare>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "engine/min_run_time.h"
#include "engine/victim_choice.h"
#include "engine/victims.h"
#include "policy/fit.h"
#include "policy/node_groups.h"
#include "policy/rank_order.h"

namespace berth::engine {

using cluster::Charge;
using cluster::PodInfo;
using cluster::Workload;

namespace {

using Pods = std::vector<const PodInfo*>;

/// It is bound, or its Binding is under way, and it is not about to end.
bool Stays(const States& states, const PodInfo& pod) {
  return (pod.bound() || pod.charge == Charge::kBinding) && !pod.terminating() &&
         states.At(pod).victim_of.empty();
}

/// These pods of `workload`, which are charged to one queue.
VictimJob PartOf(const View& view, const Workload& workload, Pods pods) {
  VictimJob job{.workload = &workload, .queue = pods.front()->charged_queue};
  for (const PodInfo* pod : pods) {
    if (pod->charge != Charge::kPlanned) job.running.push_back(pod);
    for (const auto& [id, amount] : pod->charged) {
      const auto& devices = view.store.device_ids();
      const bool counts = std::ranges::find(devices, id) != devices.end();
      if (counts && view.store.IsWholeDevice(id)) job.devices += amount;
    }
  }
  job.runs = !job.running.empty();
  job.warned = std::ranges::any_of(
      job.running, [&](const PodInfo* pod) { return view.states.At(*pod).evict_at != 0; });
  if (job.runs) job.from = OfAgeAt(view, workload);
  job.pods = std::move(pods);
  return job;
}

/// In device seconds.
std::int64_t WorkOf(const View& view, const Workload& workload, std::int64_t devices) {
  return devices * ((view.now - LostSince(view, workload)) / 1000) / cluster::kMilli;
}

/// How useful it is for a workload that pods of one gang end on a node. The least comes first.
struct Use {
  enum class Of : std::uint8_t {
    kRoom,  ///< Some of them alone make room for a member of it.
    kPart,  ///< The node could hold a member, if others ended, too.
    kNone,
  };
  Of of = Of::kNone;
  int needed = 0;  ///< kRoom: how many of them make the room.
  /// kRoom, if several are needed: the node's place, so that members on one node go together.
  int node = 0;
  auto operator<=>(const Use&) const = default;
};

/// By node, of the nodes of these pods, which may go in that order, at most `most` of them.
std::map<cluster::NodeIndex, Use> UsesOf(const View& view, const Pods& order, int most,
                                         const Workload& beneficiary) {
  const auto& shape = LargestShape(beneficiary.members);
  const auto fits = view.scorer.fit().Row(*shape);
  const Ending& ending = view.ending.Of(view);
  view.scorer.Refresh();
  std::map<cluster::NodeIndex, Pods> there;
  std::vector<cluster::NodeIndex> nodes;
  for (const PodInfo* pod : order) {
    Pods& pods = there[pod->node];
    if (pods.empty()) nodes.push_back(pod->node);
    pods.push_back(pod);
  }
  std::map<cluster::NodeIndex, Use> uses;
  for (const cluster::NodeIndex node : nodes) {
    Use& use = uses[node];
    policy::Overlay room(view.store);
    const bool could = node != cluster::kNoNode && fits[static_cast<std::size_t>(node)] != 0 &&
                       policy::Capacity(*shape, room, node, 1, policy::Looking::kAtEmptyNode) > 0;
    if (!could) continue;
    use.of = Use::Of::kPart;
    if (const auto ends = ending.by_node.find(node); ends != ending.by_node.end()) {
      for (const PodInfo* pod : ends->second) room.Remove(*pod);
    }
    const policy::Scorer::View places = view.scorer.For(shape, room);
    const Pods& pods = there[node];
    for (int i = 0; i < std::min(most, static_cast<int>(pods.size())); ++i) {
      room.Remove(*pods[static_cast<std::size_t>(i)]);
      if (places.Room(node) == 0) continue;
      use = {.of = Use::Of::kRoom, .needed = i + 1};
      if (i > 0) use.node = static_cast<int>(std::ranges::find(nodes, node) - nodes.begin());
      break;
    }
  }
  return uses;
}

/// Of these nodes, those that are as good as `first` for work that requires one domain for all its
/// pods: the ones in the same domain. Otherwise it is `first` alone.
std::set<cluster::NodeIndex> NodesLike(const View& view, cluster::NodeIndex first,
                                       const Workload& beneficiary,
                                       const std::map<cluster::NodeIndex, Use>& nodes) {
  std::set<cluster::NodeIndex> like;
  if (first == cluster::kNoNode) return like;
  like.insert(first);
  const auto domain_of = [&](cluster::NodeIndex node) {
    return policy::GroupOf(view.store, beneficiary.topology_required, view.store.node(node));
  };
  if (beneficiary.topology_required.empty()) return like;
  const auto domain = domain_of(first);
  for (const auto& [node, use] : nodes) {
    if (domain && node != cluster::kNoNode && domain_of(node) == domain) like.insert(node);
  }
  return like;
}

/// The surplus of an elastic gang that runs, in the order in which it goes: members that are only
/// planned, members on the node `first` or in its domain (NodesLike), members on a node that
/// `beneficiary` could use, then by the lowest priority, then the highest rank.
Pods SurplusOf(const View& view, const Workload& gang, const Workload& beneficiary,
               cluster::QueueId queue, cluster::NodeIndex first) {
  if (!gang.gang || !gang.started || gang.in_tree) return {};
  const auto is_planned = [](const PodInfo* pod) { return pod->charge == Charge::kPlanned; };
  int beyond = StayingMembers(view.states, gang) - gang.min_member;
  if (beyond < 0 || (beyond == 0 && std::ranges::none_of(gang.members, is_planned))) return {};
  const auto may_go = [&](const PodInfo* pod) {
    return pod->shape->asks_device && pod->charged_queue == queue && !IsSpared(*pod) &&
           (is_planned(pod) || Stays(view.states, *pod));
  };
  Pods order = policy::RankOrder(gang.members);
  std::ranges::reverse(order);
  std::erase_if(order, [&](const PodInfo* pod) { return !may_go(pod); });
  std::ranges::stable_sort(order, {}, [&](const PodInfo* pod) {
    return std::pair(!is_planned(pod), pod->object.priority);
  });
  const auto uses = UsesOf(view, order, beyond, beneficiary);
  const auto firsts = NodesLike(view, first, beneficiary, uses);
  std::ranges::stable_sort(order, {}, [&](const PodInfo* pod) {
    const bool later = first != cluster::kNoNode && !firsts.contains(pod->node);
    return std::tuple(!is_planned(pod), later, uses.at(pod->node), pod->object.priority);
  });
  auto workers = std::ranges::count_if(gang.members, [&](const PodInfo* pod) {
    return pod->shape->asks_device && Stays(view.states, *pod);
  });
  Pods surplus;
  for (const PodInfo* pod : order) {
    if (!is_planned(pod) && (--beyond < 0 || --workers < 1)) break;
    surplus.push_back(pod);
  }
  return surplus;
}

/// Whether the last evictions for the plan were sent a moment ago: the answers are to come, or all
/// were accepted, and the watch is to show it. If some were refused, it may take long.
bool IsBeingDone(const cluster::Store& store, const Plan& plan) {
  return !plan.evictions.unanswered.empty() ||
         std::ranges::all_of(plan.victims, [&](const std::string& uid) {
           const PodInfo* pod = store.FindPod(uid);
           return pod == nullptr || pod->terminating() || plan.evictions.accepted.contains(uid);
         });
}

/// `pods`, which are all that `workload` holds or what it holds without its surplus, if all of them
/// may be taken from it, and all in one queue.
std::optional<VictimJob> WholeOf(const View& view, const Workload& workload, Pods pods) {
  const std::optional<Plan>& plan = view.states.At(workload).plan;
  const bool waits = plan && !plan->started && !plan->joins;
  // A launcher that runs ahead of its gang has no devices to give, and goes on.
  if (waits) {
    std::erase_if(pods, [](const PodInfo* pod) {
      return pod->charge != Charge::kPlanned && !pod->shape->asks_device;
    });
  }
  if (pods.empty()) return std::nullopt;
  const cluster::QueueId queue = pods.front()->charged_queue;
  for (const PodInfo* pod : pods) {
    if (IsSpared(*pod) || pod->charged_queue != queue) return std::nullopt;
    const MemberState& state = view.states.At(*pod);
    if (!state.victim_of.empty() || state.spared_until > view.now) return std::nullopt;
  }
  VictimJob job = PartOf(view, workload, std::move(pods));
  job.inherits = waits && plan->evictions.stage == Evicting::kSent;
  if (!job.runs) {
    if (!waits) return std::nullopt;
    // Once others are evicted for it, the room is that plan's until its members are bound, or until
    // it is inherited. An eviction that is under way is for this plan, and not for another one.
    const bool under_way = job.inherits && !HasEvictedAll(view.store, *plan);
    if (plan->by_scheduler() || (under_way && !IsBeingDone(view.store, *plan))) return std::nullopt;
    job.under_way = under_way;
  }
  return job;
}

/// Whether the gang runs, and others were evicted for members that are not bound yet: if it were
/// evicted now, these would have ended in vain.
bool UsesRoomOfEvicted(const View& view, const Workload& workload) {
  const std::optional<Plan>& plan = view.states.At(workload).plan;
  return workload.started && plan && plan->evictions.stage == Evicting::kSent;
}

/// The jobs of `workload` that may be taken from it for `beneficiary`; the whole last.
std::vector<VictimJob> JobsOf(const View& view, const Workload& workload,
                              const Workload& beneficiary, cluster::NodeIndex first) {
  std::vector<VictimJob> jobs;
  if (UsesRoomOfEvicted(view, workload)) return jobs;
  Pods rest;
  std::ranges::copy_if(workload.members, std::back_inserter(rest),
                       [](const PodInfo* pod) { return pod->charge != Charge::kNone; });
  if (rest.empty()) return jobs;
  const cluster::QueueId queue = rest.front()->charged_queue;
  for (const PodInfo* pod : SurplusOf(view, workload, beneficiary, queue, first)) {
    if (view.states.At(*pod).spared_until > view.now) continue;
    VictimJob& job = jobs.emplace_back(PartOf(view, workload, {pod}));
    job.surplus = true;
    job.place = static_cast<int>(jobs.size()) - 1;
    std::erase(rest, pod);
  }
  std::optional<VictimJob> whole = WholeOf(view, workload, std::move(rest));
  if (!whole || whole->queue != queue) return jobs;
  whole->before = static_cast<int>(jobs.size());
  whole->work = whole->runs ? WorkOf(view, workload, whole->devices) : 0;
  for (VictimJob& surplus : jobs) surplus.work = whole->work;
  jobs.push_back(*std::move(whole));
  return jobs;
}

bool IsLower(const VictimJob& job, const Workload& preemptor) {
  return job.workload->priority < preemptor.priority &&
         std::ranges::all_of(job.pods, [&](const PodInfo* pod) {
           return pod->charged_queue == preemptor.queue &&
                  pod->object.priority < preemptor.priority;
         });
}

/// Whether its plan evicts others, or is about to, and not all of that is done.
bool Evicts(const View& view, const Workload& workload) {
  const std::optional<Plan>& plan = view.states.At(workload).plan;
  return plan && plan->evictions.stage != Evicting::kNo && !HasEvictedAll(view.store, *plan);
}

/// Keeps, of the jobs of one workload of another queue, the ones for which, taken alone, `may_go`
/// is true of what its queue loses: surplus pod by pod, and, at once, all that runs.
template <typename MayGo>
void KeepLosable(std::vector<VictimJob>& jobs, const MayGo& may_go) {
  const bool whole = !jobs.back().surplus;
  // Plans of other queues that have not started are bound soon, or give way to time.
  if (whole && !jobs.back().runs) return jobs.clear();
  if (whole) {
    Pods all;
    for (const VictimJob& job : jobs) {
      all.insert(all.end(), job.running.begin(), job.running.end());
    }
    if (may_go({.queue = jobs.back().queue, .pods = all})) return;  // sets are judged again
    jobs.pop_back();
  }
  std::erase_if(jobs, [&](const VictimJob& job) {
    return !may_go({.queue = job.queue, .pods = job.running});
  });
}

/// The ones of `jobs` that could be taken with some of the others (policy::Reach). In `jobs`, the
/// jobs of one workload are beside each other.
std::vector<VictimJob> ClaimableOf(std::vector<VictimJob> jobs, const Workload& workload,
                                   const policy::Exchange& exchange, policy::Losable& losable,
                                   const cluster::Demand& wants) {
  std::vector<policy::Loss> all;
  for (const VictimJob& job : jobs) all.push_back({.queue = job.queue, .pods = job.running});
  policy::Reach reach(exchange, wants, all);
  const auto is_whole = [&](const policy::Loss& loss) { return losable.IsWhole(loss); };
  std::vector<VictimJob> claimable;
  for (auto first = jobs.begin(); first != jobs.end();) {
    const auto next = std::find_if(
        first, jobs.end(), [&](const VictimJob& job) { return job.workload != first->workload; });
    std::vector<VictimJob> part;
    std::move(first, next, std::back_inserter(part));
    first = next;
    if (part.front().queue != workload.queue) {
      const policy::Claim claim = reach.Of(part.front().queue);
      if (claim == policy::Claim::kNone) continue;
      // Straddlers are for what a quota promises.
      if (claim == policy::Claim::kFairShare) KeepLosable(part, is_whole);
    }
    std::ranges::move(part, std::back_inserter(claimable));
  }
  return claimable;
}

/// In the order in which they are taken first. There may be tens of thousands: what they are
/// compared by is looked up once, and only that is moved while they are sorted.
std::vector<VictimJob> InOrder(std::vector<VictimJob> jobs) {
  using Key = std::tuple<std::int32_t, std::int64_t, TimePoint, std::string_view, bool, int>;
  std::vector<std::pair<Key, std::size_t>> order;
  order.reserve(jobs.size());
  for (const VictimJob& job : jobs) {
    const Workload& workload = *job.workload;
    order.emplace_back(Key(workload.priority, job.work, -workload.creation,
                           workload.members.front()->object.meta.uid, !job.surplus, job.place),
                       order.size());
  }
  std::ranges::sort(order);
  std::vector<VictimJob> sorted;
  sorted.reserve(jobs.size());
  for (const auto& [key, index] : order) sorted.push_back(std::move(jobs[index]));
  return sorted;
}

/// As TakeableOf, with members on the node `first_node` first.
std::vector<VictimJob> TakeableFrom(const View& view, const Workload& holder,
                                    const Workload& workload, Sources sources,
                                    policy::Losable* losable, cluster::NodeIndex first_node) {
  std::vector<VictimJob> jobs = JobsOf(view, holder, workload, first_node);
  if (jobs.empty()) return jobs;
  const VictimJob& first = jobs.front();
  if (first.queue != workload.queue) {
    if (losable == nullptr || first.queue == cluster::kNoQueue) return {};
    KeepLosable(jobs, [&](const policy::Loss& loss) { return (*losable)(loss); });
    return jobs;
  }
  // If a plan yielded, the pods that it is about to evict would count in their queues again.
  const bool evicts = !first.surplus && Evicts(view, holder);
  if (!sources.lower || (losable != nullptr && evicts)) return {};
  // The whole needs all surplus.
  const auto is_equal = [&](const VictimJob& job) { return !IsLower(job, workload); };
  if (std::ranges::any_of(jobs, is_equal) && !jobs.back().surplus) jobs.pop_back();
  std::erase_if(jobs, is_equal);
  return jobs;
}

}  // namespace

bool HasEvictedAll(const cluster::Store& store, const Plan& plan) {
  return plan.evictions.stage == Evicting::kSent && plan.evictions.unanswered.empty() &&
         plan.evictions.notices.empty() &&
         std::ranges::all_of(plan.victims, [&](const std::string& uid) {
           const PodInfo* pod = store.FindPod(uid);
           return pod == nullptr || pod->terminating();
         });
}

int StayingMembers(const States& states, const Workload& gang) {
  const auto stays = [&](const PodInfo* pod) { return Stays(states, *pod); };
  return static_cast<int>(std::ranges::count_if(gang.members, stays)) + gang.finished;
}

Sources SourcesOf(const View& view, const Workload& workload) {
  const bool lacks = !workload.started || workload.Missing() > 0;
  const bool waits = !workload.in_tree && lacks && workload.queue != cluster::kNoQueue;
  // A gang that is evicted for other work, or was told of it, evicts no pod; nor, for a while, does
  // work for which others were evicted in vain, or which names a claim that does not exist.
  const bool may =
      waits && view.states.At(workload).evicts_from <= view.now &&
      std::ranges::none_of(workload.members, [&](const PodInfo* pod) {
        const MemberState& state = view.states.At(*pod);
        return pod->object.preempt_never || !state.victim_of.empty() || state.evict_at != 0;
      });
  if (!may) return {};
  const config::Preemption& preemption = view.store.queue(workload.queue).config.preemption;
  return {.lower = preemption.within == config::Within::kLower,
          .others = view.store.policy().borrowing && view.store.queues().size() > 1 &&
                    preemption.reclaim == config::Reclaim::kAny};
}

std::vector<VictimJob> TakeableOf(const View& view, const Workload& holder,
                                  const Workload& workload, Sources sources,
                                  policy::Losable* losable) {
  std::vector<VictimJob> jobs =
      TakeableFrom(view, holder, workload, sources, losable, cluster::kNoNode);
  std::erase_if(jobs, &VictimJob::under_way);
  return jobs;
}

std::vector<VictimJob> FindVictimJobs(const View& view, const Workload& workload, Sources sources,
                                      const policy::Exchange* exchange,
                                      const cluster::Demand& wants, const SurplusFirst& first) {
  std::map<cluster::QueueId, std::int64_t> excesses;
  const auto excess_of = [&](cluster::QueueId queue) -> std::int64_t {
    if (queue == cluster::kNoQueue) return 0;
    const auto [known, fresh] = excesses.try_emplace(queue);
    if (fresh) known->second = exchange->Excess(queue);
    return known->second;
  };
  const bool others = exchange != nullptr && std::ranges::any_of(view.store.queues(), [&](auto id) {
                        return id != workload.queue && excess_of(id) > 0;
                      });
  if (!sources.lower && !others) return {};
  std::optional<policy::Losable> losable;
  if (others) losable.emplace(*exchange);
  std::unordered_set<const Workload*> seen;
  std::vector<VictimJob> jobs;
  for (const auto& node : view.store.nodes()) {
    for (const PodInfo* pod : node->pods) {
      const Workload* holder = pod->workload;
      const bool own = pod->charged_queue == workload.queue;
      if (own ? !sources.lower : !others) continue;
      if (holder == nullptr || holder == &workload || pod->terminating()) continue;
      if (own ? holder->priority >= workload.priority : excess_of(pod->charged_queue) == 0)
        continue;
      // The pods that are charged are members: one that is refused by itself holds no room.
      if (holder->members.size() > 1 && !seen.insert(holder).second) continue;
      const auto chosen = first.find(holder);
      const cluster::NodeIndex first_node =
          chosen == first.end() ? cluster::kNoNode : chosen->second;
      for (VictimJob& job : TakeableFrom(view, *holder, workload, sources,
                                         losable ? &*losable : nullptr, first_node)) {
        if (job.queue != workload.queue) job.excess = excess_of(job.queue);
        jobs.push_back(std::move(job));
      }
    }
  }
  if (losable) jobs = ClaimableOf(std::move(jobs), workload, *exchange, *losable, wants);
  return InOrder(std::move(jobs));
}

namespace {

/// By gang that has surplus among `jobs`, in the order of their keys: the nodes of its members that
/// might go and are not among these.
using OtherNodes = std::map<const Workload*, std::set<cluster::NodeIndex>, cluster::ByKey>;

OtherNodes NodesOfOthers(const View& view, const std::vector<VictimJob>& jobs) {
  std::set<const PodInfo*> chosen;
  OtherNodes nodes;
  for (const VictimJob& job : jobs) {
    if (!job.surplus || !job.runs) continue;
    nodes[job.workload];
    chosen.insert(job.pods.begin(), job.pods.end());
  }
  for (auto& [gang, others] : nodes) {
    for (const PodInfo* pod : gang->members) {
      const bool other = pod->shape->asks_device && Stays(view.states, *pod) && !IsSpared(*pod);
      if (other && !chosen.contains(pod)) others.insert(pod->node);
    }
  }
  std::erase_if(nodes, [](const auto& of_gang) { return of_gang.second.empty(); });
  return nodes;
}

/// A node for each of some gangs: all choices, the first ones of many.
std::vector<SurplusFirst> EachByItself(const OtherNodes& nodes) {
  std::vector<SurplusFirst> choices{{}};
  for (const auto& [gang, others] : nodes) {
    std::vector<SurplusFirst> more;
    for (const SurplusFirst& choice : choices) {
      for (const cluster::NodeIndex node : others) {
        if (choices.size() + more.size() > kMostExactSurplusChoices) break;
        more.emplace_back(choice)[gang] = node;
      }
    }
    std::ranges::move(more, std::back_inserter(choices));
  }
  choices.erase(choices.begin());  // as they are chosen anyway
  return choices;
}

/// One node for all gangs, first where most of what the jobs hold is.
std::vector<SurplusFirst> AllOnOneNode(const OtherNodes& nodes,
                                       const std::vector<VictimJob>& jobs) {
  std::set<cluster::NodeIndex> all;
  for (const auto& [gang, others] : nodes) all.insert(others.begin(), others.end());
  std::map<cluster::NodeIndex, std::int64_t> held;
  for (const VictimJob& job : jobs) {
    const std::int64_t each = job.devices / std::ssize(job.pods);
    for (const PodInfo* pod : job.pods) held[pod->node] += each;
  }
  std::vector<cluster::NodeIndex> most(all.begin(), all.end());
  std::ranges::stable_sort(most, std::ranges::greater{},
                           [&](cluster::NodeIndex node) { return held[node]; });
  most.resize(std::min(most.size(), kMostSurplusChoices));
  std::vector<SurplusFirst> choices;
  for (const cluster::NodeIndex node : most) {
    SurplusFirst& choice = choices.emplace_back();
    for (const auto& [gang, others] : nodes) choice[gang] = node;
  }
  return choices;
}

}  // namespace

std::vector<SurplusFirst> OtherSurplus(const View& view, const std::vector<VictimJob>& jobs) {
  const OtherNodes nodes = NodesOfOthers(view, jobs);
  return jobs.size() <= kExactJobs ? EachByItself(nodes) : AllOnOneNode(nodes, jobs);
}

}  // namespace berth::engine
