// Whether, and where, a workload starts: see decide.h.
#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <set>
#include <unordered_map>
#include <utility>

#include "engine/decide.h"
#include "policy/fit.h"
#include "policy/neighbours.h"
#include "policy/rank_order.h"
#include "policy/workload_mix.h"

namespace berth::engine {

using cluster::NodeIndex;
using cluster::PodInfo;
using cluster::ReasonId;
using cluster::Verdict;
using cluster::Workload;

namespace {

/// Only nodes of this flavor, or of none (kNoFlavor); absent: any.
using OfFlavor = std::optional<cluster::FlavorId>;

/// How many of so many pods of the shape empty nodes could take.
std::ptrdiff_t EmptyPlaces(const View& view, const cluster::PodShape& shape, std::ptrdiff_t pods) {
  const auto row = view.scorer.fit().Row(shape);
  const policy::Overlay base(view.store);
  // Two pods of one host port never share a node.
  const int most = shape.spec->host_ports.empty() ? static_cast<int>(pods) : 1;
  std::ptrdiff_t places = 0;
  for (const auto& node : view.store.nodes()) {
    if (places >= pods) break;
    if (row[static_cast<std::size_t>(node->index)] == 0) continue;
    places += policy::Capacity(shape, base, node->index, most, policy::Looking::kAtEmptyNode);
  }
  return std::min(places, pods);
}

/// The key under which a failure to place these pods is remembered. It is known only for members of
/// one shape without special conditions: what failed before cannot fit now. Where neighbours
/// matter, the failure holds for pods with the same labels as long as no neighbour moves. nullopt:
/// not remembered.
std::optional<Failure> FailureOf(const View& view, const Workload& workload,
                                 std::span<const PodInfo* const> pods, int min, OfFlavor flavor) {
  // Refused nodes are avoided for this workload alone.
  if (!view.refusals.Of(workload, pods).empty()) return std::nullopt;
  const PodInfo& first = *pods.front();
  const bool alike = std::ranges::all_of(pods, [&](const PodInfo* pod) {
    return pod->shape == first.shape && !pod->shape->whole_node &&
           pod->object.spec->host_ports.empty();
  });
  if (!alike) return std::nullopt;
  Failure failure{
      .shape = first.shape, .count = min, .required = workload.topology_required, .flavor = flavor};
  const policy::Overlay overlay(view.store);
  const auto neighbourly = [&](const PodInfo* pod) {
    return policy::NeighboursMatter(*pod, overlay);
  };
  if (std::ranges::none_of(pods, neighbourly)) return failure;
  const auto same_labels = [&](const PodInfo* pod) {
    return pod->object.meta.labels == first.object.meta.labels;
  };
  if (!std::ranges::all_of(pods, same_labels)) return std::nullopt;
  failure.ns = first.object.meta.ns;
  failure.labels = first.object.meta.labels;
  failure.neighbours = view.store.neighbour_generation();
  return failure;
}

/// Whether it depends on the nodes which members start.
bool MayChoose(const Workload& workload, std::span<const PodInfo* const> pods) {
  if (policy::HasMoreThanAnnounced(workload)) return true;
  return workload.gang && std::ssize(pods) > workload.min_member &&
         std::ranges::any_of(pods,
                             [&](const PodInfo* pod) { return pod->shape != pods.front()->shape; });
}

bool IsWhole(const PodInfo* pod) { return pod->shape->whole_node; }

/// A gang on whole nodes that the queue can pay for together. While what is found is too much, one
/// of its largest nodes is left out, and all others of that size; not placed: nothing is found.
/// REQUIRES: one of the pods gets a whole node.
policy::Placement PlaceByCharge(const View& view, const Workload& workload,
                                const policy::PlacementRequest& request,
                                const policy::Overlay& overlay) {
  constexpr int kMaxTries = 64;
  const cluster::ResourceId device = (*std::ranges::find_if(request.pods, IsWhole))->shape->device;
  const auto size_of = [&](NodeIndex node) { return view.store.node(node).allocatable[device]; };
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  std::set<NodeIndex> kept;  // of the nodes of that size
  policy::PlacementRequest paid = request;
  for (int i = 0; i < kMaxTries; ++i) {
    paid.payable = [&](const PodInfo& pod, NodeIndex node) {
      return !IsWhole(&pod) || size_of(node) < most || kept.contains(node);
    };
    policy::Placement placement = PlaceAround(view, workload, paid.pods, paid, overlay);
    if (!placement.ok()) break;
    if (GrantCharge(view, workload, placement.placed).reason == ReasonId::kNone) return placement;
    std::set<NodeIndex> largest;
    most = 0;
    for (const policy::Placed& placed : placement.placed) {
      if (!IsWhole(placed.pod)) continue;
      if (size_of(placed.node) > most) largest.clear();
      most = std::max(most, size_of(placed.node));
      if (size_of(placed.node) == most) largest.insert(placed.node);
    }
    if (largest.empty()) break;
    largest.erase(largest.begin());
    kept = std::move(largest);
  }
  return {};
}

policy::Placement PlaceWhole(const View& view, const Workload& workload,
                             const std::vector<const PodInfo*>& pods, int min, OfFlavor flavor) {
  const auto payable = policy::PayableNodes(QuotaFor(view, workload), workload.queue, pods);
  const auto inside = workload.started ? StayInDomain(view, workload, pods) : nullptr;
  policy::PlacementRequest request{
      .pods = pods,
      .min = min,
      .topology_required = inside ? std::string() : workload.topology_required,
      .topology_preferred = workload.topology_preferred,
      .flavor = flavor,
      .allowed = inside,
      .payable = payable};
  const policy::Overlay overlay = RoomOf(view);
  request.explain = view.ended == nullptr;  // what might be is only asked whether it can be
  policy::Placement placement = PlaceAround(view, workload, pods, request, overlay);
  // Nodes of which the queue cannot pay as many as there are members may still be paid for beside
  // smaller ones. And whether quota or room is short, only nodes that it cannot pay for tell.
  const bool whole = pods.size() > 1 && std::ranges::any_of(pods, IsWhole);
  if (!placement.ok() && payable && whole) {
    placement = PlaceByCharge(view, workload, request, overlay);
    if (placement.ok()) return placement;
  }
  if (!placement.ok() && payable && (request.explain || pods.size() > 1)) {
    request.payable = nullptr;
    placement = PlaceAround(view, workload, pods, request, overlay);
  }
  return placement;
}

/// Those of `pods` that could be on some node of the flavor, by selectors and tolerations, and
/// those that ask for no devices.
std::vector<const PodInfo*> Matching(const View& view, std::span<const PodInfo* const> pods,
                                     cluster::FlavorId flavor) {
  std::unordered_map<const cluster::PodShape*, bool> known;
  const auto matches = [&](const PodInfo* pod) {
    if (!pod->shape->asks_device) return true;
    const auto [it, fresh] = known.try_emplace(pod->shape.get());
    if (!fresh) return it->second;
    view.work += std::ssize(view.store.nodes());
    const auto row = view.scorer.fit().Row(*pod->shape);
    it->second = std::ranges::any_of(view.store.nodes(), [&](const auto& node) {
      return node->present && node->flavor == flavor &&
             row[static_cast<std::size_t>(node->index)] != 0;
    });
    return it->second;
  };
  std::vector<const PodInfo*> matching;
  std::ranges::copy_if(pods, std::back_inserter(matching), matches);
  return matching;
}

/// The least tells best what a workload waits for: what ends may help it, or a release of quota, or
/// nothing but another cluster or policy.
int RankOf(const Verdict& verdict) {
  if (verdict.never || verdict.reason == ReasonId::kNeverFits) return 3;
  if (verdict.reason == ReasonId::kExceedsLimit) return 2;
  return verdict.reason == ReasonId::kWaitingForQuota ? 1 : 0;
}

/// Takes members from the end, but for the first `min`, until the queue has room for the exact
/// charge of the others; if it has none for these, returns why.
Verdict KeepPayable(const View& view, const Workload& workload, int min,
                    std::vector<policy::Placed>& placed) {
  Verdict denied = GrantCharge(view, workload, placed);
  if (denied.reason == ReasonId::kNone) return denied;
  const auto payable = [&](std::size_t count) {
    return GrantCharge(view, workload, std::span(placed).first(count)).reason == ReasonId::kNone;
  };
  auto least = static_cast<std::size_t>(min);
  if (least >= placed.size() || !payable(least)) return denied;
  std::size_t most = placed.size() - 1;
  while (least < most) {
    const std::size_t middle = (least + most + 1) / 2;
    payable(middle) ? least = middle : most = middle - 1;
  }
  placed.resize(least);
  return {};
}

/// The minimum, with its whole nodes on the smallest nodes that match, full or not.
struct Smallest {
  std::vector<policy::Placed> placed{};  ///< Empty: there are not so many nodes.
  cluster::ResourceId device{};
  std::int64_t wanted = 0;  ///< The devices of these whole nodes.
  std::int64_t free = 0;    ///< Of these.
};

/// REQUIRES: one of the pods gets a whole node. Those that do are all judged by the first of them.
Smallest OnSmallestNodes(const View& view, std::span<const PodInfo* const> minimum,
                         OfFlavor flavor) {
  const PodInfo& first = **std::ranges::find_if(minimum, IsWhole);
  const auto row = view.scorer.fit().Row(*first.shape);
  std::vector<std::pair<std::int64_t, NodeIndex>> sizes;
  const policy::Overlay empty(view.store);
  Smallest smallest{.device = first.shape->device};
  for (const auto& node : view.store.nodes()) {
    const bool could =
        node->present && row[static_cast<std::size_t>(node->index)] != 0 &&
        (!flavor || node->flavor == *flavor) &&
        policy::Capacity(*first.shape, empty, node->index, 1, policy::Looking::kAtEmptyNode) > 0;
    if (!could) continue;
    sizes.emplace_back(node->allocatable[first.shape->device], node->index);
  }
  if (std::ssize(sizes) < std::ranges::count_if(minimum, IsWhole)) return smallest;
  std::ranges::sort(sizes);
  auto next = sizes.begin();
  for (const PodInfo* pod : minimum) {
    if (!IsWhole(pod)) {
      smallest.placed.push_back({.pod = pod, .node = sizes.front().second});
      continue;
    }
    const auto& [size, node] = *next++;
    smallest.placed.push_back({.pod = pod, .node = node});
    smallest.wanted += size;
    smallest.free += std::max<std::int64_t>(0, empty.Free(node, first.shape->device));
  }
  return smallest;
}

/// Why whole nodes are not to be had: `found` is what the nodes that have room say, which are
/// either too few, or exceed a limit. On the smallest nodes that match, they may exceed it in any
/// case, or not: then it is room there that is short, or quota for these.
Verdict WhyNoWholeNodes(const View& view, const Workload& workload,
                        std::span<const PodInfo* const> minimum, OfFlavor flavor,
                        const Verdict& found) {
  // What might be is only asked whether it can be.
  const bool asked = view.ended == nullptr && !found.never;
  if (!asked || std::ranges::none_of(minimum, IsWhole)) return found;
  const Smallest smallest = OnSmallestNodes(view, minimum, flavor);
  if (smallest.placed.empty()) return found;
  Verdict there = GrantCharge(view, workload, smallest.placed);
  if (found.reason != ReasonId::kExceedsLimit) {
    return there.reason == ReasonId::kExceedsLimit ? there : found;
  }
  if (there.reason != ReasonId::kNone) return there;
  if (smallest.free >= smallest.wanted) return found;
  return {.reason = ReasonId::kInsufficientDevices,
          .want = smallest.wanted,
          .have = smallest.free,
          .subject = view.store.resources().Name(smallest.device)};
}

/// On nodes of this flavor.
StartDecision DecideStartIn(const View& view, const Workload& workload,
                            std::vector<const PodInfo*> pods, int min, const Wakeups* memo,
                            OfFlavor flavor) {
  // A pod that kube-scheduler nominated may be waiting for its victims: DecideResumedEviction.
  const bool may_rest = pods.front()->object.nominated_node.empty();
  int fit = 0;
  if (Verdict denied =
          GrantMembers(view, workload, pods, min, fit, flavor.value_or(cluster::kNoFlavor));
      denied.reason != ReasonId::kNone) {
    // No queue event reports what in-tree groups still need.
    const bool exact = may_rest && !MayChoose(workload, pods) && view.in_tree_started.empty();
    return {.verdict = std::move(denied),
            .rests_on = exact ? StartDecision::RestsOn::kQuota : StartDecision::RestsOn::kNothing};
  }
  pods.resize(static_cast<std::size_t>(fit));
  const auto known = [&](const Failure& failure) {
    return memo == nullptr ? nullptr : memo->Known(failure);
  };
  const auto refused = [&](Verdict why, std::optional<Failure> failure) {
    const bool exact = failure && may_rest;
    return StartDecision{
        .verdict = std::move(why),
        .failure = std::move(failure),
        .rests_on = exact ? StartDecision::RestsOn::kRoom : StartDecision::RestsOn::kNothing};
  };
  std::optional<Failure> failure = FailureOf(view, workload, pods, min, flavor);
  // If it fails for lack of room alone, it fails with any neighbours.
  if (failure && failure->neighbourly() && known(failure->ForRoom()) != nullptr) {
    failure = failure->ForRoom();
  }
  if (const Verdict* why = failure ? known(*failure) : nullptr) return refused(*why, failure);
  policy::Placement placement = PlaceWhole(view, workload, pods, min, flavor);
  const std::span<const PodInfo* const> minimum(pods.data(), static_cast<std::size_t>(min));
  if (!placement.ok()) {
    // No node has room for a single one of them, with any neighbours.
    if (failure && failure->neighbourly() && !HasRoom(view, *pods.front())) {
      failure = failure->ForRoom();
    }
    return refused(WhyNoWholeNodes(view, workload, minimum, flavor, placement.verdict), failure);
  }
  if (Verdict denied = KeepPayable(view, workload, min, placement.placed);
      denied.reason != ReasonId::kNone) {
    return refused(WhyNoWholeNodes(view, workload, minimum, flavor, denied), std::nullopt);
  }
  return {.reserve = Reservation{.kind = Reservation::Kind::kStart,
                                 .placed = std::move(placement.placed)}};
}

/// In a queue with amounts of single flavors, whose room depends on the flavor: the first that has
/// room and quota for all members; else any nodes, if the selectors of the members demand several
/// flavors; else the first flavor that has room and quota for the minimum, out of the members that
/// match it. If none has, the verdict is the best of them (RankOf), of equals the first.
StartDecision DecideStartByFlavor(const View& view, const Workload& workload,
                                  const std::vector<const PodInfo*>& pods, int min,
                                  const Wakeups* memo) {
  const auto flavors = static_cast<cluster::FlavorId>(view.store.policy().flavors.size());
  std::optional<StartDecision> some;  // not all members, in the first flavor that has the minimum
  std::optional<StartDecision> best;
  bool takes_all = false;  // some flavor would, by its selectors
  int tried = 0;
  const auto consider = [&](StartDecision decision) {
    ++tried;
    if (decision.reserve) {
      if (!some) some = std::move(decision);
    } else if (!best || RankOf(decision.verdict) < RankOf(best->verdict)) {
      best = std::move(decision);
    }
  };
  for (cluster::FlavorId i = 0; i <= flavors; ++i) {
    const cluster::FlavorId flavor = i == flavors ? cluster::kNoFlavor : i;
    std::vector<const PodInfo*> matching = Matching(view, pods, flavor);
    const bool all = matching.size() == pods.size();
    takes_all |= all;
    if (std::ssize(matching) < min) continue;
    StartDecision decision = DecideStartIn(view, workload, std::move(matching), min, memo, flavor);
    if (decision.reserve && decision.reserve->placed.size() == pods.size()) return decision;
    consider(std::move(decision));
  }
  if (!takes_all) {
    StartDecision anywhere = DecideStartIn(view, workload, pods, min, memo, std::nullopt);
    if (anywhere.reserve) return anywhere;
    consider(std::move(anywhere));
  }
  if (some) return *std::move(some);
  // A node of another flavor may come, or come to match: no release of quota reports that.
  if (tried > 1 || best->rests_on == StartDecision::RestsOn::kQuota) {
    best->rests_on = StartDecision::RestsOn::kNothing;
  }
  return *std::move(best);
}

/// Beside the members of a gang that run. Better on nodes of another flavor than below the minimum.
StartDecision DecideStartBeside(const View& view, const Workload& workload,
                                const std::vector<const PodInfo*>& pods, int min,
                                const Wakeups* memo) {
  const auto asks =
      std::ranges::find_if(pods, [](const PodInfo* pod) { return pod->shape->asks_device; });
  const auto flavor = FlavorOf(view, workload, asks == pods.end() ? *pods.front() : **asks);
  StartDecision decision = DecideStartIn(view, workload, pods, min, memo, flavor);
  if (decision.reserve || !flavor) return decision;
  StartDecision elsewhere = DecideStartIn(view, workload, pods, min, memo, std::nullopt);
  return elsewhere.reserve ? elsewhere : decision;
}

/// By which members that ask for devices are small: by these, or by CPU.
std::pair<bool, std::int64_t> SizeOf(const PodInfo* pod) {
  return {pod->shape->whole_node, pod->shape->device_amount};
}
std::int64_t CpuOf(const PodInfo* pod) { return policy::DemandOf(*pod->shape, cluster::kCpu); }

/// Whether a gang may start with other members than the first `min`: those differ, and all that
/// need no devices, which are part of every minimum, are fewer.
bool MayTakeOthers(std::span<const PodInfo* const> pods, int min) {
  if (std::ssize(pods) <= min) return false;
  const auto needs_none = [](const PodInfo* pod) { return !pod->shape->asks_device; };
  const auto differs = [&](const PodInfo* pod) { return pod->shape != pods.front()->shape; };
  return std::ranges::count_if(pods, needs_none) < min && std::ranges::any_of(pods, differs);
}

/// Of the members in this order, the first ones.
StartDecision DecideStartInOrder(const View& view, const Workload& workload,
                                 const std::vector<const PodInfo*>& pods, int min,
                                 const Wakeups* memo) {
  if (Verdict held = CheckHold(view.store, workload, /*needed=*/workload.started);
      held.reason != ReasonId::kNone) {
    return {.verdict = std::move(held)};
  }
  if (workload.started) return DecideStartBeside(view, workload, pods, min, memo);
  if (Verdict denied = policy::CheckJobs(QuotaFor(view, workload), workload);
      !view.any_jobs && denied.reason != ReasonId::kNone) {
    return {.verdict = std::move(denied)};
  }
  if (workload.queue != cluster::kNoQueue && view.store.queue(workload.queue).by_flavor) {
    return DecideStartByFlavor(view, workload, pods, min, memo);
  }
  StartDecision anywhere = DecideStartIn(view, workload, pods, min, memo, std::nullopt);
  if (!anywhere.reserve) return anywhere;
  const auto flavors = static_cast<cluster::FlavorId>(view.store.policy().flavors.size());
  std::optional<StartDecision> some;  // not all members, in the first flavor that has the minimum
  for (cluster::FlavorId i = 0; flavors > 0 && i <= flavors; ++i) {
    const cluster::FlavorId flavor = i == flavors ? cluster::kNoFlavor : i;
    StartDecision decision = DecideStartIn(view, workload, pods, min, memo, flavor);
    if (!decision.reserve) continue;
    if (decision.reserve->placed.size() == pods.size()) return decision;
    if (!some) some = std::move(decision);
  }
  return some ? *std::move(some) : anywhere;
}

/// Of each shape, in order of `size`, as many members as can start beside those that were found
/// before. Then the others in that order, of one size those first of whose shape none can start. Of
/// pods of one size this finds as many as can start together.
template <typename Size>
std::vector<const PodInfo*> PutFittingFirst(const View& view, const Workload& workload,
                                            std::vector<const PodInfo*> pods, const Wakeups* memo,
                                            const Size& size) {
  constexpr int kMaxShapes = 8;  // each costs a search
  // Those that need no devices stay.
  const auto asking = std::ranges::stable_partition(
      pods, [](const PodInfo* pod) { return !pod->shape->asks_device; });
  std::ranges::stable_sort(asking, {}, size);
  std::vector<const PodInfo*> fitting(pods.begin(), asking.begin());
  pods.erase(pods.begin(), asking.begin());
  std::vector<const PodInfo*> later;
  std::vector<const PodInfo*> last;
  for (int i = 0; i < kMaxShapes && !pods.empty(); ++i) {
    const auto alike = std::ranges::stable_partition(
        pods, [shape = pods.front()->shape](const PodInfo* pod) { return pod->shape == shape; });
    std::vector<const PodInfo*> tried = fitting;
    tried.insert(tried.end(), pods.begin(), alike.begin());
    const int least = static_cast<int>(fitting.size()) + 1;
    const StartDecision found = DecideStartInOrder(view, workload, tried, least, memo);
    const auto fits = found.reserve ? std::ssize(found.reserve->placed) : std::ssize(fitting);
    std::vector<const PodInfo*>& rest = fits < least ? later : last;
    rest.insert(rest.end(), tried.begin() + fits, tried.end());
    tried.resize(static_cast<std::size_t>(fits));
    fitting = std::move(tried);
    pods.erase(pods.begin(), alike.begin());
  }
  for (const auto* rest : {&pods, &last}) later.insert(later.end(), rest->begin(), rest->end());
  std::ranges::stable_sort(later, {}, size);
  fitting.insert(fitting.end(), later.begin(), later.end());
  return fitting;
}

}  // namespace

void OrderForStart(const View& view, const Workload& workload, std::vector<const PodInfo*>& pods) {
  if (!MayChoose(workload, pods)) return;
  const auto places = [&](const auto& shape, std::ptrdiff_t count) {
    return EmptyPlaces(view, *shape, count);
  };
  if (policy::HasMoreThanAnnounced(workload)) {
    policy::PutUnlikelyLast(places, pods);
  } else {
    policy::PutImpossibleLast(places, pods);
  }
}

StartDecision DecideStart(const View& view, const Workload& workload,
                          std::vector<const PodInfo*> pods, int min, const Wakeups* memo) {
  OrderForStart(view, workload, pods);
  StartDecision decision = DecideStartInOrder(view, workload, pods, min, memo);
  if (decision.reserve || !MayTakeOthers(pods, min)) return decision;
  const auto try_others = [&](const auto& size) {
    const auto order = PutFittingFirst(view, workload, pods, memo, size);
    StartDecision others = DecideStartInOrder(view, workload, order, min, memo);
    const bool better = others.reserve || RankOf(others.verdict) < RankOf(decision.verdict);
    if (better) decision = std::move(others);
    return decision.reserve.has_value();
  };
  if (try_others(SizeOf) || try_others(CpuOf)) return decision;
  decision.rests_on = StartDecision::RestsOn::kNothing;  // others may have room sooner
  return decision;
}

std::optional<Reservation> DecideStartOn(const View& view, const PodInfo& pod, NodeIndex node) {
  if (policy::CheckHold(view.store, pod.workload->queue).reason != ReasonId::kNone ||
      policy::CheckJobs(policy::QuotaView(view.store), *pod.workload).reason != ReasonId::kNone) {
    return std::nullopt;
  }
  const std::array<const PodInfo*, 1> one{&pod};
  const std::vector<policy::Avoid> avoid = view.refusals.Of(*pod.workload, one);
  policy::PlacementRequest request = OnNode(pod, node);
  request.avoid = avoid;
  policy::Placement placement = policy::Place(request, policy::Overlay(view.store), view.scorer);
  if (!placement.ok() ||
      GrantCharge(view, *pod.workload, placement.placed).reason != ReasonId::kNone) {
    return std::nullopt;
  }
  return Reservation{.kind = Reservation::Kind::kStart, .placed = std::move(placement.placed)};
}

}  // namespace berth::engine
