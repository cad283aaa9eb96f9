// Which Events are written, and which are not: one object per pod and reason, whose count includes
// the repeats, and a bounded rate of new objects per namespace. Pure; the caller locks.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <unordered_map>
#include <variant>

#include "engine/actions.h"
#include "kube/requests.h"

namespace berth::server {

/// What to write.
struct EventWrite {
  kube::EventRecord record;
  int count = 1;  ///< How often it has happened; more than 1: the object exists already.
};

/// Why nothing is written.
enum class EventHeld : std::uint8_t {
  kAggregated,  ///< Written a moment ago: the next write's count includes it.
  kLimited,     ///< Its namespace has had too many new ones lately.
};

/// Remembers recent Events, by pod and reason.
class EventSeries {
 public:
  /// The least time between two writes of one series.
  static constexpr std::chrono::seconds kPause{60};
  /// New series of one namespace: the burst, and the rate per second. A tenant with thousands of
  /// refused pods must not delay the Events of others, nor keep the API server busy.
  static constexpr double kBurst = 200;
  static constexpr double kPerSecond = 5;
  /// Beyond this many series the memory of past Events is cleared.
  static constexpr std::size_t kMaxSeries = 10'000;
  static constexpr std::size_t kMaxNamespaces = 10'000;

  /// What to do about an Event that happens at `now`; counts it as written if it is to be written.
  std::variant<EventWrite, EventHeld> Take(const engine::EmitEvent& event, kube::MicroTime now);

 private:
  struct Series {
    kube::EventRecord record;
    int count = 0;
    kube::MicroTime last;
  };
  struct Budget {
    double left = kBurst;
    kube::MicroTime at;
  };

  bool Spend(const std::string& ns, kube::MicroTime now);

  std::map<std::string, Series> series_;  ///< By pod UID and reason.
  std::unordered_map<std::string, Budget> budgets_;
};

}  // namespace berth::server
