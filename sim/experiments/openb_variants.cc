#include "sim/experiments/openb_variants.h"

#include <algorithm>
#include <cmath>

namespace berth::sim {
namespace {

// Streams of a seed.
constexpr std::uint64_t kDepartureStream = 4;
constexpr std::uint64_t kDriftStream = 5;
constexpr std::uint64_t kGangStream = 6;

/// The longest time in seconds that a pod stays in variants in which pods leave.
constexpr std::int64_t kLongest = 6 * 3600;

std::vector<Arrival> Protocol(const std::vector<OpenbPod>& pods, std::int64_t capacity,
                              std::uint64_t seed) {
  std::vector<Arrival> arrivals;
  for (const std::size_t pod : ArrivalOrder(pods, capacity, seed)) {
    arrivals.push_back({.pod = pod});
  }
  return arrivals;
}

std::vector<Arrival> TimeOrder(const std::vector<OpenbPod>& pods, std::int64_t capacity,
                               std::uint64_t seed) {
  auto arrivals = Protocol(pods, capacity, seed);
  const auto drawn =
      arrivals.begin() + static_cast<std::ptrdiff_t>(std::min(pods.size(), arrivals.size()));
  const auto earlier = [&pods](const Arrival& a, const Arrival& b) {
    const OpenbPod& x = pods[a.pod];
    const OpenbPod& y = pods[b.pod];
    return x.creation_s != y.creation_s ? x.creation_s < y.creation_s : x.name < y.name;
  };
  std::stable_sort(arrivals.begin(), drawn, earlier);
  std::stable_sort(drawn, arrivals.end(), earlier);
  return arrivals;
}

std::vector<Arrival> Departures(const std::vector<OpenbPod>& pods, std::int64_t capacity,
                                std::uint64_t seed) {
  // Enough arrivals for the longest pod to arrive and leave several times.
  constexpr std::size_t kArrivals = 150'000;
  constexpr double kLoad = 1.2;
  const auto service = [](const OpenbPod& pod) {
    return std::min(kLongest, *pod.deletion_s - *pod.scheduled_s);
  };
  std::vector<std::size_t> ran;
  double offered = 0;  // thousandths of a GPU x seconds
  for (std::size_t i = 0; i < pods.size(); ++i) {
    const OpenbPod& pod = pods[i];
    if (!pod.scheduled_s || !pod.deletion_s || *pod.deletion_s < *pod.scheduled_s) continue;
    ran.push_back(i);
    offered += static_cast<double>(pod.total_gpu_milli() * service(pod));
  }
  std::vector<Arrival> arrivals;
  if (ran.empty() || offered <= 0) return arrivals;
  std::ranges::sort(ran, {}, [&pods](std::size_t i) -> const std::string& { return pods[i].name; });
  const double gap_ms =
      1000 * offered / static_cast<double>(ran.size()) / (kLoad * static_cast<double>(capacity));
  Random random(seed, kDepartureStream);
  double at = 0;
  for (std::size_t i = 0; i < kArrivals; ++i) {
    const OpenbPod& pod = pods[ran[random.Below(ran.size())]];
    at += random.Exponential(gap_ms);
    arrivals.push_back({.pod = static_cast<std::size_t>(&pod - pods.data()),
                        .at_ms = std::llround(at),
                        .service_ms = service(pod) * 1000});
  }
  return arrivals;
}

std::vector<Arrival> Drift(const std::vector<OpenbPod>& pods, std::int64_t capacity,
                           std::uint64_t seed) {
  auto arrivals = Protocol(pods, capacity, seed);
  Random random(seed, kDriftStream);
  std::vector<std::pair<double, Arrival>> keyed;
  for (const Arrival& arrival : arrivals) {
    const OpenbPod& pod = pods[arrival.pod];
    const double late = pod.gpus > 0 && pod.gpu_milli == 1000 ? 0.5 : pod.gpus == 0 ? 0.25 : 0.0;
    keyed.emplace_back(random.Unit() + late, arrival);
  }
  std::ranges::stable_sort(keyed, {}, [](const auto& entry) { return entry.first; });
  for (std::size_t i = 0; i < keyed.size(); ++i) arrivals[i] = keyed[i].second;
  return arrivals;
}

std::vector<Arrival> Gangs(const std::vector<OpenbPod>& pods, std::int64_t capacity,
                           std::uint64_t seed) {
  Random random(seed, kGangStream);
  const std::int64_t limit = capacity * kInflationPercent / 100;
  std::int64_t total = 0;
  std::vector<Arrival> arrivals;
  for (Arrival arrival : Protocol(pods, capacity, seed)) {
    const OpenbPod& pod = pods[arrival.pod];
    const bool whole = pod.gpus > 0 && pod.gpu_milli == 1000;
    if (whole && random.Below(10) == 0) arrival.members = 2 + static_cast<int>(random.Below(7));
    total += pod.total_gpu_milli() * arrival.members;
    if (total > limit) break;
    arrivals.push_back(arrival);
  }
  return arrivals;
}

}  // namespace

const std::vector<std::string_view>& OpenbVariants() {
  static const std::vector<std::string_view> kVariants{"protocol", "time-order", "departures",
                                                       "drift",    "gangs",      "racks"};
  return kVariants;
}

std::expected<std::vector<Arrival>, std::string> Arrivals(std::string_view variant,
                                                          const std::vector<OpenbPod>& pods,
                                                          std::int64_t capacity_milli,
                                                          std::uint64_t seed) {
  if (variant == "protocol") return Protocol(pods, capacity_milli, seed);
  if (variant == "drift") return Drift(pods, capacity_milli, seed);
  if (variant == "gangs" || variant == "racks") return Gangs(pods, capacity_milli, seed);
  const bool timed =
      std::ranges::any_of(pods, [](const OpenbPod& pod) { return pod.scheduled_s.has_value(); });
  if (!timed) return std::unexpected("this list has no times");
  return variant == "time-order" ? TimeOrder(pods, capacity_milli, seed)
                                 : Departures(pods, capacity_milli, seed);
}

std::vector<OpenbNode> InRacks(std::vector<OpenbNode> nodes, std::size_t size) {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    nodes[i].rack = "rack-" + std::to_string(i / size);
  }
  return nodes;
}

}  // namespace berth::sim
