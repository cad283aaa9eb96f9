#include "sim/scenario/judge.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

namespace berth::scenario {
namespace {

using nlohmann::json;

std::vector<const SeenPod*> PodsOf(const Scenario& scenario, const std::string& name,
                                   const Observation& seen) {
  std::vector<const SeenPod*> pods;
  for (const auto& [ns, pod] : scenario.Pods(name)) {
    const auto at = std::ranges::find_if(
        seen.pods, [&](const SeenPod& p) { return p.ns == ns && p.name == pod; });
    if (at != seen.pods.end() && !at->finished) pods.push_back(&*at);
  }
  return pods;
}

/// Number of different values of a node label among the pods' nodes.
int Domains(const std::vector<const SeenPod*>& pods, const std::string& label,
            const Observation& seen) {
  std::set<std::string> values;
  for (const SeenPod* pod : pods) {
    const auto node = std::ranges::find(seen.nodes, pod->node, &SeenNode::name);
    if (node == seen.nodes.end()) continue;
    const auto value = node->labels.find(label);
    values.insert(value == node->labels.end() ? "" : value->second);
  }
  return static_cast<int>(values.size());
}

class WorkloadJudge {
 public:
  WorkloadJudge(std::string_view name, std::vector<std::string>& faults)
      : name_(name), faults_(faults) {}

  void Count(const std::optional<int>& wanted, std::string_view what, std::ptrdiff_t seen) {
    if (wanted && *wanted != seen) {
      faults_.push_back(fmt::format("{}: {} {}, expected {}", name_, seen, what, *wanted));
    }
  }
  void Text(std::string_view wanted, std::string_view what, std::string_view seen) {
    if (wanted != seen) {
      faults_.push_back(fmt::format("{}: {} is {}, expected {}", name_, what,
                                    seen.empty() ? "empty" : seen, wanted));
    }
  }

 private:
  std::string_view name_;
  std::vector<std::string>& faults_;
};

void JudgeWorkload(const Scenario& scenario, const std::string& name,
                   const WorkloadExpectation& expected, const Observation& seen,
                   std::vector<std::string>& faults) {
  const std::vector<const SeenPod*> pods = PodsOf(scenario, name, seen);
  std::set<std::string> on;
  const SeenPod* waiting = nullptr;
  for (const SeenPod* pod : pods) {
    if (!pod->node.empty()) on.insert(pod->node);
    if (pod->node.empty() && waiting == nullptr) waiting = pod;
  }
  const auto bound = std::ranges::count_if(pods, [](const auto* p) { return !p->node.empty(); });
  const auto gated = std::ranges::count_if(pods, [](const auto* p) { return p->gated; });
  const auto unschedulable =
      std::ranges::count_if(pods, [](const auto* p) { return p->unschedulable; });
  WorkloadJudge judge(name, faults);
  judge.Count(expected.bound, "bound", bound);
  judge.Count(expected.waiting, "waiting", std::ssize(pods) - bound);
  judge.Count(expected.gated, "gated", gated);
  judge.Count(expected.unschedulable, "unschedulable", unschedulable);
  judge.Count(expected.nodes, "nodes used", std::ssize(on));
  for (const auto& [label, count] : expected.domains) {
    judge.Count(count, "different " + label, Domains(pods, label, seen));
  }
  if (!expected.on.empty()) {
    const std::set<std::string> wanted(expected.on.begin(), expected.on.end());
    judge.Text(fmt::format("{}", fmt::join(wanted, " ")), "placement",
               fmt::format("{}", fmt::join(on, " ")));
  }
  if (!expected.reason.empty()) {
    judge.Text(expected.reason, "reason", waiting == nullptr ? "" : waiting->reason);
  }
}

int FreeNodes(const Observation& seen) {
  return static_cast<int>(std::ranges::count_if(seen.nodes, [&](const SeenNode& node) {
    return std::ranges::none_of(seen.pods, [&](const SeenPod& pod) {
      return pod.node == node.name && pod.gpus > 0 && !pod.finished;
    });
  }));
}

}  // namespace

std::expected<Observation, std::string> DecodeObservation(std::string_view text) {
  const json root = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object()) return std::unexpected("an observation is a JSON object");
  Observation seen;
  try {
    for (const json& node : root.value("nodes", json::array())) {
      SeenNode& one = seen.nodes.emplace_back();
      one.name = node.at("name").get<std::string>();
      const json labels = node.value("labels", json::object());
      for (const auto& [key, value] : labels.items()) {
        one.labels[key] = value.get<std::string>();
      }
    }
    for (const json& pod : root.value("pods", json::array())) {
      seen.pods.push_back({.ns = pod.at("namespace").get<std::string>(),
                           .name = pod.at("name").get<std::string>(),
                           .node = pod.value("node", ""),
                           .gated = pod.value("gated", false),
                           .unschedulable = pod.value("unschedulable", false),
                           .finished = pod.value("finished", false),
                           .gpus = pod.value("gpus", 0),
                           .reason = pod.value("reason", "")});
    }
  } catch (const json::exception& error) {  // nlohmann reports errors by exceptions
    return std::unexpected(error.what());
  }
  return seen;
}

std::vector<std::string> Unmet(const Scenario& scenario, const Expect& expect,
                               const Observation& seen) {
  std::vector<std::string> faults;
  for (const auto& [name, expected] : expect.workloads) {
    JudgeWorkload(scenario, name, expected, seen, faults);
  }
  if (expect.free_nodes && FreeNodes(seen) != *expect.free_nodes) {
    faults.push_back(fmt::format("{} nodes without a device taken, expected {}", FreeNodes(seen),
                                 *expect.free_nodes));
  }
  return faults;
}

std::vector<std::string> Changes(const Observation& before, const Observation& after) {
  const auto places = [](const Observation& seen) {
    std::map<std::string, std::string> result;
    for (const SeenPod& pod : seen.pods) {
      result[pod.ns + "/" + pod.name] = pod.finished ? "finished" : pod.node;
    }
    return result;
  };
  const auto old_places = places(before);
  const auto new_places = places(after);
  std::vector<std::string> changes;
  const auto text = [](const std::string& place) {
    return place.empty() ? std::string("waiting") : place;
  };
  for (const auto& [pod, place] : new_places) {
    const auto old = old_places.find(pod);
    if (old == old_places.end()) {
      changes.push_back(pod + " appeared");
    } else if (old->second != place) {
      changes.push_back(fmt::format("{}: {}, then {}", pod, text(old->second), text(place)));
    }
  }
  for (const auto& [pod, place] : old_places) {
    if (!new_places.contains(pod)) changes.push_back(pod + " vanished");
  }
  return changes;
}

}  // namespace berth::scenario
