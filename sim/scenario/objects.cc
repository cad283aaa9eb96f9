#include "sim/scenario/objects.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace berth::scenario {
namespace {

using nlohmann::json;

std::string_view EffectName(kube::TaintEffect effect) {
  switch (effect) {
    case kube::TaintEffect::kPreferNoSchedule:
      return "PreferNoSchedule";
    case kube::TaintEffect::kNoExecute:
      return "NoExecute";
    default:
      return "NoSchedule";
  }
}

json NodeObject(const Nodes& nodes, int index) {
  const std::string name = nodes.count == 1 ? nodes.name : fmt::format("{}-{}", nodes.name, index);
  json labels = {{"kubernetes.io/hostname", name}};
  if (nodes.per_rack > 0) {
    const int rack = index / nodes.per_rack;
    labels[std::string(kRackLabel)] = fmt::format("rack-{}", rack);
    if (nodes.racks_per_block > 0) {
      labels[std::string(kBlockLabel)] = fmt::format("block-{}", rack / nodes.racks_per_block);
    }
  }
  for (const auto& [key, value] : nodes.labels) labels[key] = value;
  json taints = json::array();
  for (const kube::Taint& taint : nodes.taints) {
    taints.push_back(
        {{"key", taint.key}, {"value", taint.value}, {"effect", EffectName(taint.effect)}});
  }
  json resources = {{"cpu", nodes.cpu}, {"memory", nodes.memory}, {"pods", "110"}};
  if (nodes.gpus > 0) resources[std::string(kGpu)] = std::to_string(nodes.gpus);
  return {{"apiVersion", "v1"},
          {"kind", "Node"},
          {"metadata", {{"name", name}, {"labels", std::move(labels)}}},
          {"spec", {{"taints", std::move(taints)}}},
          {"status",
           {{"capacity", resources},
            {"allocatable", resources},
            {"conditions", {{{"type", "Ready"}, {"status", "True"}}}}}}};
}

json Metadata(const Workload& w, const std::string& name, bool launcher) {
  json labels = {{"workload", w.name}};
  json annotations = json::object();
  if (!w.queue.empty()) labels["berth.dev/queue"] = w.queue;
  if (w.gang) {
    labels["berth.dev/gang"] = w.name;
    annotations["berth.dev/gang-size"] = std::to_string(w.size > 0 ? w.size : w.pods);
    if (w.min > 0) annotations["berth.dev/gang-min-member"] = std::to_string(w.min);
  }
  if (!w.required.empty()) annotations["berth.dev/topology-required"] = w.required;
  if (!w.preferred.empty()) annotations["berth.dev/topology-preferred"] = w.preferred;
  if (w.whole_node && !launcher) annotations["berth.dev/whole-node"] = "true";
  for (const auto& [key, value] : w.annotations) annotations[key] = value;
  for (const auto& [key, value] : w.labels) labels[key] = value;
  return {{"name", name},
          {"namespace", w.ns},
          {"labels", std::move(labels)},
          {"annotations", std::move(annotations)}};
}

json Spec(const Workload& w, bool launcher) {
  json requests = json::object();
  if (!w.cpu.empty()) requests["cpu"] = w.cpu;
  if (!w.memory.empty()) requests["memory"] = w.memory;
  json limits = json::object();
  if (w.gpus > 0 && !launcher) {
    requests[std::string(kGpu)] = limits[std::string(kGpu)] = std::to_string(w.gpus);
  }
  json spec = {{"restartPolicy", "Never"},
               {"containers",
                {{{"name", "main"},
                  {"image", "registry.example.com/main"},
                  {"resources", {{"requests", requests}, {"limits", limits}}}}}}};
  json gates = json::array();
  if (w.gated) gates.push_back({{"name", "berth.dev/admission"}});
  if (!w.foreign_gate.empty()) gates.push_back({{"name", w.foreign_gate}});
  if (!gates.empty()) spec["schedulingGates"] = gates;
  if (!w.node.empty()) spec["nodeName"] = w.node;
  spec["schedulerName"] = w.scheduler.empty() ? "default-scheduler" : w.scheduler;
  if (w.priority != 0) {
    spec["priorityClassName"] = fmt::format("priority-{}", w.priority);
    spec["priority"] = w.priority;
  }
  for (const auto& [key, value] : w.node_selector) spec["nodeSelector"][key] = value;
  for (const std::string& key : w.tolerations) {
    spec["tolerations"].push_back({{"key", key}, {"operator", "Exists"}});
  }
  if (w.apart) {
    spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = {
        {{"topologyKey", "kubernetes.io/hostname"},
         {"labelSelector", {{"matchLabels", {{"workload", w.name}}}}}}};
  }
  return spec;
}

json PodRefs(const Scenario& scenario, const std::vector<std::string>& targets) {
  json refs = json::array();
  for (const std::string& target : targets) {
    for (const auto& [ns, name] : scenario.Pods(target)) {
      refs.push_back({{"namespace", ns}, {"name", name}});
    }
  }
  return refs;
}

/// What Expand() writes for one action, besides its key.
struct Expander {
  const Scenario& scenario;

