// Changes to a scenario that must not change its answer: what holds of the file must hold of each
// of its variants. docs/scenarios.md says what each one changes, and why that must not matter.
#pragma once

#include <expected>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/scenario/scenario.h"

namespace berth::scenario {

/// One kind of change.
struct Variant {
  std::string_view name;  ///< As for `--variants`.
  /// The changed scenario, with its expectations. The error says why the variant does not apply to
  /// this scenario: the change could change its answer.
  std::expected<Scenario, std::string> (*make)(const Scenario&);
};

/// All of them, in the order in which they are run.
std::span<const Variant> Variants();

/// Those of a list `NAME,NAME`, or `all`. The error is the first name that is none.
std::expected<std::vector<Variant>, std::string> ParseVariants(std::string_view list);

}  // namespace berth::scenario
