// When the engine has to look at something again.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "cluster/model.h"
#include "engine/actions.h"

namespace berth::engine {

using cluster::TimePoint;

class Timers {
 public:
  /// The key of a workload, the ticket of a parked bind call whose wait ends, or all workloads.
  struct All {};
  using Due = std::variant<std::string, TicketId, All>;

  void At(TimePoint when, Due what) { due_.emplace(when, std::move(what)); }
  /// All waiting workloads are judged once more at that time.
  void AllAt(TimePoint when);
  /// The first one that is due; nullopt: none is.
  std::optional<Due> Take(TimePoint now);
  /// When the first one is due; nullopt: nothing is noted.
  std::optional<TimePoint> next() const;

 private:
  std::multimap<TimePoint, Due> due_;
};

}  // namespace berth::engine
