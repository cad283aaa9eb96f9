// Every key of a scenario file, told once: its name, the member it sets, its type with its bounds,
// and a sentence for editors. The decoder and the schema are visitors of these functions, so a new
// key is one line here (and its row in docs/scenarios.md). Its default is what its member is
// initialised with. Internal to sim/scenario/.
#pragma once

#include <array>
#include <chrono>
#include <string_view>

#include "config/decode.h"
#include "config/key_types.h"
#include "config/scalars.h"
#include "sim/scenario/scenario.h"

namespace berth::scenario::keys {

using config::keys::Choice;
using config::keys::Constant;
using config::keys::Duration;
using config::keys::Form;
using config::keys::Is;
using config::keys::Whole;

// --- The types of values that only scenarios have.

/// Any text.
struct Text {};
/// true or false.
struct Switch {};
/// An amount of `resource`.
struct Quantity {
  std::string_view resource;
  bool or_empty = false;  ///< "" means no request.
};
/// The text of a policy file.
struct Policy {};
/// A mapping with keys of its own, which the schema defines once, under this name.
struct Mapping {
  std::string_view definition;
};
template <typename Of>
struct List {
  Of of;
};
/// A list, or one of its elements in place of it.
template <typename Of>
struct OneOrMore {
  Of of;
};
/// A mapping with free keys.
template <typename Of>
struct ByName {
  Of of;
};
/// The list of steps.
struct Steps {};
/// An action of which the key sets one member.
template <typename Action, typename Member, typename Type>
struct Make {
  Member Action::*member;
  Type type;
  Action action{};
};
/// The key must be there.
template <typename Type>
struct Required {
  Type type;
};

inline constexpr Form kDnsName{
    config::IsDnsSubdomain, "a DNS name",
    R"({"type": "string", "maxLength": 253, "pattern": "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"})"};
inline constexpr Whole kGpus{0, 16};
inline constexpr Whole kPods{0, kMaxPods};
inline constexpr Whole kPositivePods{1, kMaxPods};
inline constexpr Whole kPositiveNodes{1, kMaxNodes};
inline constexpr OneOrMore kNames{Text{}};
inline constexpr OneOrMore kNodes{Mapping{"nodes"}};

inline constexpr std::array<std::string_view, 5> kAreas{"gang", "quota", "fragmentation",
                                                        "topology", "restart"};
// In the order of their enumerators.
inline constexpr std::array<std::string_view, 3> kEffects{"NoSchedule", "PreferNoSchedule",
                                                          "NoExecute"};
inline constexpr std::array<std::string_view, 2> kProcesses{"berth", "scheduler"};

// --- The keys.

template <typename Visitor, Is<kube::Taint> T>
void Keys(Visitor& key, T& taint) {
  key("key", taint.key, Required{Text{}}, "");
  key("value", taint.value, Text{}, "");
  key("effect", taint.effect, Required{Choice{kEffects}}, "");
}

template <typename Visitor, Is<Nodes> T>
void Keys(Visitor& key, T& nodes) {
  key("name", nodes.name, Required{kDnsName}, "");
  key("count", nodes.count, kPositiveNodes, "");
  key("gpus", nodes.gpus, kGpus, "");
  key("cpu", nodes.cpu, Quantity{"cpu"}, "");
  key("memory", nodes.memory, Quantity{"memory"}, "");
  key("perRack", nodes.per_rack, kPositiveNodes, "So many nodes in a row share a rack label.");
  key("racksPerBlock", nodes.racks_per_block, kPositiveNodes, "So many racks share a block label.");
  key("labels", nodes.labels, ByName{Text{}}, "");
  key("taints", nodes.taints, List{Mapping{"taint"}}, "");
}

template <typename Visitor, Is<Workload> T>
void Keys(Visitor& key, T& w) {
  key("name", w.name, Required{kDnsName}, "");
  key("pods", w.pods, kPositivePods, "");
  key("gang", w.gang, Switch{}, "The pods are members of one gang.");
  key("size", w.size, kPositivePods, "Members that the gang announces; default: pods.");
  key("min", w.min, kPositivePods, "Members that it needs to start; default: all.");
  key("launchers", w.launchers, kPods, "The members with a number below this ask for no GPUs.");
  key("first", w.first, kPods, "The number of the first pod.");
  key("gpus", w.gpus, kGpus, "");
  key("cpu", w.cpu, Quantity{.resource = "cpu", .or_empty = true}, "");
  key("memory", w.memory, Quantity{.resource = "memory", .or_empty = true}, "");
  key("namespace", w.ns, kDnsName, "");
  key("queue", w.queue, Text{}, "");
  key("priority", w.priority, Whole{0, 1'000'000}, "");
  key("gated", w.gated, Switch{}, "Behind Berth's gate.");
  key("gate", w.foreign_gate, Text{}, "Behind a gate that is not Berth's.");
  key("wholeNode", w.whole_node, Switch{}, "");
  key("required", w.required, Text{}, "Topology level or node label.");
  key("preferred", w.preferred, Text{}, "Topology level or node label.");
  key("node", w.node, Text{}, "Bound there from the beginning.");
  key("scheduler", w.scheduler, Text{}, "Another schedulerName.");
  key("nodeSelector", w.node_selector, ByName{Text{}}, "");
  key("tolerations", w.tolerations, kNames, "Taint keys.");
  key("apart", w.apart, Switch{}, "Required anti-affinity among its pods, by host.");
  key("annotations", w.annotations, ByName{Text{}}, "");
  key("labels", w.labels, ByName{Text{}}, "");
}

template <typename Visitor, Is<WorkloadExpectation> T>
void Keys(Visitor& key, T& expectation) {
  key("bound", expectation.bound, kPods, "");
  key("waiting", expectation.waiting, kPods, "");
  key("gated", expectation.gated, kPods, "Of those that wait, the ones behind Berth's gate.");
  key("unschedulable", expectation.unschedulable, kPods,
      "Of those that wait, the ones that kube-scheduler marked Unschedulable: autoscalers see "
      "them.");
  key("nodes", expectation.nodes, kPods, "Different nodes that they use.");
  key("domains", expectation.domains, ByName{Whole{0, kMaxNodes}},
      "By node label: different values.");
  key("on", expectation.on, kNames, "Exactly these nodes.");
  key("reason", expectation.reason, Text{}, "Of the first waiting pod.");
}

/// A step has one of them.
template <typename Visitor, Is<Step> T>
void Keys(Visitor& key, T& step) {
  constexpr std::string_view kTargets = "One name or a list.";
  const auto make = [&](std::string_view name, auto type, std::string_view sentence) {
    key(name, step.action, type, sentence);
  };
  make("create", Make{&Create::workloads, OneOrMore{Mapping{"workload"}}}, "");
  make("nodes", Make{&AddNodes::nodes, kNodes}, "");
  make("delete", Make{&Delete::targets, kNames}, kTargets);
  make("succeed", Make{&Finish::targets, kNames}, kTargets);
  make("fail", Make{&Finish::targets, kNames, Finish{{}, false}}, kTargets);
  make("ungate", Make{&Ungate::targets, kNames}, kTargets);
  make("cordon", Make{&Cordon::nodes, kNames}, kTargets);
  make("uncordon", Make{&Cordon::nodes, kNames, Cordon{{}, false}}, kTargets);
  make("removeNodes", Make{&RemoveNodes::nodes, kNames}, kTargets);
  make("setGpus", Make{&SetGpus::nodes, ByName{kGpus}}, "");
  make("policy", Make{&SetPolicy::yaml, Policy{}}, "A new policy file.");
  make("kill", Make{&Kill::process, Choice{kProcesses}}, "");
  make("wait", Make{&Wait::time, Duration{std::chrono::milliseconds{1}, std::chrono::minutes{60}}},
       "");
  make("expect", Make{&Expect::workloads, ByName{Mapping{"expectation"}}}, "");
  make("freeNodes", Make{&Expect::free_nodes, kPods}, "");
}

template <typename Visitor, Is<Scenario> T>
void Keys(Visitor& key, T& scenario) {
  key("apiVersion", Constant{config::kPolicyApiVersion});
  key("kind", Constant{"Scenario"});
  key("proves", scenario.proves, Required{Text{}},
      "One sentence that is true if the scenario holds.");
  key("area", scenario.area, Required{Choice{kAreas}}, "");
  key("policy", scenario, Policy{}, "A policy file; its first two lines may be left out.");
  key("nodes", scenario.nodes, Required{kNodes}, "");
  key("steps", scenario, Required{Steps{}}, "");  // Their targets are of the steps before.
}

}  // namespace berth::scenario::keys
