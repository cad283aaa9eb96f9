#include "engine/replay/decision_line.h"

#include <nlohmann/json.hpp>

namespace berth::replay {

std::string DecisionLine(const engine::Decision& decision, std::int64_t now_ms) {
  nlohmann::ordered_json line{{"v", kLineVersion},       {"time_ms", now_ms},
                              {"kind", decision.kind},   {"workload", decision.workload},
                              {"queue", decision.queue}, {"generation", decision.generation}};
  if (!decision.plan.empty()) line["plan"] = decision.plan;
  if (!decision.placed.empty()) {
    auto& placed = line["placed"] = nlohmann::ordered_json::object();
    for (const auto& [pod, node] : decision.placed) placed[pod] = node;
  }
  if (decision.verdict.reason != cluster::ReasonId::kNone) {
    line["reason"] = cluster::Token(decision.verdict.reason);
    line["want"] = decision.verdict.want;
    line["have"] = decision.verdict.have;
  }
  if (!decision.verdict.subject.empty()) line["subject"] = decision.verdict.subject;
  if (decision.candidates > 0) line["candidates"] = decision.candidates;
  if (!decision.chosen.empty()) line["chosen"] = decision.chosen;
  if (!decision.runner_up.empty()) {
    line["next_best_node"] = decision.runner_up;
    line["next_best"] = decision.next_best;
  }
  if (decision.ran_ms >= 0) line["ran_ms"] = decision.ran_ms;
  if (decision.waited_ms >= 0) line["waited_ms"] = decision.waited_ms;
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace berth::replay
