#include "policy/queue_order.h"

#include <algorithm>

namespace berth::policy {
namespace {

void CountExcess(const cluster::Store& store, const cluster::Amounts& used,
                 const cluster::Amounts& quota, const cluster::Demand& wants, Standing& standing) {
  for (const auto& [id, amount] : wants) {
    const std::int64_t excess = used[id] + amount - quota[id];
    if (excess <= 0) continue;
    standing.beyond = true;
    standing.excess = std::max(
        standing.excess, ExcessPart(excess, store.total_devices()[id], store.device_ids().size()));
  }
}

}  // namespace

std::int64_t ExcessPart(std::int64_t amount, std::int64_t total, std::size_t kinds) {
  if (kinds == 1) return amount;
  constexpr __int128 kParts = 1'000'000'000;
  return static_cast<std::int64_t>(
      std::min<__int128>(kParts * kParts, kParts * amount / std::max<std::int64_t>(1, total)));
}

bool Standing::operator<(const Standing& other) const {
  if (beyond != other.beyond) return !beyond;
  if (beyond) {
    // A queue without weight comes after all that have some.
    if ((weight == 0) != (other.weight == 0)) return weight != 0;
    const __int128 mine = static_cast<__int128>(excess) * std::max<std::int64_t>(1, other.weight);
    const __int128 its = static_cast<__int128>(other.excess) * std::max<std::int64_t>(1, weight);
    if (mine != its) return mine < its;
  }
  return priority > other.priority;
}

Standing StandingOf(const cluster::Store& store, cluster::QueueId queue,
                    const cluster::Demand& wants) {
  Standing standing;
  if (!store.policy().borrowing || queue == cluster::kNoQueue) return standing;
  const cluster::QueueInfo& info = store.queue(queue);
  standing.weight = info.config.weight;
  standing.priority = info.config.priority;
  CountExcess(store, info.used, info.quota, wants, standing);
  return standing;
}

Standing StandingOfOwn(const cluster::Store& store, cluster::QueueId queue,
                       const cluster::Demand& wants) {
  Standing standing;
  if (!store.policy().borrowing || queue == cluster::kNoQueue) return standing;
  standing.weight = 1000;
  CountExcess(store, store.queue(queue).own, {}, wants, standing);
  return standing;
}

std::int64_t LargestPart(const DeviceAmounts& held, const DeviceAmounts& total) {
  std::int64_t most = 0;
  for (std::size_t kind = 0; kind < held.size(); ++kind) {
    most = std::max(most, ExcessPart(held[kind], total[kind], held.size()));
  }
  return most;
}

DeviceAmounts TotalDevices(const cluster::Store& store) {
  DeviceAmounts total;
  for (const cluster::ResourceId id : store.device_ids()) {
    total.push_back(store.total_devices()[id]);
  }
  return total;
}

DeviceAmounts HeldBy(const cluster::Store& store, cluster::QueueId queue, std::string_view sharer,
                     const cluster::Demand& wants) {
  const auto& shares = store.queue(queue).shares;
  const auto share = shares.find(sharer);
  DeviceAmounts held;
  for (const cluster::ResourceId id : store.device_ids()) {
    held.push_back(share == shares.end() ? 0 : share->second.used[id]);
    for (const auto& [wanted, amount] : wants) held.back() += wanted == id ? amount : 0;
  }
  return held;
}

}  // namespace berth::policy
