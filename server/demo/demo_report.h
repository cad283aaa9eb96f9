// The demo's final report, below the picture: queues over time, who made room for whom and why,
// gangs, which jobs wait and why, packing, latency.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/demo/demo_history.h"
#include "server/demo/demo_picture.h"
#include "server/demo/demo_world.h"

namespace berth::server {

/// The p-quantile of the samples, 0 <= p <= 1; 0 if there are none.
std::int64_t Quantile(std::vector<std::int64_t> samples, double p);

/// Letters of the running gangs, by submission, and which pods took a whole node.
PodMarks MarksOf(const std::vector<JobState>& jobs);

/// The live view: picture, bars and one line of numbers.
std::string LiveView(const DemoWorld& world, const PictureStyle& style);
/// One line for a log.
std::string ProgressLine(const DemoWorld& world);

/// Everything after the run, except for the checks.
std::string Report(const DemoWorld& world, const QueueHistory& history, const PictureStyle& style);

}  // namespace berth::server
