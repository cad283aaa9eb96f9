#include "sim/experiments/openb.h"

#include <algorithm>
#include <numeric>

namespace berth::sim {
namespace {

struct PublishedRow {
  std::string_view list;
  std::array<double, 6> figures;  // in the order of PublishedPolicies()
};

constexpr std::array kPublished{
    PublishedRow{"default", {13.70, 9.38, 8.35, 8.22, 7.14, 4.77}},
    PublishedRow{"cpu050", {10.98, 6.97, 6.48, 6.54, 6.44, 5.00}},
    PublishedRow{"cpu100", {12.56, 8.27, 7.59, 7.51, 6.74, 4.79}},
    PublishedRow{"cpu200", {16.97, 12.54, 10.33, 10.02, 7.85, 5.18}},
    PublishedRow{"cpu250", {20.00, 16.43, 12.25, 11.95, 8.79, 6.80}},
    PublishedRow{"gpushare40", {15.14, 10.70, 10.24, 10.23, 8.56, 6.04}},
    PublishedRow{"gpushare60", {17.19, 13.18, 13.10, 12.85, 10.94, 8.74}},
    PublishedRow{"gpushare80", {19.38, 15.86, 15.50, 15.35, 13.34, 10.92}},
    PublishedRow{"gpushare100", {21.10, 18.02, 17.78, 17.87, 15.38, 13.36}},
    PublishedRow{"gpuspec10", {13.74, 9.83, 8.04, 7.76, 6.90, 5.34}},
    PublishedRow{"gpuspec20", {14.10, 11.71, 10.89, 10.72, 11.54, 5.34}},
    PublishedRow{"gpuspec25", {14.58, 14.56, 13.59, 13.23, 14.33, 6.09}},
    PublishedRow{"gpuspec33", {16.13, 20.18, 18.91, 17.78, 19.60, 12.16}},
    PublishedRow{"multigpu20", {13.08, 8.15, 6.66, 6.50, 6.27, 4.47}},
    PublishedRow{"multigpu30", {13.37, 6.89, 5.45, 5.30, 5.43, 3.64}},
    PublishedRow{"multigpu40", {14.62, 5.96, 4.65, 4.41, 4.90, 3.09}},
    PublishedRow{"multigpu50", {18.72, 5.27, 4.31, 3.94, 4.38, 2.91}},
};

// Streams of a seed.
constexpr std::uint64_t kOrderStream = 1;

std::int64_t Limit(std::int64_t capacity_milli) { return capacity_milli * kInflationPercent / 100; }

}  // namespace

std::int64_t CapacityMilli(const std::vector<OpenbNode>& nodes) {
  std::int64_t gpus = 0;
  for (const OpenbNode& node : nodes) gpus += node.gpus;
  return gpus * 1000;
}

std::vector<std::size_t> ArrivalOrder(const std::vector<OpenbPod>& pods,
                                      std::int64_t capacity_milli, std::uint64_t seed) {
  std::vector<std::size_t> order(pods.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, {},
                    [&pods](std::size_t i) -> const std::string& { return pods[i].name; });
  const std::vector<std::size_t> original = order;
  Random random(seed, kOrderStream);
  random.Shuffle(order);
  const std::int64_t limit = Limit(capacity_milli);
  std::int64_t total = 0;
  for (const OpenbPod& pod : pods) total += pod.total_gpu_milli();
  while (total > limit && !order.empty()) {
    const auto victim = static_cast<std::ptrdiff_t>(random.Below(order.size()));
    total -= pods[order[static_cast<std::size_t>(victim)]].total_gpu_milli();
    order.erase(order.begin() + victim);
  }
  const bool asks = std::ranges::any_of(pods, [](const OpenbPod& pod) { return pod.gpus > 0; });
  while (asks && order.size() >= original.size()) {  // nothing was deleted
    const std::size_t drawn = original[random.Below(original.size())];
    if (total + pods[drawn].gpu_milli > limit) break;
    total += pods[drawn].total_gpu_milli();
    order.push_back(drawn);
  }
  return order;
}

void LoadCurve::Record(std::int64_t arrived_milli, std::int64_t allocated_milli) {
  const std::int64_t percent = (200 * arrived_milli + capacity_) / (2 * capacity_);  // rounded
  Sum& sum = sums_[static_cast<std::size_t>(std::clamp<std::int64_t>(percent, 0, kMaxPercent))];
  sum.allocated += allocated_milli;
  ++sum.events;
}

std::optional<double> LoadCurve::UnallocatedAt(int percent) const {
  if (percent < 0 || percent > kMaxPercent) return std::nullopt;
  const Sum& sum = sums_[static_cast<std::size_t>(percent)];
  if (sum.events == 0) return std::nullopt;
  return 100.0 - 100.0 * static_cast<double>(sum.allocated) /
                     (static_cast<double>(sum.events) * static_cast<double>(capacity_));
}

const std::vector<std::string_view>& PublishedLists() {
  static const std::vector<std::string_view> kLists = [] {
    std::vector<std::string_view> lists;
    for (const PublishedRow& row : kPublished) lists.push_back(row.list);
    return lists;
  }();
  return kLists;
}

const std::vector<std::string_view>& PublishedPolicies() {
  static const std::vector<std::string_view> kPolicies{"Random",     "DotProd", "GpuClustering",
                                                       "GpuPacking", "BestFit", "FGD"};
  return kPolicies;
}

std::optional<double> PublishedUnallocated(std::string_view list, std::string_view policy) {
  const auto row = std::ranges::find(kPublished, list, &PublishedRow::list);
  const auto column = std::ranges::find(PublishedPolicies(), policy);
  if (row == kPublished.end() || column == PublishedPolicies().end()) return std::nullopt;
  return row->figures[static_cast<std::size_t>(column - PublishedPolicies().begin())];
}

}  // namespace berth::sim