  json operator()(const Create& action) const { return {{"objects", CreateObjects(action)}}; }
  json operator()(const AddNodes& action) const {
    json objects = json::array();
    for (const Nodes& nodes : action.nodes) {
      for (json& object : NodeObjects(nodes)) objects.push_back(std::move(object));
    }
    return {{"objects", std::move(objects)}};
  }
  json operator()(const Delete& action) const {
    return {{"pods", PodRefs(scenario, action.targets)}};
  }
  json operator()(const Finish& action) const {
    return {{"pods", PodRefs(scenario, action.targets)}};
  }
  json operator()(const Ungate& action) const {
    return {{"pods", PodRefs(scenario, action.targets)}};
  }
  json operator()(const Cordon& action) const { return {{"nodes", action.nodes}}; }
  json operator()(const RemoveNodes& action) const { return {{"nodes", action.nodes}}; }
  json operator()(const SetGpus& action) const { return {{"gpus", action.nodes}}; }
  json operator()(const SetPolicy& action) const { return {{"policy", action.yaml}}; }
  json operator()(const Kill& action) const {
    return {{"process", action.process == Process::kBerth ? "berth" : "scheduler"}};
  }
  json operator()(const Wait& action) const { return {{"milliseconds", action.time.count()}}; }
  json operator()(const Expect&) const { return {{"expect", true}}; }
};

}  // namespace

std::vector<json> NodeObjects(const Nodes& nodes) {
  std::vector<json> objects;
  for (int i = 0; i < nodes.count; ++i) objects.push_back(NodeObject(nodes, i));
  return objects;
}

std::vector<json> WorkloadObjects(const Workload& w) {
  std::vector<json> objects;
  if (w.priority != 0) {
    objects.push_back({{"apiVersion", "scheduling.k8s.io/v1"},
                       {"kind", "PriorityClass"},
                       {"metadata", {{"name", fmt::format("priority-{}", w.priority)}}},
                       {"value", w.priority}});
  }
  int index = w.first;
  for (const std::string& name : w.PodNames()) {
    const bool launcher = w.gang && index++ < w.launchers;
    objects.push_back({{"apiVersion", "v1"},
                       {"kind", "Pod"},
                       {"metadata", Metadata(w, name, launcher)},
                       {"spec", Spec(w, launcher)}});
  }
  return objects;
}

std::vector<json> CreateObjects(const Create& create) {
  std::vector<json> objects;
  for (const Workload& w : create.workloads) {
    for (json& object : WorkloadObjects(w)) objects.push_back(std::move(object));
  }
  if (create.reversed) std::ranges::reverse(objects);
  std::ranges::stable_partition(objects,
                                [](const json& object) { return object["kind"] != "Pod"; });
  return objects;
}

json Expand(const Scenario& scenario) {
  json nodes = json::array();
  for (const Nodes& group : scenario.nodes) {
    for (json& object : NodeObjects(group)) nodes.push_back(std::move(object));
  }
  json steps = json::array();
  for (const Step& step : scenario.steps) {
    json one = std::visit(Expander{scenario}, step.action);
    one["line"] = step.line;
    one["key"] = step.key;
    steps.push_back(std::move(one));
  }
  return {{"proves", scenario.proves},
          {"area", scenario.area},
          {"policy", scenario.policy_yaml},
          {"nodes", std::move(nodes)},
          {"steps", std::move(steps)}};
}

}  // namespace berth::scenario
