// What of a recording is replayed, and when it arrives.
#pragma once

#include <string>
#include <vector>

#include "sim/trace/recording.h"

namespace berth::sim {

/// Takes out the jobs that would not fit the empty cluster, by plain counting. Returns their names.
std::vector<std::string> TakeNeverFitting(std::vector<RecordedJob>& jobs,
                                          const std::vector<kube::Node>& nodes);

/// The first so many jobs; of a file without arrivals, which has no first, as many at random. 0:
/// all.
void Limit(Recording& recording, std::size_t jobs, std::uint64_t seed);

/// Arrivals that offer `load` of `gpus` GPUs: the recorded ones, stretched; or, where there are
/// none, or no two that differ, a Poisson process.
void Offer(Recording& recording, double load, std::int64_t gpus, std::uint64_t seed);

}  // namespace berth::sim
