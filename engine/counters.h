// What the engine counts for metrics.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace berth::engine {

struct Counters {
  std::map<std::string, std::uint64_t> binds;      ///< By result.
  std::map<std::string, std::uint64_t> plans;      ///< By outcome.
  std::vector<std::int64_t> gang_waits_ms;         ///< Since the last TakeCounters.
  std::map<std::string, std::uint64_t> evictions;  ///< Accepted ones, by reason.
  /// Of these, the evictions for plans that ended before a member was bound, by PlanEnd::token.
  std::map<std::string, std::uint64_t> evictions_in_vain;
  std::uint64_t untrusted_claims = 0;
};

}  // namespace berth::engine
