#include "engine/decide.h"

#include <algorithm>
#include <array>
#include <utility>

#include "cluster/plan_claim.h"
#include "policy/fit.h"
#include "policy/neighbours.h"
#include "policy/rank_order.h"

namespace berth::engine {

using cluster::Charge;
using cluster::NodeIndex;
using cluster::PodInfo;
using cluster::ReasonId;
using cluster::Verdict;
using cluster::Workload;

namespace {

constexpr TimePoint kRetryMs = 10'000;

/// When `pod` may be tried on `node` again.
TimePoint TriedAgain(const View& view, const Workload& workload, const PodInfo& pod,
                     NodeIndex node) {
  const std::array<const PodInfo*, 1> one{&pod};
  TimePoint until = 0;
  for (const policy::Avoid& a : view.refusals.Of(workload, one)) {
    if (a.node == node && a.shape == pod.shape) until = std::max(until, a.until);
  }
  return until > view.now ? until : view.now + kRetryMs;
}

/// Whether Berth chose the node of the member. One that was bound in passthrough, or by another
/// scheduler, may be in any domain.
bool PlacedByBerth(const PodInfo& pod) { return !pod.bound() || cluster::BoundClaimOf(pod.object); }

bool HasAmountsByFlavor(const View& view, const Workload& workload) {
  return workload.queue != cluster::kNoQueue && view.store.queue(workload.queue).by_flavor;
}

/// `quota` without what the started in-tree groups, but for `workload`, still need.
policy::QuotaView Less(policy::QuotaView quota, const std::set<std::string>& in_tree_started,
                       const Workload& workload) {
  const cluster::Store& store = quota.store();
  for (const std::string& key : in_tree_started) {
    const Workload* other = store.FindWorkload(key);
    if (other == nullptr || other == &workload) continue;
    int lacking = other->min_member - other->BoundCount();
    for (const PodInfo* pod : other->members) {
      if (lacking <= 0) break;
      if (pod->bound() || pod->charge != Charge::kNone || pod->terminating()) continue;
      quota.Take(other->queue, store.QueueCharge(*pod, pod->shape->demand, cluster::kNoFlavor));
      --lacking;
    }
  }
  return quota;
}

}  // namespace

policy::Placement Search(const View& view, const policy::PlacementRequest& request,
                         const policy::Overlay& overlay) {
  view.work += std::ssize(view.store.nodes());
  return policy::Place(request, overlay, view.scorer);
}

policy::Placement PlaceAround(const View& view, const Workload& workload,
                              std::span<const PodInfo* const> pods,
                              policy::PlacementRequest request, const policy::Overlay& overlay) {
  const std::vector<policy::Avoid> all = view.refusals.Of(workload, pods);
  const std::vector<policy::Avoid> not_yet = NotYet(all, view.now);
  const bool last_resort = not_yet.size() < all.size();
  const bool explain = request.explain;
  request.avoid = all;
  request.explain = explain && !last_resort;
  policy::Placement placement = Search(view, request, overlay);
  if (!placement.ok() && last_resort) {
    request.avoid = not_yet;
    request.explain = explain;
    placement = Search(view, request, overlay);
  }
  if (placement.verdict.reason == ReasonId::kRefusedByScheduler) {
    placement.verdict.have = SecondsLeft(not_yet, view.now);
  }
  return placement;
}

policy::PlacementRequest OnNode(const PodInfo& pod, NodeIndex node) {
  return {.pods = {&pod}, .min = 1, .allowed = [node](NodeIndex n) { return n == node; }};
}

bool HasForeignGate(const PodInfo& pod) {
  return std::ranges::any_of(pod.object.scheduling_gates, [](const std::string& gate) {
    return gate != cluster::kAdmissionGate;
  });
}

bool HasOurGate(const PodInfo& pod) {
  return std::ranges::find(pod.object.scheduling_gates, cluster::kAdmissionGate) !=
         pod.object.scheduling_gates.end();
}

std::vector<const PodInfo*> Placeable(const Workload& workload) {
  std::vector<const PodInfo*> pods = workload.Unplaced();
  std::erase_if(pods, [](const PodInfo* pod) { return HasForeignGate(*pod); });
  return policy::RankOrder(pods);
}

policy::Overlay RoomOf(const View& view) {
  return view.ended == nullptr ? policy::Overlay(view.store) : view.ended->room();
}

policy::QuotaView QuotaFor(const View& view, const Workload& workload) {
  return Less(view.ended == nullptr ? policy::QuotaView(view.store) : view.ended->quota(),
              view.in_tree_started, workload);
}

policy::QuotaView QuotaFor(const cluster::Store& store,
                           const std::set<std::string>& in_tree_started, const Workload& workload) {
  return Less(policy::QuotaView(store), in_tree_started, workload);
}

Verdict GrantMembers(const View& view, const Workload& workload,
                     std::span<const PodInfo* const> pods, int min, int& fit,
                     cluster::FlavorId flavor) {
  return policy::GrantMembers(QuotaFor(view, workload), workload.queue, pods, min, fit, flavor);
}

Verdict GrantCharge(const View& view, const Workload& workload,
                    std::span<const policy::Placed> placed) {
  const std::optional<Plan>& plan = view.states.At(workload).plan;
  const bool for_victims = plan && !plan->victims.empty();
  return policy::GrantCharge(QuotaFor(view, workload), workload.queue, placed, for_victims);
}

namespace {

/// `also`: another condition on the nodes; null: none.
bool HasRoomWhere(const View& view, const PodInfo& pod,
                  const std::function<bool(const PodInfo&, NodeIndex)>& also) {
  view.work += std::ssize(view.store.nodes());
  const auto fits = view.scorer.fit().Row(*pod.shape);
  return std::ranges::any_of(view.store.nodes(), [&](const auto& node) {
    return fits[static_cast<std::size_t>(node->index)] != 0 &&
           std::ranges::all_of(
               view.store.DemandOn(*pod.shape, *node),
               [&](const auto& demand) { return node->free(demand.first) >= demand.second; }) &&
           (!also || also(pod, node->index));
  });
}

}  // namespace

bool HasRoom(const View& view, const PodInfo& pod) { return HasRoomWhere(view, pod, nullptr); }

bool HasPayableRoom(const View& view, const PodInfo& pod) {
  if (!HasAmountsByFlavor(view, *pod.workload)) return HasRoom(view, pod);
  const std::array<const PodInfo*, 1> one{&pod};
  return HasRoomWhere(
      view, pod, policy::PayableNodes(QuotaFor(view, *pod.workload), pod.workload->queue, one));
}

bool StartsStill(const View& view, const Workload& workload, std::span<const PodInfo* const> pods,
                 std::span<const NodeIndex> nodes) {
  if (nodes.empty() || nodes.size() > pods.size()) return false;
  const std::span<const PodInfo* const> members = pods.first(nodes.size());
  policy::Overlay room(view.store);
  const auto is_plain = [&](const PodInfo* pod) {
    return !pod->shape->whole_node && !policy::NeighboursMatter(*pod, room);
  };
  if (HasAmountsByFlavor(view, workload) || !std::ranges::all_of(members, is_plain) ||
      !view.refusals.Of(workload, members).empty()) {
    return false;
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const PodInfo& pod = *members[i];
    const cluster::NodeInfo& node = view.store.node(nodes[i]);
    if (!node.present || !policy::FitsNode(*pod.object.spec, node) ||
        policy::Capacity(*pod.shape, room, nodes[i], 1) == 0) {
      return false;
    }
    room.Place(pod, nodes[i]);
  }
  int fit = 0;
  return CheckHold(view.store, workload, /*needed=*/false).reason == ReasonId::kNone &&
         policy::CheckJobs(QuotaFor(view, workload), workload).reason == ReasonId::kNone &&
         GrantMembers(view, workload, members, static_cast<int>(members.size()), fit).reason ==
             ReasonId::kNone;
}

bool NeededByMinimum(const Workload& workload, const PodInfo& pod) {
  const auto coming = std::ranges::count_if(workload.members, [&pod](const PodInfo* member) {
    return member != &pod && member->charge == Charge::kPlanned;
  });
  return workload.Missing() > coming;
}

Verdict CheckHold(const cluster::Store& store, const Workload& workload, bool needed) {
  Verdict held = policy::CheckHold(store, workload.queue);
  if (held.reason == ReasonId::kNone) return {};
  const bool drained = store.queue(workload.queue).drained_by != cluster::kNoQueue;
  return needed && !drained ? Verdict() : held;
}

// --- Members of a plan, or of a gang that has started --------------------------------------------

std::function<bool(NodeIndex)> StayInDomain(const View& view, const Workload& workload,
                                            std::span<const PodInfo* const> moving) {
  if (workload.topology_required.empty()) return {};
  const auto stays = [&](const PodInfo* pod) {
    return pod->node != cluster::kNoNode && std::ranges::find(moving, pod) == moving.end();
  };
  // A launcher may have run ahead in another domain.
  const bool workers = std::ranges::any_of(
      workload.members, [&](const PodInfo* pod) { return stays(pod) && pod->shape->asks_device; });
  std::vector<const PodInfo*> leading;
  for (const PodInfo* pod : workload.members) {
    if (stays(pod) && pod->shape->asks_device == workers) leading.push_back(pod);
  }
  const auto others = std::ranges::stable_partition(
      leading, [](const PodInfo* pod) { return PlacedByBerth(*pod); });
  if (others.begin() != leading.begin()) leading.erase(others.begin(), others.end());
  const auto domains = policy::GroupBy(view.store, workload.topology_required);
  for (const PodInfo* pod : leading) {
    for (const auto& [name, nodes] : domains) {
      if (std::ranges::find(nodes, pod->node) == nodes.end()) continue;
      return [inside = std::set<NodeIndex>(nodes.begin(), nodes.end())](NodeIndex node) {
        return inside.contains(node);
      };
    }
  }
  const bool unknown = std::ranges::any_of(leading, [&](const PodInfo* pod) {
    return pod->bound() && !view.store.node(pod->node).present;
  });
  if (unknown) return [](NodeIndex) { return false; };
  return {};
}

std::optional<cluster::FlavorId> FlavorOf(const View& view, const Workload& workload,
                                          const PodInfo& own) {
  if (!HasAmountsByFlavor(view, workload) || !own.shape->asks_device) return std::nullopt;
  if (own.node != cluster::kNoNode) return view.store.node(own.node).flavor;
  // Where the selectors of its members demand several flavors, members of one shape stay together.
  std::optional<cluster::FlavorId> first;
  for (const PodInfo* pod : workload.members) {
    if (pod->node == cluster::kNoNode || !pod->shape->asks_device) continue;
    const cluster::FlavorId flavor = view.store.node(pod->node).flavor;
    if (pod->shape == own.shape) return flavor;
    if (!first) first = flavor;
  }
  return first;
}

namespace {

/// On nodes of this flavor; absent: on any that the queue can pay for.
JoinDecision DecideJoinIn(const View& view, const Workload& workload, const PodInfo& pod,
                          std::optional<cluster::FlavorId> flavor) {
  int fit = 0;
  const std::array<const PodInfo*, 1> one{&pod};
  if (Verdict denied =
          GrantMembers(view, workload, one, 1, fit, flavor.value_or(cluster::kNoFlavor));
      denied.reason != ReasonId::kNone) {
    return {.verdict = std::move(denied)};
  }
  const auto inside = StayInDomain(view, workload, one);
  const auto payable = policy::PayableNodes(QuotaFor(view, workload), workload.queue, one);
  const policy::PlacementRequest request{
      .pods = {&pod},
      .min = 1,
      // Where no member is in a domain, it is in one at least.
      .topology_required = inside ? std::string() : workload.topology_required,
      .flavor = flavor,
      .allowed = inside,
      .payable = payable};
  const policy::Overlay overlay(view.store);
  policy::Placement placement = PlaceAround(view, workload, one, request, overlay);
  Verdict verdict = placement.verdict;
  TimePoint held_until = 0;
  if (!placement.ok() && NeededByMinimum(workload, pod)) {
    // A node that refused the member may accept it later; no other pod takes the room before that
    // retry.
    placement = Search(view, request, overlay);
    if (placement.ok()) {
      held_until = TriedAgain(view, workload, pod, placement.placed.front().node);
    }
  }
  if (!placement.ok() && payable) {
    // Also on nodes that the queue cannot pay for: whether quota or room is short.
    policy::PlacementRequest unpaid = request;
    unpaid.payable = nullptr;
    const policy::Placement there = Search(view, unpaid, overlay);
    Verdict denied = there.ok() ? GrantCharge(view, workload, there.placed) : Verdict();
    if (denied.reason != ReasonId::kNone) return {.verdict = std::move(denied)};
  }
  if (!placement.ok()) {
    if (!inside || verdict.reason != ReasonId::kSearchExhausted) {
      return {.verdict = std::move(verdict)};
    }
    return {.verdict = {.reason = ReasonId::kTopologyUnsatisfied,
                        .want = 1,
                        .subject = workload.topology_required}};
  }
  if (Verdict denied = GrantCharge(view, workload, placement.placed);
      denied.reason != ReasonId::kNone) {
    return {.verdict = std::move(denied)};
  }
  return {.reserve = Reservation{.kind = Reservation::Kind::kJoin,
                                 .placed = std::move(placement.placed),
                                 .held_until = held_until},
          .verdict = std::move(verdict)};
}

}  // namespace

JoinDecision DecideJoin(const View& view, const Workload& workload, const PodInfo& pod) {
  const bool needed = NeededByMinimum(workload, pod);
  if (Verdict held = CheckHold(view.store, workload, needed); held.reason != ReasonId::kNone) {
    return {.verdict = std::move(held)};
  }
  const auto flavor = FlavorOf(view, workload, pod);
  JoinDecision decision = DecideJoinIn(view, workload, pod, flavor);
  if (decision.reserve || !flavor || !needed) return decision;
  // Better on nodes of another flavor than below the minimum.
  JoinDecision elsewhere = DecideJoinIn(view, workload, pod, std::nullopt);
  return elsewhere.reserve ? elsewhere : decision;
}

RetryDecision DecideRetry(const View& view, const Workload& workload, const Assignment& held) {
  const bool due = held.held_until <= view.now;
  const std::array<const PodInfo*, 1> one{held.pod};
  const auto inside = StayInDomain(view, workload, one);
  const policy::PlacementRequest request{.pods = {held.pod},
                                         .min = 1,
                                         .flavor = FlavorOf(view, workload, *held.pod),
                                         .allowed = [&](NodeIndex node) {
                                           return (due || node != held.node) &&
                                                  (!inside || inside(node));
                                         }};
  policy::Overlay overlay(view.store);
  overlay.Remove(*held.pod);
  policy::Placement placement = PlaceAround(view, workload, one, request, overlay);
  if (placement.ok() && GrantCharge(view, workload, placement.placed).reason == ReasonId::kNone) {
    return {.reserve = Reservation{.kind = Reservation::Kind::kRetry,
                                   .placed = std::move(placement.placed)}};
  }
  if (!due) return {.held_until = held.held_until};
  return {.held_until = TriedAgain(view, workload, *held.pod, held.node)};
}

std::optional<Reservation> DecideMove(const View& view, const Workload& workload,
                                      std::span<const PodInfo* const> moving,
                                      const std::function<bool(NodeIndex)>& allowed,
                                      const PodInfo& asking) {
  policy::Overlay overlay(view.store);
  for (const PodInfo* pod : moving) overlay.Remove(*pod);
  const auto inside = StayInDomain(view, workload, moving);
  policy::PlacementRequest request{.pods = {moving.begin(), moving.end()},
                                   .min = static_cast<int>(moving.size()),
                                   .flavor = FlavorOf(view, workload, asking),
                                   .allowed = inside,
                                   .asking = &asking,
                                   .asking_allowed = allowed,
                                   .explain = false};
  if (!inside) {  // no member stays
    request.topology_required = workload.topology_required;
    request.topology_preferred = workload.topology_preferred;
  }
  policy::Placement found = PlaceAround(view, workload, moving, request, overlay);
  if (!found.ok()) return std::nullopt;
  if (GrantCharge(view, workload, found.placed).reason != ReasonId::kNone) return std::nullopt;
  return Reservation{.kind = Reservation::Kind::kMove, .placed = std::move(found.placed)};
}

// --- After a restart -----------------------------------------------------------------------------

RecoverDecision DecideRecover(const View& view, const Workload& workload) {
  Reservation reserve{.kind = Reservation::Kind::kRecover, .placed = {}};
  for (const PodInfo* pod : workload.members) {
    if (!pod->bound() || !pod->shape->asks_device) continue;
    if (const auto claim = cluster::ClaimOf(pod->object)) reserve.plan = claim->plan;
  }
  RecoverDecision decision;
  if (reserve.plan.empty() || workload.in_tree) return decision;
  policy::Overlay overlay(view.store);
  policy::QuotaView quota = QuotaFor(view, workload);
  for (const PodInfo* pod : workload.members) {
    const auto claim = cluster::ClaimOf(pod->object);
    if (pod->charge != Charge::kNone || !claim || claim->plan != reserve.plan) continue;
    const NodeIndex node = view.store.FindNode(claim->node);
    const std::array<const PodInfo*, 1> one{pod};
    const auto inside = StayInDomain(view, workload, one);
    const policy::Placed place{.pod = pod, .node = node};
    if (node == cluster::kNoNode || (inside && !inside(node)) ||
        !view.scorer.fit().Fits(*pod->shape, view.store.node(node)) ||
        policy::Capacity(*pod->shape, overlay, node, 1) == 0 ||
        policy::GrantCharge(quota, workload.queue, {&place, 1}, /*strict=*/false).reason !=
            ReasonId::kNone) {
      ++decision.untrusted;
      continue;
    }
    overlay.Place(*pod, node);
    quota.Take(workload.queue, view.store.QueueChargeOn(*pod, view.store.node(node)));
    reserve.placed.push_back(place);
    reserve.ranks.push_back(claim->rank);
  }
  if (!reserve.placed.empty()) decision.reserve = std::move(reserve);
  return decision;
}

// --- In-tree groups ------------------------------------------------------------------------------

Verdict InTreeQuota(const View& view, const Workload& workload,
                    std::span<const PodInfo* const> pods) {
  if (Verdict held = policy::CheckHold(view.store, workload.queue);
      held.reason != ReasonId::kNone && workload.BoundCount() == 0) {
    return held;
  }
  if (Verdict denied = policy::CheckJobs(policy::QuotaView(view.store), workload);
      denied.reason != ReasonId::kNone && workload.BoundCount() == 0) {
    return denied;
  }
  const int exist = static_cast<int>(pods.size());
  const int min = std::clamp(workload.min_member - workload.BoundCount(), 1, std::max(1, exist));
  int fit = 0;
  return pods.empty() ? Verdict{} : GrantMembers(view, workload, pods, min, fit);
}

std::expected<Reservation, ReasonId> DecideDelegated(const View& view, const PodInfo& pod,
                                                     NodeIndex node) {
  const Workload& workload = *pod.workload;
  if (pod.refusal.reason != ReasonId::kNone) return std::unexpected(pod.refusal.reason);
  // kube-scheduler may have tried several groups before the first of them came here. The first to
  // come gets what its minimum needs, and no member of the others is bound.
  if (const Verdict denied = InTreeQuota(view, workload, workload.Unplaced());
      denied.reason != ReasonId::kNone) {
    return std::unexpected(denied.reason);
  }
  policy::Placement placement =
      policy::Place(OnNode(pod, node), policy::Overlay(view.store), view.scorer);
  if (!placement.ok()) return std::unexpected(ReasonId::kInsufficientDevices);
  if (const Verdict denied = GrantCharge(view, workload, placement.placed);
      denied.reason != ReasonId::kNone) {
    return std::unexpected(denied.reason);
  }
  return Reservation{.kind = Reservation::Kind::kDelegated, .placed = std::move(placement.placed)};
}

}  // namespace berth::engine
