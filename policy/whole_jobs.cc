#include "policy/whole_jobs.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace berth::policy {
namespace {

/// A level in billionths: of the quota up to there, then of all that there is.
constexpr __int128 kFull = 1'000'000'000;

__int128 RoundedUp(__int128 a, __int128 b) { return (a + b - 1) / b; }

/// The largest part that `devices` is of all of a kind.
__int128 DominantPart(const DeviceAmounts& devices, const DeviceAmounts& total) {
  __int128 part = 0;
  for (std::size_t kind = 0; kind < devices.size(); ++kind) {
    part = std::max(part, devices[kind] * kFull / total[kind]);
  }
  return part;
}

}  // namespace

WholeJobs::WholeJobs(std::vector<JobSize> jobs, DeviceAmounts quota, DeviceAmounts total)
    : quota_(std::move(quota)),
      total_(std::move(total)),
      taken_(total_.size()),
      step_(total_.size()) {
  for (std::int64_t& amount : total_) amount = std::max<std::int64_t>(1, amount);
  // Levels of a quota beyond all that there is would be too coarse.
  std::ranges::transform(quota_, total_, quota_.begin(), std::ranges::min);
  std::map<DeviceAmounts, std::int64_t> counts;
  for (const JobSize& job : jobs) counts[job.devices] += job.count;
  std::int64_t number = 0;
  for (const auto& [devices, count] : counts) {
    if (count <= 0 || std::ranges::all_of(devices, [](auto amount) { return amount == 0; })) {
      continue;
    }
    bool promised = false;
    for (std::size_t kind = 0; kind < devices.size(); ++kind) {
      promised |= devices[kind] > 0 && quota_[kind] > 0;
    }
    sizes_.push_back({.devices = devices,
                      .part = DominantPart(devices, total_),
                      .count = count,
                      .promised = promised});
    number += count;
  }
  std::ranges::sort(sizes_, [](const Size& a, const Size& b) {
    return a.part != b.part ? a.part > b.part : a.devices > b.devices;
  });
  not_all_ = sizes_.size();
  if (sizes_.size() <= kMostSizes) raises_left_ = 2 * number + 64;
  FindNext();
}

/// The least level at which there is `amount` of a kind.
__int128 WholeJobs::LevelFor(std::size_t kind, std::int64_t amount) const {
  const std::int64_t quota = quota_[kind];
  if (amount <= quota) return RoundedUp(amount * kFull, quota);
  return kFull + RoundedUp((amount - quota) * kFull, total_[kind]);
}

std::int64_t WholeJobs::AmountAt(std::size_t kind, __int128 level) const {
  const __int128 amount = level <= kFull ? quota_[kind] * level / kFull
                                         : quota_[kind] + total_[kind] * (level - kFull) / kFull;
  return static_cast<std::int64_t>(
      std::min<__int128>(amount, std::numeric_limits<std::int64_t>::max()));
}

/// Whether the level says how much of the kind the jobs may have. Not of a kind without quota, if
/// they ask for one that has some: that quota promises the whole job (BeyondQuota in
/// queue_order.h).
bool WholeJobs::IsBound(const Size& size, std::size_t kind) const {
  return size.devices[kind] > 0 && (quota_[kind] > 0 || !size.promised);
}

/// Sets `next` of each size, and the step.
void WholeJobs::FillTo(__int128 level) {
  DeviceAmounts left(total_.size());
  for (std::size_t kind = 0; kind < left.size(); ++kind) {
    left[kind] = AmountAt(kind, level);
    step_[kind] = -taken_[kind];
  }
  for (Size& size : sizes_) {
    size.next = size.count;
    for (std::size_t kind = 0; kind < left.size(); ++kind) {
      if (!IsBound(size, kind)) continue;
      const std::int64_t most = std::max<std::int64_t>(0, left[kind]) / size.devices[kind];
      size.next = std::min(size.next, most);
    }
    for (std::size_t kind = 0; kind < left.size(); ++kind) {
      left[kind] -= size.next * size.devices[kind];
      step_[kind] += size.next * size.devices[kind];
    }
  }
}

/// False: no level admits more, or none without a loss in some kind.
bool WholeJobs::RaiseLevel() {
  constexpr __int128 kNone = std::numeric_limits<std::int64_t>::max() * kFull;
  __int128 level = kNone;
  DeviceAmounts before(total_.size());  // what the size and larger ones take
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    const Size& size = sizes_[i];
    __int128 needed = 0;
    for (std::size_t kind = 0; kind < before.size(); ++kind) {
      before[kind] += size.taken * size.devices[kind];
      if (!IsBound(size, kind)) continue;
      needed = std::max(needed, LevelFor(kind, before[kind] + size.devices[kind]));
    }
    if (size.taken == size.count || needed >= level) continue;
    level = needed;
    trigger_ = i;
  }
  if (level == kNone) return false;
  FillTo(level);
  const auto loses = [](std::int64_t amount) { return amount < 0; };
  const auto gains = [](std::int64_t amount) { return amount > 0; };
  return std::ranges::none_of(step_, loses) && std::ranges::any_of(step_, gains);
}

/// False: all are taken.
bool WholeJobs::AddSmallest() {
  while (not_all_ > 0 && sizes_[not_all_ - 1].taken == sizes_[not_all_ - 1].count) --not_all_;
  if (not_all_ == 0) return false;
  trigger_ = not_all_ - 1;
  step_ = sizes_[trigger_].devices;
  return true;
}

void WholeJobs::FindNext() {
  if (raises_left_ > 0) {
    --raises_left_;
    more_ = raises_ = RaiseLevel();
    if (more_) return;
    raises_left_ = 0;
  }
  raises_ = false;
  more_ = AddSmallest();
}

void WholeJobs::Take() {
  for (std::size_t kind = 0; kind < taken_.size(); ++kind) taken_[kind] += step_[kind];
  if (raises_) {
    for (Size& size : sizes_) size.taken = size.next;
  } else {
    ++sizes_[trigger_].taken;
  }
  FindNext();
}

void WholeJobs::PassOver() {
  sizes_[trigger_].count = sizes_[trigger_].taken;
  if (total_.size() == 1) {  // all other steps are larger
    for (Size& size : sizes_) size.count = size.taken;
  }
  FindNext();
}

}  // namespace berth::policy
