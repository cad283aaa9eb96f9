// Which jobs of a recording are replayed, and when they arrive.
#pragma once

#include <string>
#include <vector>

#include "sim/trace/recording.h"

namespace berth::sim {

/// Removes the jobs that would not fit the empty cluster, by plain counting. Returns their names.
std::vector<std::string> TakeNeverFitting(std::vector<RecordedJob>& jobs,
                                          const std::vector<kube::Node>& nodes);

/// Keeps the first `jobs` jobs; if the file has no arrivals, that many random ones. 0: all.
void Limit(Recording& recording, std::size_t jobs, std::uint64_t seed);

/// Sets arrivals that offer `load` of `gpus` GPUs: the recorded ones, scaled in time; or a Poisson
/// process if there are none, or no two that differ. Returns the factor by which recorded arrivals
/// were compressed; 1 for drawn ones.
double Offer(Recording& recording, double load, std::int64_t gpus, std::uint64_t seed);

}  // namespace berth::sim
