// Statistics of repeated runs, for people to read: no decision depends on them.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace berth::sim {

/// 0 for no values.
double Mean(std::span<const double> values);
/// Sample standard deviation (n - 1); 0 for fewer than two values.
double StandardDeviation(std::span<const double> values);
/// The smallest value that at least this share of all values does not exceed (nearest rank);
/// 0 for no values. `share` in 0..1.
double Quantile(std::vector<double> values, double share);

/// A mean with half the width of its 95 % confidence interval.
struct Interval {
  double mean = 0;
  double half_width = 0;  ///< 0 for fewer than two values.
  std::size_t count = 0;
};

/// Its ends with so many decimals, as `-1.5 .. +0.3`; `-` for fewer than two values.
std::string RangeText(const Interval& interval, int decimals);

/// Two-sided 0.975 quantile of Student's t with this many degrees of freedom (at least 1).
double StudentT975(std::size_t degrees);

/// Mean of a[i] - b[i] with its 95 % interval by Student's t: runs of one seed are a pair.
/// REQUIRES: equal sizes.
Interval PairedDifference(std::span<const double> a, std::span<const double> b);

}  // namespace berth::sim
