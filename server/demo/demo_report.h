// The demo's final report, below the picture: gangs, which jobs wait and why, packing, latency.
#pragma once

#include <string>

#include "server/demo/demo_picture.h"
#include "server/demo/demo_world.h"

namespace berth::server {

/// Letters of the running gangs, by submission, and which pods took a whole node.
PodMarks MarksOf(const std::vector<JobState>& jobs);

/// The live view: picture, bars and one line of numbers.
std::string LiveView(const DemoWorld& world, const PictureStyle& style);
/// One line for a log.
std::string ProgressLine(const DemoWorld& world);

/// Everything after the run, except for the checks.
std::string Report(const DemoWorld& world, const PictureStyle& style);

}  // namespace berth::server
