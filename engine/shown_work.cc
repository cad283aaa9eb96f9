#include "engine/shown_work.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <tuple>

#include "engine/decide.h"
#include "policy/workload_mix.h"

namespace berth::engine {

using cluster::PodInfo;
using cluster::QueueId;
using cluster::ReasonId;
using cluster::Workload;

namespace {

/// How long work waits for nodes before it is shown, and how often it is looked at whether quotas
/// cover it. Not less, since the fair shares by which others are evicted are up to a second old
/// (FairShareCache::Recent).
constexpr TimePoint kPause = 1'000;
/// The most pods that one call shows.
constexpr std::size_t kMostPods = 500;

bool Waits(const PodInfo& pod) {
  return !pod.bound() && !pod.terminating() && pod.charge == cluster::Charge::kNone &&
         !HasForeignGate(pod);
}

/// Adds the amounts of `demand` to `sum`.
void Add(const cluster::Demand& demand, cluster::Demand& sum) {
  for (const auto& part : demand) {
    const auto known = std::ranges::find(sum, part.first, &cluster::Demand::value_type::first);
    if (known == sum.end()) {
      sum.push_back(part);
    } else {
      known->second += part.second;
    }
  }
}

/// More or other nodes would help.
bool IsShortOfNodes(ReasonId reason) {
  switch (reason) {
    case ReasonId::kNeverFits:
    case ReasonId::kInsufficientDevices:
    case ReasonId::kInsufficientCpuOrMemory:
    case ReasonId::kNoMatchingNodes:
    case ReasonId::kFragmented:
    case ReasonId::kTopologyUnsatisfied:
      return true;
    default:
      return false;
  }
}

/// By its nodeSelector alone.
bool Admits(const PodInfo& pod, const config::Flavor& flavor) {
  const kube::StringMap& selector = pod.shape->spec->node_selector;
  return std::ranges::all_of(flavor.node_selector, [&](const auto& label) {
    const auto same = selector.find(label.first);
    return same == selector.end() || same->second == label.second;
  });
}

/// Others kept what it asked for when it was judged. If they use it themselves since, it waits for
/// nodes.
bool WaitedForLoans(const cluster::Store& store, const cluster::Verdict& verdict) {
  return verdict.reason == ReasonId::kWaitingForQuota && verdict.user.empty() &&
         verdict.queue.empty() && !store.keepers().empty();
}

/// Whether the pods would pass a cap, or need what others keep.
bool IsDenied(const policy::QuotaView& view, const Workload& workload,
              std::span<const PodInfo* const> pods, cluster::FlavorId flavor) {
  int granted = 0;
  const ReasonId reason = policy::GrantMembers(view, workload.queue, pods,
                                               static_cast<int>(pods.size()), granted, flavor)
                              .reason;
  return reason == ReasonId::kWaitingForQuota || reason == ReasonId::kExceedsLimit;
}

}  // namespace

bool ShownWork::Candidate::operator<(const Candidate& other) const {
  return std::tie(descending_priority, since, workload->key) <
         std::tie(other.descending_priority, other.since, other.workload->key);
}

/// Behind our gate, and not about to be ungated.
bool ShownWork::IsGated(const PodInfo& pod) const {
  return HasOurGate(pod) && !states_.At(pod).asked;
}

cluster::Demand ShownWork::DemandOf(const PodInfo& pod) const {
  return store_.LeastDemandOf(*pod.shape);
}

/// Whether autoscaler.show lets work of the queue be shown at all.
bool ShownWork::MayShow(QueueId queue) const {
  const config::Show show = store_.policy().autoscaler.show;
  if (show != config::Show::kWithinQuota) return show == config::Show::kAll;
  if (queue == cluster::kNoQueue) return false;
  return std::ranges::any_of(store_.queue(queue).path, [this](QueueId charged) {
    const config::Queue& config = store_.queue(charged).config;
    return !config.quota.empty() || !config.quotas.empty();
  });
}

bool ShownWork::WaitsForNodes(const Workload& workload) const {
  const WorkloadState& state = states_.At(workload);
  const bool waits = IsShortOfNodes(state.verdict.reason) || WaitedForLoans(store_, state.verdict);
  return !workload.in_tree && (workload.started || !state.plan) && waits && MayShow(workload.queue);
}

void ShownWork::Update(const Workload& workload, TimePoint now) {
  // While a gang with a plan starts, its members change one by one.
  if (states_.At(workload).plan && !known_.contains(&workload)) return;
  Known fresh{.queue = workload.queue};
  std::vector<const PodInfo*> ungated;
  std::ranges::copy_if(workload.members, std::back_inserter(ungated),
                       [this](const PodInfo* pod) { return Waits(*pod) && !IsGated(*pod); });
  if (!ungated.empty()) {
    const auto before = known_.find(&workload);
    const bool was = before != known_.end() && before->second.flavor != cluster::kNoFlavor;
    fresh.flavor = was ? before->second.flavor : FlavorsOf(workload, ungated).front();
    for (const PodInfo* pod : ungated) Add(ChargeOf(*pod, fresh.flavor), fresh.ungated);
  }
  const std::vector<const PodInfo*> least = LeastOf(workload);
  if (!least.empty() && WaitsForNodes(workload)) {
    const cluster::ResourceId device = store_.device_ids().front();
    for (const PodInfo* pod : least) fresh.least += policy::DemandOf(*pod->shape, device);
    const Evicted& before = states_.At(workload).before;
    const TimePoint since =
        before.times > 0 ? std::min(workload.creation, before.since) : workload.creation;
    fresh.candidate = {
        .descending_priority = -workload.priority, .since = since, .workload = &workload};
    const auto known = known_.find(&workload);
    const bool was = known != known_.end() && known->second.candidate;
    fresh.refused_at = was ? known->second.refused_at : now;
  }
  Forget(workload);
  if (fresh.ungated.empty() && !fresh.candidate) return;
  AddUngated(fresh.queue, fresh.ungated, 1);
  if (fresh.candidate) {
    Line& line = candidates_[fresh.queue];
    line.order.insert(*fresh.candidate);
    line.least.insert(fresh.least);
    LookAgain(now);
  }
  known_.emplace(&workload, std::move(fresh));
}

void ShownWork::Forget(const Workload& workload) {
  const auto found = known_.find(&workload);
  if (found == known_.end()) return;
  const Known& known = found->second;
  AddUngated(known.queue, known.ungated, -1);
  if (known.candidate) {
    const auto line = candidates_.find(known.queue);
    line->second.order.erase(*known.candidate);
    line->second.least.erase(line->second.least.find(known.least));
    if (line->second.order.empty()) candidates_.erase(line);
  }
  known_.erase(found);
}

void ShownWork::AddUngated(QueueId queue, const cluster::Demand& demand, int sign) {
  for (const auto& [id, amount] : demand) ungated_[queue].Add(id, sign * amount);
}

void ShownWork::LookAgain(TimePoint now) {
  if (!candidates_.empty() && !due_) due_ = now + kPause;
}

/// As if what waits without a gate were in use.
policy::QuotaView ShownWork::WithUngated() const {
  policy::QuotaView view(store_);
  for (const auto& [queue, amounts] : ungated_) {
    cluster::Demand demand;
    for (std::size_t i = 0; i < amounts.size(); ++i) {
      const auto id = static_cast<cluster::ResourceId>(i);
      if (amounts[id] != 0) demand.emplace_back(id, amounts[id]);
    }
    view.Take(queue, demand);
  }
  return view;
}

/// How much of the first device the quotas leave to the queue.
std::int64_t ShownWork::LeftOf(const policy::QuotaView& view, QueueId queue) const {
  const cluster::ResourceId device = store_.device_ids().front();
  std::int64_t left = std::numeric_limits<std::int64_t>::max();
  if (queue == cluster::kNoQueue) return left;
  for (const QueueId charged : store_.queue(queue).path) {
    const std::int64_t quota = store_.queue(charged).quota[device];
    if (quota > 0) left = std::min(left, quota - view.Used(charged, device));
  }
  return left;
}

std::vector<const PodInfo*> ShownWork::TakeNext(TimePoint now) {
  std::vector<const PodInfo*> shown;
  if (!due_ || *due_ > now) return shown;
  due_.reset();
  policy::QuotaView view = WithUngated();
  std::optional<Jobs> jobs;  // counted when the first queue that caps them is looked at
  bool later = false;
  for (const auto& [queue, line] : candidates_) later |= TakeFrom(line, view, jobs, now, shown);
  if (later) LookAgain(now);
  return shown;
}

/// Of one queue. Returns whether others of it may follow without any change.
bool ShownWork::TakeFrom(const Line& line, policy::QuotaView& view, std::optional<Jobs>& jobs,
                         TimePoint now, std::vector<const PodInfo*>& shown) {
  std::optional<std::int64_t> left;
  for (const Candidate& candidate : line.order) {
    if (shown.size() >= kMostPods) return true;
    const Workload& workload = *candidate.workload;
    if (!left) left = LeftOf(view, workload.queue);
    // These three save most of the counting.
    if (*left <= 0 && store_.device_ids().size() == 1) break;
    if (*left < *line.least.begin()) break;
    Known& known = known_.at(&workload);
    if (known.refused_at + kPause > now) return true;
    if (known.least > *left) continue;
    const bool capped = workload.queue != cluster::kNoQueue &&
                        store_.queue(workload.queue).config.max_jobs_per_user > 0;
    if (capped && !jobs) jobs = ShownJobs();
    if (capped && HasTooManyJobs(view, workload, *jobs)) continue;
    const auto [pods, flavor] = CoveredOf(view, workload);
    if (pods.empty()) continue;
    known.flavor = flavor;
    for (const PodInfo* pod : pods) view.Take(workload.queue, ChargeOf(*pod, known.flavor));
    if (capped) ++(*jobs)[{workload.queue, workload.user}];
    shown.insert(shown.end(), pods.begin(), pods.end());
    left.reset();
  }
  return false;
}

/// Whether the gate alone keeps it from starting without the rest of its gang: kube-scheduler does
/// not ask Berth about a pod without devices.
bool ShownWork::StaysGated(const Workload& workload, const PodInfo& pod) {
  return workload.gang && !workload.started && !pod.shape->asks_device;
}

/// Those that may be shown.
std::vector<const PodInfo*> ShownWork::GatedOf(const Workload& workload) const {
  std::vector<const PodInfo*> pods;
  std::ranges::copy_if(workload.members, std::back_inserter(pods), [&](const PodInfo* pod) {
    return Waits(*pod) && IsGated(*pod) && !StaysGated(workload, *pod);
  });
  return pods;
}

/// The first pods behind the gate, as many as the workload needs to start beside its pods without a
/// gate and those that stay gated. Empty: there are fewer.
std::vector<const PodInfo*> ShownWork::LeastOf(const Workload& workload) const {
  std::vector<const PodInfo*> pods = GatedOf(workload);
  const auto others = std::ranges::count_if(workload.members, [&](const PodInfo* pod) {
    return Waits(*pod) && (!IsGated(*pod) || StaysGated(workload, *pod));
  });
  const auto needed = std::max<std::ptrdiff_t>(1, workload.Missing() - others);
  pods.resize(std::ssize(pods) < needed ? 0 : static_cast<std::size_t>(needed));
  return pods;
}

/// The pods of the workload that the quota covers, in their order: all, or some with which it could
/// start; none otherwise.
ShownWork::Covered ShownWork::CoveredOf(const policy::QuotaView& view,
                                        const Workload& workload) const {
  Covered covered{.pods = GatedOf(workload)};
  std::size_t least = LeastOf(workload).size();
  // The last call that succeeds is for all that are covered.
  const auto covers = [&](std::size_t count) {
    const auto on = CoveredOn(view, workload, std::span(covered.pods).first(count));
    covered.flavor = on.value_or(covered.flavor);
    return on.has_value();
  };
  if (least == 0 || !covers(least)) return {};
  for (std::size_t most = covered.pods.size(); least < most;) {
    const std::size_t middle = (least + most + 1) / 2;
    if (covers(middle)) {
      least = middle;
    } else {
      most = middle - 1;
    }
  }
  covered.pods.resize(least);
  return covered;
}

/// On nodes of which flavors the pods may count: in a queue with amounts of single flavors, of the
/// flavors that their selectors admit, or of none (kNoFlavor) if they admit none. Not empty.
std::vector<cluster::FlavorId> ShownWork::FlavorsOf(const Workload& workload,
                                                    std::span<const PodInfo* const> pods) const {
  std::vector<cluster::FlavorId> admitted;
  const auto& flavors = store_.policy().flavors;
  const bool by_flavor =
      workload.queue != cluster::kNoQueue && store_.queue(workload.queue).by_flavor;
  for (std::size_t i = 0; by_flavor && i < flavors.size(); ++i) {
    const auto admits = [&](const PodInfo* pod) { return Admits(*pod, flavors[i]); };
    if (std::ranges::all_of(pods, admits)) admitted.push_back(static_cast<cluster::FlavorId>(i));
  }
  if (admitted.empty()) admitted.push_back(cluster::kNoFlavor);
  return admitted;
}

/// What its queue would be charged for the pod there.
cluster::Demand ShownWork::ChargeOf(const PodInfo& pod, cluster::FlavorId flavor) const {
  return store_.QueueCharge(pod, DemandOf(pod), flavor);
}

/// The first flavor of nodes on which the quota covers these, and no cap forbids them. nullopt:
/// there is none.
std::optional<cluster::FlavorId> ShownWork::CoveredOn(const policy::QuotaView& view,
                                                      const Workload& workload,
                                                      std::span<const PodInfo* const> pods) const {
  const bool all = store_.policy().autoscaler.show == config::Show::kAll;
  for (const cluster::FlavorId flavor : FlavorsOf(workload, pods)) {
    if (workload.queue == cluster::kNoQueue) return all ? std::optional(flavor) : std::nullopt;
    cluster::Demand sum;
    for (const PodInfo* pod : pods) Add(ChargeOf(*pod, flavor), sum);
    const bool covered = policy::QuotaCovers(view, workload.queue, sum).value_or(all);
    if (covered && !IsDenied(view, workload, pods, flavor)) return flavor;
  }
  return std::nullopt;
}

/// Jobs with pods that wait without a gate.
ShownWork::Jobs ShownWork::ShownJobs() const {
  Jobs jobs;
  for (const auto& [workload, known] : known_) {
    if (!known.ungated.empty()) ++jobs[{known.queue, workload->user}];
  }
  return jobs;
}

/// Whether the user has as many jobs as the queue allows, if jobs that are shown count.
bool ShownWork::HasTooManyJobs(const policy::QuotaView& view, const Workload& workload,
                               const Jobs& jobs) const {
  if (!known_.at(&workload).ungated.empty()) return false;  // it is counted
  if (view.HasJob(workload.queue, workload.user, workload.key)) return false;
  const auto shown = jobs.find({workload.queue, workload.user});
  const std::int64_t more = shown == jobs.end() ? 0 : shown->second;
  return view.Jobs(workload.queue, workload.user) + more >=
         store_.queue(workload.queue).config.max_jobs_per_user;
}

}  // namespace berth::engine
