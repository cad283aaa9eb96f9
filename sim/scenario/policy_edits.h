// Edits every policy of a scenario: the one that it begins with, and those of its steps. Internal
// to sim/scenario/.
#pragma once

#include "config/decode.h"
#include "sim/scenario/scenario.h"

namespace berth::scenario {

/// `edit` changes a config::PolicyConfiguration in place, into one that DecodePolicy could return.
template <typename Edit>
void EditPolicies(Scenario& scenario, Edit&& edit) {
  edit(scenario.policy);
  scenario.policy_yaml = config::EncodePolicy(scenario.policy);
  for (Step& step : scenario.steps) {
    auto* set = std::get_if<SetPolicy>(&step.action);
    if (set == nullptr) continue;
    auto policy = config::DecodePolicy(set->yaml, "policy");
    if (!policy) continue;  // The decoder of scenarios has refused such a file.
    edit(*policy);
    set->yaml = config::EncodePolicy(*policy);
  }
}

}  // namespace berth::scenario
