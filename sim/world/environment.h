// What the parts of one simulated world share.
#pragma once

#include <string>
#include <utility>

#include "engine/engine.h"
#include "sim/random.h"
#include "sim/world/api_server.h"
#include "sim/world/event_log.h"
#include "sim/world/faults.h"
#include "sim/world/fidelity.h"
#include "sim/world/timeline.h"

namespace berth::sim {

/// Time, the API server, the active faults and the random numbers of one world.
struct Environment {
  Environment(std::uint64_t seed, TimePoint start, std::size_t log_lines,
              Fidelity level = Fidelity::kScheduler)
      : fidelity(level),
        timeline(start),
        log(timeline, log_lines),
        api(timeline, log),
        faults(timeline),
        network(seed ^ kStream),
        ties(seed ^ (2 * kStream)) {}
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  TimePoint now() const { return timeline.now(); }
  /// How long something takes: drawn, or at fidelity `instant` no time, and nothing is drawn.
  Duration Latency(Random& random, Duration least, Duration most) const {
    return fidelity == Fidelity::kInstant ? 0 : random.Between(least, most);
  }
  /// At fidelity `wire`: something did not arrive as it was sent. The first report is kept, and the
  /// checker ends the run.
  void Garble(std::string what) {
    if (garbled.empty()) garbled = std::move(what);
  }

  /// Separates the uses of one seed. Do not change it: the failing seeds that were kept as tests
  /// depend on it.
  static constexpr std::uint64_t kStream = 0xd1342543de82ef95U;

  const Fidelity fidelity;
  std::string garbled{};  ///< See Garble(); empty: nothing.
  Timeline timeline;
  EventLog log;
  ApiServer api;
  ActiveFaults faults;
  Duration clock_skew = 0;    ///< Offset of the machine's clock; a process reads it when it starts.
  bool clocks_drift = false;  ///< See ProcessClock.
  cluster::UsageRecord usage{};      ///< What a leader has kept: server/drivers/usage_keeper.h.
  engine::Options engine_options{};  ///< Of each of Berth's processes, but for the instance.
  Random network;                    ///< Draws delays and losses.
  Random ties;  ///< Draws kube-scheduler's choice among nodes with equal scores.
};

}  // namespace berth::sim
