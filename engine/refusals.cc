#include "engine/refusals.h"

#include <algorithm>

namespace berth::engine {

using cluster::NodeIndex;
using cluster::PodInfo;
using cluster::PodShape;
using cluster::Workload;

namespace {

/// A node whose kubelet rejected a pod is not used for 5 s, doubled with each rejection up to 160
/// s; until 5 min after the last rejection it is the last resort.
constexpr TimePoint kFirstPauseMs = 5'000;
constexpr TimePoint kLastResortMs = 300'000;
constexpr std::size_t kMaxRejected = 1024;

}  // namespace

TimePoint SecondsUntil(TimePoint then, TimePoint now) {
  return std::max<TimePoint>(0, then - now + 999) / 1'000;
}

std::vector<policy::Avoid> NotYet(std::vector<policy::Avoid> avoid, TimePoint now) {
  std::erase_if(avoid, [now](const policy::Avoid& a) { return a.until <= now; });
  return avoid;
}

TimePoint SecondsLeft(std::span<const policy::Avoid> avoid, TimePoint now) {
  const auto first = std::ranges::min_element(avoid, {}, &policy::Avoid::until);
  return first == avoid.end() ? 0 : SecondsUntil(first->until, now);
}

Refusals::Pause Refusals::Rejected(const std::shared_ptr<const PodShape>& shape, NodeIndex node,
                                   TimePoint now) {
  Rejection fresh{.shape = shape, .node = node, .times = 1, .since = now, .pause = {}};
  std::erase_if(rejected_, [&](const Rejection& known) {
    if (!known.Is(*shape, node)) return false;
    // A pod that was bound before the first rejection is no new attempt.
    fresh.times = known.times + (now >= known.pause.again ? 1 : 0);
    return true;
  });
  fresh.pause.again = now + (kFirstPauseMs << std::min(fresh.times - 1, 5));
  fresh.pause.until = now + kLastResortMs;
  if (rejected_.size() >= kMaxRejected) rejected_.erase(rejected_.begin());
  return rejected_.emplace_back(std::move(fresh)).pause;
}

void Refusals::Succeeded(const PodShape& shape, NodeIndex node, TimePoint bound_at) {
  std::erase_if(rejected_, [&](const Rejection& known) {
    return known.Is(shape, node) && bound_at > known.since;
  });
}

bool Refusals::Expire(const Workload& workload, TimePoint now) {
  const auto it = refused_.find(&workload);
  if (it == refused_.end()) return false;
  const auto over = [now](const policy::Avoid& a) { return a.until <= now; };
  const bool any = std::erase_if(it->second, over) > 0;
  if (it->second.empty()) refused_.erase(it);
  return any;
}

void Refusals::ExpireRejections(TimePoint now) {
  std::erase_if(rejected_, [now](const Rejection& known) { return known.pause.until <= now; });
}

void Refusals::ForgetNode(NodeIndex node) {
  std::erase_if(rejected_, [node](const Rejection& known) { return known.node == node; });
  for (auto& [workload, avoid] : refused_) {
    std::erase_if(avoid, [node](const policy::Avoid& a) { return a.node == node; });
  }
}

void Refusals::Clear() {
  refused_.clear();
  rejected_.clear();
}

std::vector<policy::Avoid> Refusals::Of(const Workload& workload,
                                        std::span<const PodInfo* const> pods) const {
  std::vector<policy::Avoid> avoid;
  if (const auto it = refused_.find(&workload); it != refused_.end()) avoid = it->second;
  for (const Rejection& known : rejected_) {
    const auto alike = [&](const PodInfo* pod) { return pod->shape == known.shape; };
    if (std::ranges::none_of(pods, alike)) continue;
    avoid.push_back({.shape = known.shape, .node = known.node, .until = known.pause.again});
  }
  return avoid;
}

bool Refusals::WasRejected(const PodShape& shape, NodeIndex node) const {
  return std::ranges::any_of(rejected_, [&](const Rejection& r) { return r.Is(shape, node); });
}

}  // namespace berth::engine
