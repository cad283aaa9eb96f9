#include "sim/baselines/baselines.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

namespace berth::sim {

using cluster::PodShape;
using policy::NodeState;
using policy::Score;
using policy::Scored;
using topology::DeviceMask;
using topology::DeviceSet;

namespace {

constexpr std::int64_t kMostCpu = 128'000;  ///< In thousandths of a core, of the largest node.
constexpr std::int64_t kMostDevices = 8'000;

/// Inputs of the formulas. Devices are the policy's first kind.
struct Numbers {
  Numbers(const PodShape& shape, const NodeState& node)
      : cpu(node.free(cluster::kCpu)),
        asks_cpu(policy::DemandOf(shape, cluster::kCpu)),
        left(node.devices.total()),
        asks(shape.device_amount) {}
  std::int64_t cpu;
  std::int64_t asks_cpu;
  std::int64_t left;
  std::int64_t asks;
};

std::int64_t DivideUp(std::int64_t a, std::int64_t b) { return a / b + (a % b > 0 ? 1 : 0); }

/// The device for a share in policies that do not choose one themselves.
DeviceMask Tightest(const PodShape& shape, const NodeState& node) {
  return shape.share > 0 ? node.devices.Tightest(shape.share) : DeviceMask{0};
}

class Random : public policy::NodeScorer {
 public:
  Scored Of(const PodShape& shape, const NodeState& node) const override {
    return {.score = 0, .devices = node.devices.AtLeast(shape.share)};
  }
};

/// floor(100 x (1 - (cpu x asked / MostCpu^2 + left x asked / MostDevices^2) / 2)): a smaller
/// product scores higher, the reverse of Tetris.
class DotProd : public policy::NodeScorer {
 public:
  Scored Of(const PodShape& shape, const NodeState& node) const override {
    const Numbers n(shape, node);
    constexpr std::int64_t kRatio = (kMostCpu / kMostDevices) * (kMostCpu / kMostDevices);
    const std::int64_t product = n.cpu * n.asks_cpu + kRatio * n.left * n.asks;
    return {.score = 100 - DivideUp(50 * product, kMostCpu * kMostCpu),
            .devices = Tightest(shape, node)};
  }
};

/// Puts pods of one kind (shares, 1 device, 2 devices, ...) together.
class GpuClustering : public policy::NodeScorer {
 public:
  bool LooksAtHosted() const override { return true; }
  Scored Of(const PodShape& shape, const NodeState& node) const override {
    const Numbers n(shape, node);
    if (n.asks == 0) return {};
    const std::uint32_t kind = shape.share > 0 ? 1U : 1U << (n.asks / cluster::kMilli);
    Score score = 25 * (kMostDevices - n.left) / kMostDevices;
    if (node.hosted == kind) {
      score += 75;
    } else if ((node.hosted & kind) != 0) {
      score += 50;
    } else if (node.hosted == 0) {
      score += 25;
    }
    return {.score = score, .devices = Tightest(shape, node)};
  }
};

/// Prefers used devices to free ones, and used nodes to free ones.
class GpuPacking : public policy::NodeScorer {
 public:
  Scored Of(const PodShape& shape, const NodeState& node) const override {
    if (shape.device_amount == 0) return {};
    const DeviceSet& devices = node.devices;
    const Score free = devices.WholeFree();
    if (free == devices.size()) {
      return {.score = std::max(33 - free, free), .devices = Tightest(shape, node)};
    }
    const Score whole = shape.device_amount / cluster::kMilli;
    if (shape.share == 0) return {.score = std::max<Score>(50 - whole, 33)};
    const DeviceMask device = devices.Tightest(shape.share);
    const int left = devices.free(std::countr_zero(device));
    if (left == DeviceSet::kWhole) return {.score = 49, .devices = device};
    return {.score = std::max<Score>(100 - left / 10 / 10, 50), .devices = device};
  }
};

/// floor(100 x (1 - 0.5 x (cpu - asked) / MostCpu - 0.5 x (left - asked) / MostDevices))
class BestFit : public policy::NodeScorer {
 public:
  Scored Of(const PodShape& shape, const NodeState& node) const override {
    const Numbers n(shape, node);
    const std::int64_t rest = (n.cpu - n.asks_cpu) + kMostCpu / kMostDevices * (n.left - n.asks);
    return {.score = 100 - DivideUp(50 * rest, kMostCpu), .devices = Tightest(shape, node)};
  }
};

/// Fragmentation gradient descent.
class Fgd : public policy::NodeScorer {
 public:
  Scored Of(const PodShape& shape, const NodeState& node) const override {
    const Numbers n(shape, node);
    const std::int64_t before = policy::FragmentSum(*node.mix, n.cpu, n.left, node.devices);
    const std::int64_t cpu = n.cpu - n.asks_cpu;
    const auto score = [&](const DeviceSet& after) {
      return FgdScore(before - policy::FragmentSum(*node.mix, cpu, n.left - n.asks, after));
    };
    if (shape.share == 0) {
      DeviceSet after = node.devices;
      after.Take(after.LowestWhole(static_cast<int>(n.asks / cluster::kMilli)), DeviceSet::kWhole);
      return {.score = score(after)};
    }
    Scored best{.score = std::numeric_limits<Score>::min()};
    node.devices.ForEachShare(shape.share, [&](DeviceMask alike, const DeviceSet& after) {
      const Score here = score(after);
      if (here < best.score) return;
      const unsigned also = here == best.score ? best.devices : 0U;
      best = {.score = here, .devices = static_cast<DeviceMask>(also | alike)};
    });
    return best;
  }
};

/// 1000 ln(s / (100 - s)) for s = 51..99, in millionths, rounded up: from this value on, the score
/// is s.
constexpr std::array<std::int64_t, 49> kThresholds = {
    40005335,   80042708,   120144312,  160342651,  200670696,  241162057,  281851153,
    322773393,  363965378,  405465109,  447312219,  489548226,  532216814,  575364145,
    619039209,  663294218,  708185058,  753771803,  800119301,  847297861,  895384048,
    944461609,  994622576,  1045968556, 1098612289, 1152679510, 1208311206, 1265666374,
    1324925415, 1386294362, 1450010176, 1516347490, 1585627264, 1658228077, 1734601056,
    1815289967, 1900958762, 1992430165, 2090741097, 2197224578, 2313634930, 2442347036,
    2586689345, 2751535314, 2944438980, 3178053831, 3476098690, 3891820299, 4595119851};

}  // namespace

Score FgdScore(std::int64_t shrinks) {
  // The sigmoid is symmetric: a value that is not whole above 50 is one less below.
  if (shrinks < 0) return 99 - FgdScore(-shrinks);
  return 50 + (std::ranges::upper_bound(kThresholds, shrinks) - kThresholds.begin());
}

std::span<const std::string_view> BaselineNames() {
  static constexpr std::array<std::string_view, 6> kNames = {
      "Random", "DotProd", "GpuClustering", "GpuPacking", "BestFit", "FGD"};
  return kNames;
}

std::unique_ptr<const policy::NodeScorer> MakeBaseline(std::string_view name) {
  if (name == "Random") return std::make_unique<Random>();
  if (name == "DotProd") return std::make_unique<DotProd>();
  if (name == "GpuClustering") return std::make_unique<GpuClustering>();
  if (name == "GpuPacking") return std::make_unique<GpuPacking>();
  if (name == "BestFit") return std::make_unique<BestFit>();
  if (name == "FGD") return std::make_unique<Fgd>();
  return nullptr;
}

}  // namespace berth::sim
