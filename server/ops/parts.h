// Reads of a large cluster in parts: the verbs need the lock that a read takes, so no part may keep
// it for more than a few milliseconds.
#pragma once

#include <functional>

#include "engine/engine.h"

namespace berth::server {

/// Reads some of what there is to read. Returns whether something is left.
using Part = std::function<bool(const engine::Engine& engine, engine::TimePoint now)>;
/// Calls the part until nothing is left. Between two calls the engine may change, or another one
/// may take its place.
using InParts = std::function<void(const Part& part)>;

/// For an engine that nobody else uses, which must outlive the result.
InParts PartsOf(const engine::Engine& engine, engine::TimePoint now);

/// Visits the workloads by key, those with many members fewer at a time. A workload that comes or
/// goes meanwhile may be missed; none is visited twice.
void ForEachWorkload(const InParts& read,
                     const std::function<void(const engine::Engine&, const cluster::Workload&,
                                              engine::TimePoint)>& visit);

/// Visits the nodes that are present, in no particular order.
void ForEachNode(const InParts& read,
                 const std::function<void(const engine::Engine&, const cluster::NodeInfo&)>& visit);

}  // namespace berth::server
