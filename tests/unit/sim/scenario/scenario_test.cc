#include "sim/scenario/scenario.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <nlohmann/json.hpp>

#include "kube/decode.h"
#include "sim/scenario/judge.h"
#include "sim/scenario/objects.h"
#include "tests/support/catch.h"

namespace berth::scenario {
namespace {

constexpr std::string_view kHead = R"(apiVersion: berth.dev/v1alpha1
kind: Scenario
proves: A test.
area: gang
)";

std::string With(std::string_view rest) { return std::string(kHead) + std::string(rest); }

Scenario Good(std::string_view rest) {
  const auto scenario = Decode(With(rest), "s.yaml");
  if (!scenario) FAIL(scenario.error().front().ToString());
  return *scenario;
}

std::vector<std::string> Errors(std::string_view rest) {
  const auto scenario = Decode(With(rest), "s.yaml");
  std::vector<std::string> errors;
  if (scenario) return errors;
  for (const auto& error : scenario.error()) errors.push_back(error.ToString());
  return errors;
}

constexpr std::string_view kSmall = R"(nodes: {name: n, count: 4, perRack: 2, racksPerBlock: 2}
steps:
- create: {name: g, pods: 3, gang: true, gpus: 8, launchers: 1, gated: true, priority: 7}
- expect: {g: {bound: 3, nodes: 3}}
)";

TEST_CASE("a scenario has nodes and steps, in order", "[scenario]") {
  const Scenario s = Good(kSmall);
  REQUIRE(s.steps.size() == 2);
  CHECK(s.steps[0].key == "create");
  CHECK(s.steps[0].line == 7);
  CHECK(s.nodes.at(0).count == 4);
  CHECK(s.Pods("g").size() == 3);
  CHECK(s.Pods("g-1") == std::vector<std::pair<std::string, std::string>>{{"default", "g-1"}});
  CHECK(s.policy == config::PolicyConfiguration{});
}

TEST_CASE("a lone pod has its workload's name, later members go on counting", "[scenario]") {
  CHECK(Workload{.name = "a"}.PodNames() == std::vector<std::string>{"a"});
  CHECK(Workload{.name = "a", .pods = 2, .first = 3}.PodNames() ==
        std::vector<std::string>{"a-3", "a-4"});
}

TEST_CASE("what is wrong is said where it is", "[scenario]") {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"nodes: {name: n}\nsteps: []\n", "expects nothing"},
      {"nodes: {name: n, gpu: 8}\nsteps:\n- freeNodes: 1\n", "gpu"},
      {"nodes: {name: n}\nsteps:\n- expect: {g: {bound: 1}}\n", "was created before"},
      {"nodes: {name: n}\nsteps:\n- delete: g\n- freeNodes: 1\n", "was created before"},
      {"nodes: {name: n}\nsteps:\n- {wait: 1s, freeNodes: 1}\n- freeNodes: 1\n", "exactly one key"},
      {"nodes: {name: n}\nsteps:\n- create: {name: g, min: 2}\n- freeNodes: 1\n", "gang: true"},
      {"nodes: {name: n, count: 2000}\nsteps:\n- freeNodes: 1\n", "1 to 1000"},
      {"policy: \"queues: []\"\nnodes: {name: n}\nsteps:\n- freeNodes: 1\n", "queues"},
      {"nodes: {name: n, cpu: lots}\nsteps:\n- freeNodes: 1\n", "not a quantity"},
  };
  for (const auto& [yaml, part] : rows) {
    const auto errors = Errors(yaml);
    INFO(yaml);
    REQUIRE_FALSE(errors.empty());
    INFO(errors.front());
    CHECK(errors.front().find(part) != std::string::npos);
    CHECK(errors.front().starts_with("s.yaml:"));
  }
}

TEST_CASE("objects are what the service's own decoder reads", "[scenario]") {
  const Scenario s = Good(kSmall);
  simdjson::dom::parser parser;
  const auto nodes = NodeObjects(s.nodes.at(0));
  REQUIRE(nodes.size() == 4);
  const auto node = kube::DecodeNode(nodes[3].dump(), parser);
  REQUIRE(node);
  CHECK(node->meta.name == "n-3");
  CHECK(node->meta.labels.at(std::string(kRackLabel)) == "rack-1");
  CHECK(node->meta.labels.at(std::string(kBlockLabel)) == "block-0");
  CHECK(node->allocatable.at("nvidia.com/gpu") == 8000);

  auto objects = WorkloadObjects(*s.Find("g"));
  REQUIRE(objects.size() == 4);  // the PriorityClass first
  CHECK(objects[0]["kind"] == "PriorityClass");
  objects[1]["metadata"]["uid"] = objects[2]["metadata"]["uid"] = "u";
  const auto launcher = kube::DecodePod(objects[1].dump(), parser);
  const auto worker = kube::DecodePod(objects[2].dump(), parser);
  REQUIRE(launcher);
  REQUIRE(worker);
  CHECK_FALSE(launcher->spec->requests.contains("nvidia.com/gpu"));
  CHECK(worker->spec->requests.at("nvidia.com/gpu") == 8000);
  CHECK(worker->priority == 7);
  CHECK(worker->scheduling_gates == std::vector<std::string>{"berth.dev/admission"});
  CHECK(worker->meta.annotations.at("berth.dev/gang-size") == "3");
}

