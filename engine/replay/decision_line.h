// One line of the decision log.
#pragma once

#include <cstdint>
#include <string>

#include "engine/actions.h"

namespace berth::replay {

/// Version of the lines, field `v`.
inline constexpr int kLineVersion = 1;

/// The line without its newline. `now_ms`: the time of the engine call that made the decision.
std::string DecisionLine(const engine::Decision& decision, std::int64_t now_ms);

}  // namespace berth::replay
