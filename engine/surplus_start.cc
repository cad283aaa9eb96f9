#include "engine/surplus_start.h"

#include <algorithm>
#include <set>
#include <utility>

#include "policy/claims.h"
#include "policy/neighbours.h"

namespace berth::engine {

using cluster::PodInfo;
using cluster::Workload;

namespace {

using Pods = std::vector<const PodInfo*>;

}  // namespace

bool OthersLack(const View& view, const Workload& workload, const Pods& pods, bool within_quota) {
  const policy::FairShareTable& shares = view.fair_shares.Recent(view.now);
  const policy::QuotaView use = QuotaFor(view, workload);
  cluster::Amounts asked;
  for (const PodInfo* pod : pods) {
    for (const auto& [id, amount] : pod->shape->demand) asked.Add(id, amount);
  }
  return std::ranges::any_of(view.store.device_ids(), [&](cluster::ResourceId id) {
    return asked[id] > 0 && shares.OthersLack(use, workload.queue, id, within_quota);
  });
}

Pods MembersWithinQuota(const View& view, const Workload& workload, Pods pods, int min) {
  const policy::QuotaView quota = QuotaFor(view, workload);
  cluster::Amounts asked;
  const auto covered = [&](const PodInfo* pod) {
    cluster::Demand charge;
    for (const auto& [id, amount] : view.store.LeastDemandOf(*pod->shape)) {
      asked.Add(id, amount);
      charge.emplace_back(id, asked[id]);
    }
    return policy::QuotaCovers(quota, workload.queue, charge).value_or(!pod->shape->asks_device);
  };
  std::ptrdiff_t within = 0;
  for (const PodInfo* pod : pods) {
    if (!covered(pod) && within >= min) break;
    ++within;
  }
  pods.resize(static_cast<std::size_t>(within));
  return pods;
}

Reservation LeaveRoomToOthers(const View& view, const Workload& workload, Pods pods, int min,
                              Reservation start) {
  const bool contested = view.store.policy().borrowing && workload.queue != cluster::kNoQueue;
  if (!contested || std::ssize(start.placed) <= min) return start;
  std::set<const PodInfo*> placed;
  for (const policy::Placed& member : start.placed) placed.insert(member.pod);
  std::erase_if(pods, [&](const PodInfo* pod) { return !placed.contains(pod); });
  const Pods within = MembersWithinQuota(view, workload, pods, min);
  const Pods beyond(pods.begin() + std::ssize(within), pods.end());
  if (beyond.empty() || !OthersLack(view, workload, beyond, /*within_quota=*/false)) return start;
  // Some of the places may hold only beside the others.
  const policy::Overlay room = RoomOf(view);
  const bool alone = std::ranges::none_of(
      pods, [&](const PodInfo* pod) { return policy::NeighboursMatter(*pod, room); });
  if (!alone) return start;
  const std::set<const PodInfo*> leave(beyond.begin(), beyond.end());
  std::erase_if(start.placed,
                [&](const policy::Placed& member) { return leave.contains(member.pod); });
  return start;
}

}  // namespace berth::engine
