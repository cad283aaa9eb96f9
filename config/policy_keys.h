// The keys and the enumeration values of the policy file: one table for the decoder, the encoder
// and the test that compares them with docs/policy.md and config/schema.json. Internal to config/.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string_view>
#include <utility>

#include "config/policy_configuration.h"

namespace berth::config::keys {

using Word = std::string_view;

inline constexpr std::array<Word, 10> kPolicy{
    "apiVersion", "kind",     "mode",      "schedulerNames", "dialects",
    "resources",  "topology", "placement", "gang",           "queues"};
inline constexpr std::array<Word, 1> kResources{"devices"};
inline constexpr std::array<Word, 2> kDevice{"name", "kind"};
inline constexpr std::array<Word, 1> kTopology{"levels"};
inline constexpr std::array<Word, 2> kLevel{"name", "nodeLabel"};
inline constexpr std::array<Word, 2> kPlacement{"maxNodesReturned", "score"};
inline constexpr std::array<Word, 3> kGang{"planTimeout", "bindTimeout", "maxStanding"};
inline constexpr std::array<Word, 6> kQueue{"name",  "parent", "namespaces",
                                            "quota", "limit",  "weight"};

/// Keys of `dialects` and `placement.score`, each with the member it sets.
inline constexpr std::array<std::pair<Word, DialectSwitch Dialects::*>, 6> kDialectMembers{{
    {"kueue", &Dialects::kueue},
    {"volcano", &Dialects::volcano},
    {"kai", &Dialects::kai},
    {"koordinator", &Dialects::koordinator},
    {"schedulerPlugins", &Dialects::scheduler_plugins},
    {"inTree", &Dialects::in_tree},
}};
inline constexpr std::array<std::pair<Word, std::int64_t ScoreWeights::*>, 7> kScoreMembers{{
    {"fragmentation", &ScoreWeights::fragmentation},
    {"stranding", &ScoreWeights::stranding},
    {"rank", &ScoreWeights::rank},
    {"scarcity", &ScoreWeights::scarcity},
    {"oddRemainder", &ScoreWeights::odd_remainder},
    {"emptyNode", &ScoreWeights::empty_node},
    {"topology", &ScoreWeights::topology},
}};

template <typename Member, std::size_t kSize>
constexpr std::array<Word, kSize> Names(const std::array<std::pair<Word, Member>, kSize>& members) {
  std::array<Word, kSize> names{};
  for (std::size_t i = 0; i < kSize; ++i) names[i] = members[i].first;
  return names;
}
inline constexpr auto kDialects = Names(kDialectMembers);
inline constexpr auto kScore = Names(kScoreMembers);

/// The values in the order of their enumerators.
inline constexpr std::array<Word, 2> kModes{"enforce", "passthrough"};
inline constexpr std::array<Word, 2> kDeviceKinds{"whole", "handles"};
/// YAML 1.1 tools may turn `on` and `off` into `true` and `false`.
inline constexpr std::array<Word, 5> kSwitches{"on", "off", "auto", "true", "false"};

inline constexpr std::chrono::milliseconds kMinBindTimeout = std::chrono::seconds{1};
inline constexpr std::chrono::milliseconds kMaxBindTimeout = std::chrono::minutes{5};
inline constexpr std::chrono::milliseconds kMaxPlanTimeout = std::chrono::hours{24};
inline constexpr std::int64_t kMaxStanding = 100'000;
inline constexpr std::int64_t kMaxNodesReturned = 100;
inline constexpr std::int64_t kMaxWeight = 1'000'000;  ///< Thousandths.
inline constexpr std::size_t kMaxLevels = 16;
inline constexpr std::size_t kMaxSchedulerNames = 64;
inline constexpr std::size_t kMaxDevices = 64;

}  // namespace berth::config::keys
