#include "sim/stock_scorer.h"

#include <algorithm>
#include <cstdlib>

#include "policy/law.h"

namespace berth::sim {
namespace {

constexpr std::int64_t kDefaultCpu = 100;            // thousandths of a core
constexpr std::int64_t kDefaultMemory = 200 << 20U;  // bytes
constexpr std::int64_t kMost = 100;                  // kube-scheduler's MaxNodeScore

struct Use {
  std::int64_t all = 0;
  std::int64_t requested = 0;  ///< With the pod.
};

Use UseOf(const cluster::PodShape& shape, const policy::NodeState& node, cluster::ResourceId id,
          std::int64_t without_request) {
  const std::int64_t asked = policy::DemandOf(shape, id);
  const std::int64_t all = node.all(id);
  return {.all = all, .requested = all - node.free(id) + (asked == 0 ? without_request : asked)};
}

std::int64_t Least(const Use& use) {
  return use.all == 0 || use.requested > use.all ? 0 : (use.all - use.requested) * kMost / use.all;
}

std::int64_t Most(const Use& use) {
  return use.all == 0 ? 0 : std::min(use.requested, use.all) * kMost / use.all;
}

/// (1 - |a - b| / 2) x 100 of the two used fractions.
std::int64_t Balanced(const Use& a, const Use& b) {
  const auto fraction = [](const Use& use) {
    return use.all == 0
               ? policy::kMillion
               : policy::MulDiv(std::min(use.requested, use.all), policy::kMillion, use.all);
  };
  return (2 * policy::kMillion - std::abs(fraction(a) - fraction(b))) * kMost /
         (2 * policy::kMillion);
}

}  // namespace

policy::Scored StockScorer::Of(const cluster::PodShape& shape,
                               const policy::NodeState& node) const {
  const Use cpu = UseOf(shape, node, cluster::kCpu, kDefaultCpu);
  const Use memory = UseOf(shape, node, cluster::kMemory, kDefaultMemory);
  policy::Scored scored;
  // A share goes where it fits; which device is the device plugin's business: the fullest.
  if (shape.share > 0) scored.devices = node.devices.Tightest(shape.share);
  if (strategy_ == StockStrategy::kLeastAllocated) {
    scored.score = (Least(cpu) + Least(memory)) / 2 + Balanced(cpu, memory);
    return scored;
  }
  std::int64_t sum = Most(cpu) + Most(memory);
  std::int64_t resources = 2;
  if (shape.device != cluster::kPods) {
    sum += Most(UseOf(shape, node, shape.device, 0));
    ++resources;
  }
  scored.score = sum / resources;
  return scored;
}

}  // namespace berth::sim
