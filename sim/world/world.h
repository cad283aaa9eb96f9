// One run: a scenario from its first event to an empty cluster, every invariant checked on the way.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/world/checker.h"
#include "sim/world/controllers.h"
#include "sim/world/scenario.h"
#include "sim/world/scheduler.h"

namespace berth::sim {

struct RunResult {
  std::string violation;  ///< Empty: none.
  TimePoint at = 0;       ///< When the run ended.
  std::uint64_t steps = 0;
  std::uint64_t hash = 0;  ///< Of everything that happened.
  int bound = 0;           ///< Bindings that took effect.
  int crashes = 0;
  std::uint64_t filters = 0;
  std::vector<std::string> last_events;
};

class World {
 public:
  /// `scenario` must outlive it. Keeps the last `trace_lines` lines for the story.
  World(const Scenario& scenario, std::size_t trace_lines);
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  /// To the end, or to the first violation.
  RunResult Run();

 private:
  bool RunUntil(TimePoint end);
  void Settle();
  bool AtRest() const;
  void Empty();
  void Happen(const Fault& fault);
  void HappenToStream(const Fault& fault);
  void HappenToNode(const Fault& fault);
  void HappenToPod(const Fault& fault);
  void EditPolicy(const Fault& fault);
  void Calm();
  void StartBerth();
  void CrashBerth(Duration down);
  void StartScheduler();
  const kube::Pod* Pick(std::uint64_t choice, bool unbound) const;

  const Scenario& scenario_;
  Environment env_;
  VerbWire wire_;
  Checker checker_;
  Controllers controllers_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<BerthHost> berth_;
  int berths_ = 0;
  int crashes_ = 0;
  bool calm_ = false;
};

}  // namespace berth::sim
