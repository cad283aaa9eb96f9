// Which Events are written, and which are not: one object per pod and reason, whose repeats count
// up in it, and no more new ones per namespace than a person reads. Pure; the caller locks.
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
  int count = 1;  ///< Times that it happened; more than 1: the object exists already.
};

/// Why nothing is written.
enum class EventHeld : std::uint8_t {
  kAggregated,  ///< Said a moment ago: it is in the count of the next time.
  kLimited,     ///< Its namespace has had too many new ones lately.
};

class EventSeries {
 public:
  /// A repeat is written at most so often.
  static constexpr std::chrono::seconds kPause{60};
  /// New series of one namespace: so many at once, and this many a second. A tenant with thousands
  /// of refused pods must not keep others' Events waiting, nor the API server busy.
  static constexpr double kBurst = 200;
  static constexpr double kPerSecond = 5;
  /// Beyond these the memory of what was said begins anew.
  static constexpr std::size_t kMaxSeries = 10'000;
  static constexpr std::size_t kMaxNamespaces = 10'000;

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
