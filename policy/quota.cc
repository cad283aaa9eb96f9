#include "policy/quota.h"

#include <algorithm>

#include "policy/workload_mix.h"

namespace berth::policy {

using cluster::NodeIndex;
using cluster::PodInfo;
using cluster::QueueId;
using cluster::ReasonId;
using cluster::Verdict;

namespace {

/// More than the cap can never be granted, whatever ends.
Verdict Denied(const QuotaView& view, const QuotaView::Allowance& allowance, std::int64_t want) {
  const bool never = want > allowance.cap;
  return {.reason = never ? ReasonId::kExceedsLimit : ReasonId::kWaitingForQuota,
          .want = want,
          .have = never ? allowance.cap : std::max<std::int64_t>(0, allowance.left),
          .subject = view.store().resources().Name(allowance.id)};
}

}  // namespace

void QuotaView::Add(QueueId queue, const cluster::Demand& demand, int sign) {
  if (queue == cluster::kNoQueue) return;
  cluster::Amounts& taken = taken_[queue];
  for (const auto& [id, amount] : demand) taken.Add(id, sign * amount);
}

void QuotaView::Take(QueueId queue, const cluster::Demand& demand) { Add(queue, demand, 1); }

void QuotaView::GiveBack(const PodInfo& pod) { Add(pod.charged_queue, pod.charged, -1); }

std::vector<QuotaView::Allowance> QuotaView::Of(QueueId queue) const {
  std::vector<Allowance> allowances;
  if (queue == cluster::kNoQueue) return allowances;
  const auto& info = store_->queue(queue);
  const auto taken = taken_.find(queue);
  for (const auto& [id, cap] : info.caps) {
    const std::int64_t more = taken == taken_.end() ? 0 : taken->second[id];
    allowances.push_back({.id = id, .cap = cap, .left = cap - info.used[id] - more});
  }
  return allowances;
}

Verdict GrantMembers(const QuotaView& view, QueueId queue, std::span<const PodInfo* const> pods,
                     int min, int& fit) {
  fit = static_cast<int>(pods.size());
  for (const QuotaView::Allowance& allowance : view.Of(queue)) {
    std::int64_t sum = 0;
    std::int64_t minimum = 0;  // what the first `min` members take
    int count = 0;
    for (int i = 0; i < fit; ++i) {
      sum += DemandOf(*pods[static_cast<std::size_t>(i)]->shape, allowance.id);
      if (i < min) minimum = sum;
      // A member that asks for none of it passes, even in a queue that is over its cap.
      if (sum == 0 || sum <= allowance.left) count = i + 1;
    }
    if (count < min) return Denied(view, allowance, minimum);
    fit = count;
  }
  return {};
}

Verdict GrantCharge(const QuotaView& view, QueueId queue, std::span<const Placed> placed,
                    bool strict) {
  cluster::Amounts asked;
  cluster::Amounts charge;
  for (const Placed& member : placed) {
    const cluster::NodeInfo& node = view.store().node(member.node);
    for (const auto& [id, amount] : view.store().DemandOn(*member.pod->shape, node)) {
      asked.Add(id, amount);
      charge.Add(id, amount);
    }
    if (member.pod->charged_queue != queue) continue;
    for (const auto& [id, amount] : member.pod->charged) charge.Add(id, -amount);
  }
  for (const QuotaView::Allowance& allowance : view.Of(queue)) {
    const std::int64_t want = charge[allowance.id];
    const bool counts = strict ? asked[allowance.id] > 0 : want > 0;
    if (counts && want > allowance.left) return Denied(view, allowance, want);
  }
  return {};
}

std::function<bool(NodeIndex)> PayableNodes(const QuotaView& view, QueueId queue,
                                            std::span<const PodInfo* const> pods) {
  const PodInfo& first = *pods.front();
  if (!first.shape->whole_node) return {};
  std::vector<QuotaView::Allowance> allowances = view.Of(queue);
  if (allowances.empty()) return {};
  return [&store = view.store(), shape = first.shape, allowances = std::move(allowances),
          members = static_cast<std::int64_t>(pods.size())](NodeIndex node) {
    const cluster::Demand demand = store.DemandOn(*shape, store.node(node));
    return std::ranges::all_of(allowances, [&](const QuotaView::Allowance& allowance) {
      const auto it = std::ranges::find(demand, allowance.id, &cluster::Demand::value_type::first);
      return it == demand.end() || it->second <= allowance.left / members;
    });
  };
}

bool IsOver(const QuotaView& view, const PodInfo& pod) {
  return std::ranges::any_of(
      view.Of(pod.charged_queue), [&](const QuotaView::Allowance& allowance) {
        const auto takes = [&](const auto& part) { return part.first == allowance.id; };
        return allowance.left < 0 && std::ranges::any_of(pod.charged, takes);
      });
}

}  // namespace berth::policy
