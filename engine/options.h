// What an engine is started with, besides the policy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "cluster/store.h"
#include "policy/node_scorer.h"

namespace berth::engine {

using cluster::TimePoint;
class InputListener;

struct Options {
  /// Distinguishes this process in plan ids; any short text of [a-z0-9].
  std::string instance = "0";
  /// Compute score terms of chosen and next best for the decision log.
  bool explain_decisions = false;
  /// Settings that a simulator may want to change.
  cluster::StoreOptions store{};
  /// Makes the policy that scores nodes in place of Berth's own; null: Berth's own.
  std::function<std::unique_ptr<const policy::NodeScorer>()> scorer{};
  /// Work that one pass may do before it lets other calls use the engine: about this many nodes are
  /// looked at to judge workloads. At least one workload is judged.
  std::int64_t pass_budget = 10'000;
  /// Milliseconds: evictions wait until no pod with devices has ended by itself for this long, but
  /// at most three times as long.
  TimePoint pods_end = 1'000;
  /// Tables are made for this many pods from the beginning, so that they need not grow in one call.
  std::size_t expected_pods = 0;
  /// Receives every input of the engine; null: none. Must outlive the engine.
  InputListener* listener = nullptr;
};

}  // namespace berth::engine
