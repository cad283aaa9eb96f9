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
  const bool has_past = index < past.size();
  const auto counts = [&](cluster::ResourceId id, std::int64_t held) {
    return has_past ? (past[index].held[id] + held) / 2 : held;
  };
  BeyondQuota now(store.device_ids().size());
  BeyondQuota mean = now;
  for (const auto& [id, amount] : wants) {
    const std::int64_t held = used[id] + amount;
    now.See(held, quota[id]);
    mean.See(counts(id, held), quota[id]);
  }
  for (const auto& [id, amount] : wants) {
    const std::int64_t held = used[id] + amount;
    if (!now.Is(held, quota[id])) continue;
    const std::int64_t total = store.total_devices()[id];
    standing.beyond = true;
    standing.held_excess = std::max(standing.held_excess, now.Part(held, quota[id], total));
    if (has_past) standing.entitled &= held <= past[index].share[id];
    standing.excess = std::max(standing.excess, mean.Part(counts(id, held), quota[id], total));
  }
}

/// A part of excess by weight: whether one is less than the other. A queue of weight 0 comes after
/// all queues with a weight.
bool IsLess(std::int64_t excess, std::int64_t weight, std::int64_t other, std::int64_t its_weight) {
  if ((weight == 0) != (its_weight == 0)) return weight != 0;
  return static_cast<__int128>(excess) * std::max<std::int64_t>(1, its_weight) <
         static_cast<__int128>(other) * std::max<std::int64_t>(1, weight);
}

constexpr __int128 kParts = 1'000'000'000;

}  // namespace

std::int64_t ExcessPart(std::int64_t amount, std::int64_t total, std::size_t kinds) {
  if (kinds == 1) return amount;
  return static_cast<std::int64_t>(
      std::min<__int128>(kParts * kParts, kParts * amount / std::max<std::int64_t>(1, total)));
}

void BeyondQuota::See(std::int64_t amount, std::int64_t quota) {
  if (quota <= 0) return;
  promised_ = true;
  if (amount <= quota) return;
  is_over_ = true;
  over_ = std::max(over_, static_cast<std::int64_t>(kParts * (amount - quota) / amount));
}

bool BeyondQuota::Is(std::int64_t amount, std::int64_t quota) const {
  return Follows(quota) ? is_over_ && amount > 0 : amount > quota;
}

std::int64_t BeyondQuota::Part(std::int64_t amount, std::int64_t quota, std::int64_t total) const {
  if (!Follows(quota)) return ExcessPart(std::max<std::int64_t>(0, amount - quota), total, kinds_);
  return static_cast<std::int64_t>(ExcessPart(amount, total, kinds_) * __int128{over_} / kParts);
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
  return std::ranges::any_of(store.queue(queue).path, [&](cluster::QueueId charged) {
    const cluster::QueueInfo& info = store.queue(charged);
    BeyondQuota beyond(store.device_ids().size());
    for (const auto& [id, amount] : wants) beyond.See(info.used[id] + amount, info.quota[id]);
    return std::ranges::any_of(wants, [&](const auto& part) {
      return beyond.Is(info.used[part.first] + part.second, info.quota[part.first]);
    });
  });
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
