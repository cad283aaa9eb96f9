#include "policy/queue_order.h"

#include <algorithm>
#include <span>

namespace berth::policy {
namespace {

/// `past`: empty without fairness.halfLife.
void CountExcess(const cluster::Store& store, const cluster::Amounts& used,
                 const cluster::Amounts& quota, const cluster::Demand& wants,
                 std::span<const PastUse::Of> past, cluster::QueueId queue, Standing& standing) {
  const auto index = static_cast<std::size_t>(queue);
  const auto part = [&](cluster::ResourceId id, std::int64_t excess) {
    return ExcessPart(std::max<std::int64_t>(0, excess), store.total_devices()[id],
                      store.device_ids().size());
  };
  for (const auto& [id, amount] : wants) {
    const std::int64_t held = used[id] + amount;
    if (held <= quota[id]) continue;
    standing.beyond = true;
    standing.held_excess = std::max(standing.held_excess, part(id, held - quota[id]));
    std::int64_t counts = held;
    if (index < past.size()) {
      counts = (past[index].held[id] + held) / 2;
      standing.entitled &= held <= past[index].share[id];
    }
    standing.excess = std::max(standing.excess, part(id, counts - quota[id]));
  }
}

/// A part of excess by weight: whether one is less than the other. A queue of weight 0 comes after
/// all queues with a weight.
bool IsLess(std::int64_t excess, std::int64_t weight, std::int64_t other, std::int64_t its_weight) {
  if ((weight == 0) != (its_weight == 0)) return weight != 0;
  return static_cast<__int128>(excess) * std::max<std::int64_t>(1, its_weight) <
         static_cast<__int128>(other) * std::max<std::int64_t>(1, weight);
}

/// Whether `is` is true of some quota along the path, what is in use of it, and what the job wants.
template <typename Is>
bool AnyQuota(const cluster::Store& store, cluster::QueueId queue, const cluster::Demand& wants,
              const Is& is) {
  return std::ranges::any_of(store.queue(queue).path, [&](cluster::QueueId charged) {
    const cluster::QueueInfo& info = store.queue(charged);
    return std::ranges::any_of(wants, [&](const auto& part) {
      const auto& [id, amount] = part;
      return is(info.quota[id], info.used[id], amount);
    });
  });
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
  if (beyond && owed != other.owed) return owed;
  if (beyond) {
    if (IsLess(excess, weight, other.excess, other.weight)) return true;
    if (IsLess(other.excess, other.weight, excess, weight)) return false;
  }
  return priority > other.priority;
}

bool HoldsLess(const Standing& one, const Standing& other) {
  return IsLess(one.held_excess, one.weight, other.held_excess, other.weight);
}

bool Yields(const Standing& standing, const Standing& entitled) {
  return !standing.entitled && entitled.entitled && HoldsLess(entitled, standing);
}

Standing StandingOf(const cluster::Store& store, cluster::QueueId queue,
                    const cluster::Demand& wants, const PastUse& past) {
  Standing standing;
  if (!store.policy().borrowing || queue == cluster::kNoQueue) return standing;
  const cluster::QueueInfo& info = store.queue(queue);
  standing.weight = info.config.weight;
  standing.priority = info.config.priority;
  CountExcess(store, info.used, info.quota, wants, past.queues, queue, standing);
  return standing;
}

bool GoesBeyondQuota(const cluster::Store& store, cluster::QueueId queue,
                     const cluster::Demand& wants) {
  return AnyQuota(store, queue, wants,
                  [](auto quota, auto used, auto amount) { return used + amount > quota; });
}

Standing StandingOfOwn(const cluster::Store& store, cluster::QueueId queue,
                       const cluster::Demand& wants, const PastUse& past) {
  Standing standing;
  if (!store.policy().borrowing || queue == cluster::kNoQueue) return standing;
  standing.weight = 1000;
  CountExcess(store, store.queue(queue).own, {}, wants, past.own, queue, standing);
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
