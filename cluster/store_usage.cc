// Store, continued: what queues and users have used. Only bound pods count, not what is planned.
#include <algorithm>

#include "cluster/store.h"

namespace berth::cluster {

void Store::BeginUsage(const UsageRecord& record) {
  const TimePoint until = record.until > 0 ? std::min(record.until, now_) : now_;
  meter_.emplace(record, until);
  meter_->SetHalfLife(policy_.fairness.half_life.count(), until);
  for (QueueInfo& info : queues_) info.metered = {};
  for (PodInfo* pod : pod_list_) {
    pod->metered.clear();
    const auto& scheduled = pod->object.pod_scheduled;
    const bool known = scheduled && scheduled->status && scheduled->since != 0;
    const TimePoint from = known ? std::clamp(scheduled->since, until, now_) : now_;
    if (pod->charge == Charge::kBound) CountUsage(*pod, 1, from);
  }
}

std::optional<UsageRecord> Store::UsageUntil(TimePoint now) const {
  return meter_ ? std::optional(meter_->Record(now)) : std::nullopt;
}

Amounts Store::PastUse(QueueId queue, TimePoint now) const {
  const QueueInfo& info = this->queue(queue);
  Amounts past;
  for (const ResourceId id : device_ids_) {
    past.Add(id, meter_ ? meter_->Past(info.config.name, resources_.Name(id), now) : info.used[id]);
  }
  return past;
}

/// What is taken off is what was added, although the policy's devices may have changed in between.
/// It counts since `from`.
void Store::CountUsage(PodInfo& pod, int sign, TimePoint from) {
  if (!meter_ || pod.charged_queue == kNoQueue) return;
  QueueInfo& info = queues_[static_cast<std::size_t>(pod.charged_queue)];
  if (sign > 0) {
    std::ranges::copy_if(pod.charged, std::back_inserter(pod.metered), [this](const auto& entry) {
      return std::ranges::find(device_ids_, entry.first) != device_ids_.end();
    });
    if (pod.metered.empty()) return;
    pod.metered_user = &meter_->OfUser(info.config.name, pod.user, now_);
  }
  for (const auto& [id, amount] : pod.metered) {
    pod.metered_user->Hold(resources_.Name(id), sign * amount, from, now_);
    info.metered.Add(id, sign * amount);
    HoldAlong(info, id, sign * amount, from);
  }
  if (sign < 0) pod.metered.clear();
}

void Store::HoldAlong(const QueueInfo& queue, ResourceId device, std::int64_t amount,
                      TimePoint from) {
  for (const QueueId id : queue.path) {
    const std::string& name = queues_[static_cast<std::size_t>(id)].config.name;
    meter_->OfQueue(name).Hold(resources_.Name(device), amount, from, now_);
  }
}

/// The paths of the queues may have changed: what has been used stays where it was counted.
void Store::CountUsageAlongPaths() {
  if (!meter_) return;
  meter_->SetHalfLife(policy_.fairness.half_life.count(), now_);
  meter_->RestQueues(now_);
  for (const QueueInfo& info : queues_) {
    for (ResourceId id = 0; id < info.metered.size(); ++id) {
      if (info.metered[id] != 0) HoldAlong(info, id, info.metered[id], now_);
    }
  }
}

}  // namespace berth::cluster
