// How long work has run: whether the minRunTime of its queue or class leaves it alone, and what of
// it an eviction loses. Pure functions; eviction.h and victims.h ask them for each victim.
#pragma once

#include <chrono>
#include <string_view>

#include "config/policy_configuration.h"
#include "engine/decide.h"

namespace berth::engine {

/// How long work of that class runs at least in that queue: the longer minRunTime of both. A class
/// that the queue does not admit has none: the label of a running pod may have been changed.
std::chrono::milliseconds MinRunTimeIn(const config::PolicyConfiguration& policy,
                                       const config::Queue& queue, std::string_view workload_class);

/// The longest one of the workload's members that hold room, as if they were in that queue.
std::chrono::milliseconds MinRunTimeIn(const config::PolicyConfiguration& policy,
                                       const config::Queue& queue,
                                       const cluster::Workload& workload);

/// The time from which `workload` may be evicted for other work: when its first member has run for
/// the minRunTime of the queue that it is charged to, and of its class. 0: at any time, because
/// these have no minRunTime, it holds no room, or it is not known since when it runs. What is
/// planned, or whose Binding is under way, counts as bound now.
///
/// Counted are the members that ask for devices, if there are any, and of these the one that was
/// bound first and still runs: members that join later do not make a gang young again. Since when a
/// pod runs is what the API server says (kube::PodScheduled::since), so a restart changes nothing.
/// That time has whole seconds, rounded down, and is of another clock: work may be evicted up to a
/// second too early, and earlier or later by as much as the clocks of the API server and of Berth
/// differ.
TimePoint OfAgeAt(const View& view, const cluster::Workload& workload);
TimePoint OfAgeAt(const cluster::Store& store, const States& states,
                  const cluster::Workload& workload, TimePoint now);

/// Since when work runs, counted as above; 0: it holds no room, or that is not known.
TimePoint RunsSince(const View& view, const cluster::Workload& workload);

/// Since when the work that runs would be lost: since it runs, counted as above, or since its last
/// checkpoint, the latest berth.dev/checkpoint-time (RFC 3339) of its members. One that is not yet
/// over counts as now, and one that cannot be read as none.
TimePoint LostSince(const View& view, const cluster::Workload& workload);

/// Whether the pod is a part of work that may not be evicted yet.
bool IsYoung(const View& view, const cluster::PodInfo& pod);

/// The earlier of two times, of which 0 means that there is none.
TimePoint Earlier(TimePoint a, TimePoint b);

}  // namespace berth::engine
