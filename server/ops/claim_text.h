// What a queue is entitled to, told to those whose work waits in it.
#pragma once

#include <string>

#include "engine/engine.h"

namespace berth::server {

/// With borrowing, for work that waits for devices: what its queue uses, is promised and is
/// entitled to, which queues use more than that (queues, never their jobs), and why nothing is
/// taken back for it. Empty where that explains nothing. The fair shares are those of the last
/// decision that needed them.
std::string ClaimText(const engine::Engine& engine, const cluster::Workload& workload);

/// For work that waits for devices: how many devices others keep although they are of lower
/// priority in its queue, or in a queue that uses more than it is entitled to, and why: they are
/// not preemptible, or have not run for the minRunTime of their queue. Empty: none do.
std::string SparedText(const engine::Engine& engine, const cluster::Workload& workload,
                       engine::TimePoint now);

}  // namespace berth::server
