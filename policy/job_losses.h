// How much ends where other work takes room back: jobs end whole, so more may end than is asked
// for. Upper bounds, from the sizes of the jobs alone (policy/edit_exposure.h).
#pragma once

#include <cstdint>
#include <vector>

#include "policy/whole_jobs.h"

namespace berth::policy {

/// The most that a queue loses, kinds added up, if jobs of it are taken as long as it has more of
/// some kind than it may keep. `excess`: what it has more. The last job may reach below that.
std::int64_t MostTaken(const std::vector<JobSize>& jobs, const DeviceAmounts& excess);

/// The most that ends for work that asks for `claimed` whole devices, kinds added up, if no two
/// jobs share one: none of the jobs is taken in vain, so there are no more of them than such
/// devices. Jobs that end for the sake of CPU or memory are not looked at.
std::int64_t MostTakenFor(const std::vector<JobSize>& jobs, std::int64_t claimed);

}  // namespace berth::policy
