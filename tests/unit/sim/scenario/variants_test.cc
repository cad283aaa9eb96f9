// What each variant changes, and where it does not apply. That none changes an answer is tested
// with every scenario file (suite_test.cc).
#include "sim/scenario/variants.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "config/decode.h"
#include "sim/scenario/objects.h"
#include "tests/support/catch.h"

namespace berth::scenario {
namespace {

using Strings = std::vector<std::string>;

Scenario Decoded(const std::string& rest) {
  const auto scenario = Decode(
      "apiVersion: berth.dev/v1alpha1\nkind: Scenario\nproves: A test.\narea: quota\n" + rest,
      "s.yaml");
  if (!scenario) FAIL(scenario.error().front().ToString());
  return *scenario;
}

std::expected<Scenario, std::string> Make(std::string_view name, const Scenario& scenario) {
  const auto variants = ParseVariants(name);
  REQUIRE(variants);
  return variants->at(0).make(scenario);
}

Scenario Made(std::string_view name, const Scenario& scenario) {
  auto varied = Make(name, scenario);
  if (!varied) FAIL(varied.error());
  return *std::move(varied);
}

template <typename Action>
const Action& At(const Scenario& scenario, std::size_t step) {
  return std::get<Action>(scenario.steps.at(step).action);
}

constexpr const char* kTwoQueues = R"(policy: |
  flavors: [{name: f, nodeSelector: {kubernetes.io/hostname: n-1}}]
  classes: [{name: c}]
  queues:
  - {name: b, namespaces: [red], quota: {nvidia.com/gpu: 4, cpu: 1500m}, lendingLimit: {nvidia.com/gpu: 2}}
  - {name: default, namespaces: ["*"], limit: {nvidia.com/gpu: 5}}
  - {name: x, parent: b, namespaces: [blue], classes: [c], quotas: [{flavor: f, quota: {nvidia.com/gpu: 1}}]}
nodes: {name: n, count: 3, perRack: 2, cpu: 1500m}
steps:
- create:
  - {name: g, namespace: red, pods: 2, gang: true, gpus: 2, gated: true, priority: 3}
  - {name: s, namespace: blue, queue: x, labels: {berth.dev/user: red, berth.dev/class: c}, node: n-2}
  - {name: t, memory: "", nodeSelector: {kubernetes.io/hostname: n-1}}
- expect: {g: {bound: 2, on: [n-0]}, g-1: {bound: 1}, t: {bound: 1, on: [n-1]}}
- delete: [g-0, s]
- setGpus: {n-1: 5}
- policy: |
    queues: [{name: b, namespaces: [red], limit: {nvidia.com/gpu: 7}}]
- freeNodes: 1
)";

TEST_CASE("new names are used wherever the old ones were, and compare alike", "[variants]") {
  const Scenario s = Made("renamed", Decoded(kTwoQueues));
  REQUIRE(s.nodes.size() == 3);
  const Strings nodes{s.nodes[0].name, s.nodes[1].name, s.nodes[2].name};
  CHECK(std::ranges::is_sorted(nodes));
  CHECK(nodes[0] != "n-0");
  CHECK(s.nodes[1].labels.at(std::string(kRackLabel)) == "rack-0");
  CHECK(s.nodes[2].labels.at(std::string(kRackLabel)) == "rack-1");
  CHECK(NodeObjects(s.nodes[2])[0]["metadata"]["labels"]["kubernetes.io/hostname"] == nodes[2]);

  const config::Queue& b = s.policy.queues.at(0);
  const config::Queue& x = s.policy.queues.at(2);
  CHECK(b.name < "default");
  CHECK(b.name != "b");
  CHECK(s.policy.queues[1].name == "default");
  CHECK(s.policy.queues[1].namespaces == Strings{"*"});
  CHECK("default" < x.name);
  CHECK(x.parent == b.name);
  CHECK(s.policy.flavors.at(0).node_selector.begin()->second == nodes[1]);
  CHECK(x.quotas.at(0).flavor == s.policy.flavors[0].name);
  CHECK(x.classes == Strings{s.policy.classes.at(0).name});

  const std::vector<Workload>& created = At<Create>(s, 0).workloads;
  CHECK(created.at(0).name < created.at(1).name);
  CHECK(Strings{created[0].ns} == b.namespaces);
  CHECK(Strings{created[1].ns} == x.namespaces);
  CHECK(created[1].ns < created[0].ns);
  CHECK(created[1].queue == x.name);
  CHECK(created[1].labels.at("berth.dev/user") == created[0].ns);
  CHECK(created[1].labels.at("berth.dev/class") == s.policy.classes[0].name);
  CHECK(created[1].node == nodes[2]);
  CHECK(created[2].ns == "default");
  CHECK(created[2].node_selector.begin()->second == nodes[1]);
  CHECK(At<Expect>(s, 1).workloads.at(created[0].name).on == Strings{nodes[0]});
  CHECK(At<Expect>(s, 1).workloads.contains(created[0].name + "-1"));
  CHECK(At<Delete>(s, 2).targets == Strings{created[0].name + "-0", created[1].name});
  CHECK(At<SetGpus>(s, 3).nodes == std::map<std::string, int>{{nodes[1], 5}});
  const auto edited = config::DecodePolicy(At<SetPolicy>(s, 4).yaml, "p");
  REQUIRE(edited);
  CHECK(edited->queues.at(0).name == b.name);
}

TEST_CASE("reversed names compare the other way round, and default stays between them",
          "[variants]") {
  const Scenario s = Made("names-reversed", Decoded(kTwoQueues));
  CHECK(s.nodes.at(2).name < s.nodes.at(1).name);
  CHECK(s.nodes[1].name < s.nodes[0].name);
  CHECK(s.policy.queues.at(2).name < "default");
  CHECK("default" < s.policy.queues.at(0).name);
  const std::vector<Workload>& created = At<Create>(s, 0).workloads;
  CHECK(created.at(1).name < created.at(0).name);
  CHECK(created[0].ns < created[1].ns);
}

TEST_CASE("a name of a workload and of another one's pod is not renamed", "[variants]") {
  const auto renamed = Make("renamed", Decoded("nodes: {name: n}\nsteps:\n"
                                               "- create: [{name: a, pods: 2}, {name: a-0}]\n"
                                               "- freeNodes: 1\n"));
  REQUIRE_FALSE(renamed);
  CHECK(renamed.error() == "a-0 is a workload, and a pod of another");
}

TEST_CASE("the last pod is created first, after its PriorityClass", "[variants]") {
  const Scenario s = Made("creation-reversed", Decoded(kTwoQueues));
  Strings names;
  for (const auto& object : CreateObjects(At<Create>(s, 0))) {
    names.push_back(object["metadata"]["name"].get<std::string>());
  }
  CHECK(names == Strings{"priority-3", "t", "s", "g-1", "g-0"});
}

TEST_CASE("everything that has a size is scaled alike", "[variants]") {
  const Scenario s = Made("scaled", Decoded(kTwoQueues));
  CHECK(s.nodes.at(0).gpus == 24);
  CHECK(s.nodes[0].cpu == "4500m");
  CHECK(s.nodes[0].memory == "1536Gi");
  CHECK(s.nodes[0].count == 3);
  const Workload& g = At<Create>(s, 0).workloads.at(0);
  CHECK(g.gpus == 6);
  CHECK(g.cpu == "3");
  CHECK(g.memory == "3Gi");
  CHECK(g.pods == 2);
  CHECK(At<Create>(s, 0).workloads.at(2).memory.empty());
  CHECK(s.policy.queues.at(0).quota ==
        kube::ResourceList{{"cpu", 4'500}, {"nvidia.com/gpu", 12'000}});
  CHECK(s.policy.queues[0].lending_limit == kube::ResourceList{{"nvidia.com/gpu", 6'000}});
  CHECK(s.policy.queues.at(1).limit == kube::ResourceList{{"nvidia.com/gpu", 15'000}});
  CHECK(s.policy.queues.at(2).quotas.at(0).quota == kube::ResourceList{{"nvidia.com/gpu", 3'000}});
  CHECK(At<SetGpus>(s, 3).nodes == std::map<std::string, int>{{"n-1", 15}});
  CHECK(config::DecodePolicy(At<SetPolicy>(s, 4).yaml, "p")->queues.at(0).limit.begin()->second ==
        21'000);
  CHECK(At<Expect>(s, 5).free_nodes == 1);
}

TEST_CASE("what cannot be counted any more is not scaled", "[variants]") {
  const auto scaled = Make("scaled", Decoded("policy: |\n  queues:\n"
                                             "  - {name: q, limit: {memory: 4Ei}}\n"
                                             "nodes: {name: n}\nsteps:\n- freeNodes: 1\n"));
  REQUIRE_FALSE(scaled);
  CHECK(scaled.error() == "an amount is too large to be scaled");
}

TEST_CASE("files about the score are not scaled: it counts single devices", "[variants]") {
  Scenario scenario = Decoded("nodes: {name: n}\nsteps:\n- freeNodes: 1\n");
  CHECK(Make("scaled", scenario).has_value());
  scenario.area = "fragmentation";
  CHECK_FALSE(Make("scaled", scenario).has_value());
}

TEST_CASE("cordoned nodes are like the others, and free", "[variants]") {
  const Scenario s = Made("cordoned-nodes", Decoded(kTwoQueues));
  REQUIRE(s.nodes.size() == 2);
  CHECK(s.nodes[1].name == "cordoned-n");
  CHECK(s.nodes[1].count == 1);
  CHECK(s.nodes[1].per_rack == 2);
  CHECK(At<Cordon>(s, 0).nodes == Strings{"cordoned-n"});
  CHECK(At<Cordon>(s, 0).cordoned);
  CHECK(At<Wait>(s, 1).time.count() > 0);
  CHECK(At<Expect>(s, 7).free_nodes == 2);
}

TEST_CASE("no node is cordoned for pods that tolerate it", "[variants]") {
  const auto varied =
      Make("cordoned-nodes", Decoded("nodes: {name: n}\nsteps:\n- create: {name: a, tolerations: "
                                     "node.kubernetes.io/unschedulable}\n- freeNodes: 1\n"));
  REQUIRE_FALSE(varied);
  CHECK(varied.error() == "its pods may use cordoned nodes");
}

TEST_CASE("an idle queue is added beside the others at every level", "[variants]") {
  const Scenario s = Made("idle-queue", Decoded(kTwoQueues));
  REQUIRE(s.policy.queues.size() == 5);
  for (const std::size_t i : {0U, 1U}) {
    const config::Queue& idle = s.policy.queues[i];
    CHECK(idle.name < "a");
    CHECK(idle.parent == (i == 0 ? "" : "b"));
    CHECK(idle.weight == 0);
    CHECK(idle.quota.empty());
  }
  CHECK(config::DecodePolicy(At<SetPolicy>(s, 4).yaml, "p")->queues.size() == 2);
}

TEST_CASE("without queues of its own the policy keeps its default queue", "[variants]") {
  const Scenario s = Made("idle-queue", Decoded("nodes: {name: n}\nsteps:\n- freeNodes: 1\n"));
  REQUIRE(s.policy.queues.size() == 2);
  CHECK(s.policy.queues[1] == config::PolicyConfiguration{}.queues[0]);
}

TEST_CASE("a group is put around the queues at the top alone", "[variants]") {
  const Scenario s = Made("grouped", Decoded(kTwoQueues));
  CHECK(s.policy.queues.at(0).parent == "0-group");
  CHECK(s.policy.queues.at(1).parent == "0-group");
  CHECK(s.policy.queues.at(2).parent == "b");
}

TEST_CASE("queues are listed the other way round, unless the order says whose a pod is",
          "[variants]") {
  const Scenario s = Made("queue-list-reversed", Decoded(kTwoQueues));
  CHECK(s.policy.queues.at(0).name == "x");
  CHECK(s.policy.queues.at(2).name == "b");
  const auto twice =
      Make("queue-list-reversed", Decoded("policy: |\n  queues:\n  - {name: a, namespaces: [n]}\n"
                                          "  - {name: b, namespaces: [n]}\n"
                                          "nodes: {name: n}\nsteps:\n- freeNodes: 1\n"));
  REQUIRE_FALSE(twice);
  CHECK(twice.error() == "two of its queues list one namespace: the first one counts");
}

TEST_CASE("each variant has a policy file of its own policy", "[variants]") {
  const Scenario plain = Decoded(kTwoQueues);
  for (const Variant& variant : Variants()) {
    INFO(variant.name);
    const auto varied = variant.make(plain);
    REQUIRE(varied);
    const auto read = config::DecodePolicy(varied->policy_yaml, "p");
    REQUIRE(read);
    CHECK(*read == varied->policy);
    CHECK(varied->proves == plain.proves);
  }
}

TEST_CASE("variants are chosen by name", "[variants]") {
  CHECK(ParseVariants("all")->size() == Variants().size());
  CHECK(ParseVariants("scaled,renamed")->at(1).name == "renamed");
  CHECK(ParseVariants("scaled,rename").error() == "rename");
  CHECK(ParseVariants("").error().empty());
}

}  // namespace
}  // namespace berth::scenario