Observation Seen() {
  Observation seen;
  for (int i = 0; i < 4; ++i) {
    seen.nodes.push_back({.name = fmt::format("n-{}", i), .labels = {{"rack", i < 2 ? "a" : "b"}}});
  }
  seen.pods = {{.ns = "default", .name = "g-0", .node = "n-0", .gpus = 8},
               {.ns = "default", .name = "g-1", .node = "n-2", .gpus = 8},
               {.ns = "default", .name = "g-2", .gated = true, .reason = "Fragmented"}};
  return seen;
}

TEST_CASE("the judge counts what is seen", "[scenario]") {
  struct Row {
    std::string expect;
    std::string fault;  ///< Part of the one fault; empty: none.
  };
  const std::vector<Row> rows = {
      {"expect: {g: {bound: 2, waiting: 1, gated: 1, nodes: 2}}", ""},
      {"expect: {g: {domains: {rack: 2}, on: [n-2, n-0], reason: Fragmented}}", ""},
      {"expect: {g-0: {on: n-0}, g-2: {bound: 0}}", ""},
      {"freeNodes: 2", ""},
      {"expect: {g: {bound: 3}}", "2 bound, expected 3"},
      {"expect: {g: {waiting: 0}}", "1 waiting"},
      {"expect: {g: {gated: 0}}", "1 gated"},
      {"expect: {g: {nodes: 1}}", "2 nodes used"},
      {"expect: {g: {domains: {rack: 1}}}", "2 different rack"},
      {"expect: {g: {on: [n-0]}}", "placement is n-0 n-2"},
      {"expect: {g: {reason: NeverFits}}", "reason is Fragmented"},
      {"freeNodes: 4", "2 nodes without a device taken"},
  };
  for (const auto& [expect, fault] : rows) {
    INFO(expect);
    const Scenario s = Good(
        "nodes: {name: n, count: 4}\nsteps:\n"
        "- create: {name: g, pods: 3, gang: true, gpus: 8}\n- " +
        expect + "\n");
    const auto faults = Unmet(s, std::get<Expect>(s.steps.back().action), Seen());
    if (fault.empty()) {
      CHECK(faults.empty());
    } else {
      REQUIRE(faults.size() == 1);
      CHECK(faults.front().find(fault) != std::string::npos);
    }
  }
}

TEST_CASE("finished pods neither wait nor take room", "[scenario]") {
  Observation seen = Seen();
  seen.pods[0].finished = true;
  const Scenario s = Good(
      "nodes: {name: n, count: 4}\nsteps:\n"
      "- create: {name: g, pods: 3, gang: true, gpus: 8}\n"
      "- expect: {g: {bound: 1, waiting: 1}}\n- freeNodes: 3\n");
  for (std::size_t i = 1; i < 3; ++i) {
    CHECK(Unmet(s, std::get<Expect>(s.steps[i].action), seen).empty());
  }
}

TEST_CASE("a quiet round shows every change of place", "[scenario]") {
  Observation after = Seen();
  CHECK(Changes(Seen(), after).empty());
  after.pods[2].node = "n-1";
  after.pods[1].name = "h";
  CHECK(Changes(Seen(), after) == std::vector<std::string>{"default/g-2: waiting, then n-1",
                                                           "default/h appeared",
                                                           "default/g-1 vanished"});
}

TEST_CASE("observations are read strictly enough", "[scenario]") {
  const auto seen = DecodeObservation(
      R"({"nodes":[{"name":"n","labels":{"rack":"a"}}],"pods":[{"namespace":"x","name":"p","gpus":2}]})");
  REQUIRE(seen);
  CHECK(seen->pods.at(0).gpus == 2);
  CHECK(seen->nodes.at(0).labels.at("rack") == "a");
  CHECK_FALSE(DecodeObservation("[]"));
  CHECK_FALSE(DecodeObservation(R"({"pods":[{"name":7}]})"));
}

}  // namespace
}  // namespace berth::scenario
