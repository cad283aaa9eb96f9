#include "sim/experiments/statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace berth::sim {

double Mean(std::span<const double> values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double StandardDeviation(std::span<const double> values) {
  if (values.size() < 2) return 0;
  const double mean = Mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

double Quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto rank = static_cast<std::size_t>(
      std::max(1.0, std::ceil(share * static_cast<double>(values.size()))));
  const auto nth = values.begin() + static_cast<std::ptrdiff_t>(std::min(rank, values.size()) - 1);
  std::ranges::nth_element(values, nth);
  return *nth;
}

std::string RangeText(const Interval& interval, int decimals) {
  if (interval.count < 2) return "-";
  return fmt::format("{:+.{}f} .. {:+.{}f}", interval.mean - interval.half_width, decimals,
                     interval.mean + interval.half_width, decimals);
}

double StudentT975(std::size_t degrees) {
  static constexpr std::array kTable{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306,
                                     2.262,  2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
                                     2.110,  2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064,
                                     2.060,  2.056, 2.052, 2.048, 2.045, 2.042};
  if (degrees <= kTable.size()) return kTable[degrees - 1];
  // Cornish-Fisher, first two terms: correct to the third decimal above 30 degrees.
  const double z = 1.959964;
  const auto n = static_cast<double>(degrees);
  return z + (z * z * z + z) / (4 * n) +
         (5 * z * z * z * z * z + 16 * z * z * z + 3 * z) / (96 * n * n);
}

Interval PairedDifference(std::span<const double> a, std::span<const double> b) {
  std::vector<double> differences;
  for (std::size_t i = 0; i < a.size(); ++i) differences.push_back(a[i] - b[i]);
  Interval interval{.mean = Mean(differences), .count = differences.size()};
  if (differences.size() > 1) {
    interval.half_width = StudentT975(differences.size() - 1) * StandardDeviation(differences) /
                          std::sqrt(static_cast<double>(differences.size()));
  }
  return interval;
}

}  // namespace berth::sim
