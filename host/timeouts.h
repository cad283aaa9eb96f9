// How long both drivers of a host (server/drivers, sim/world) let the calls take that it orders,
// and how often they do what has no other cause than time.
#pragma once

#include <chrono>

namespace berth::host {

/// A Binding, over all its attempts. kube-scheduler waits for its answer.
inline constexpr std::chrono::milliseconds kBindTimeout{8'000};
/// Any other write to a pod or a Job.
inline constexpr std::chrono::milliseconds kWriteTimeout{5'000};
/// A read of a pod or of Jobs.
inline constexpr std::chrono::milliseconds kReadTimeout{10'000};
/// How often a waiting call checks whether its caller is still connected.
inline constexpr std::chrono::milliseconds kAskForCaller{1'000};
/// What queues and users have used is written down this often.
inline constexpr std::chrono::milliseconds kBetweenUsageWrites{60'000};

}  // namespace berth::host
