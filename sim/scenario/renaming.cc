#include "sim/scenario/renaming.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "sim/scenario/objects.h"
#include "sim/scenario/policy_edits.h"

namespace berth::scenario {
namespace {

constexpr std::string_view kHostname = "kubernetes.io/hostname";
constexpr std::string_view kQueueLabel = "berth.dev/queue";
constexpr std::string_view kUserLabel = "berth.dev/user";
constexpr std::string_view kClassLabel = "berth.dev/class";
constexpr std::string_view kDefault = "default";

using Names = std::set<std::string>;

/// New names for old ones; any other name stays.
class NameMap {
 public:
  NameMap() = default;
  NameMap(const Names& names, NameOrder order) {
    const bool reversed = order == NameOrder::kReversed;
    std::size_t at = reversed ? names.size() : 0;
    for (const std::string& name : names) {
      const bool low = (name < kDefault) != reversed;
      // `default` stays between those that were before it and those after it.
      to_[name] = name == kDefault ? name : fmt::format("{}{:04}-{}", low ? 'b' : 'v', at, name);
      at = reversed ? at - 1 : at + 1;
    }
  }

  void operator()(std::string& name) const {
    if (const auto found = to_.find(name); found != to_.end()) name = found->second;
  }
  void operator()(std::vector<std::string>& names) const {
    for (std::string& name : names) (*this)(name);
  }
  void operator()(kube::StringMap& values, std::string_view key) const {
    if (const auto found = values.find(key); found != values.end()) (*this)(found->second);
  }
  template <typename Value>
  void Keys(std::map<std::string, Value>& values) const {
    std::map<std::string, Value> renamed;
    for (auto& [key, value] : values) {
      std::string name = key;
      (*this)(name);
      renamed.emplace(std::move(name), std::move(value));
    }
    values = std::move(renamed);
  }
  /// False: it already has another new name.
  bool Add(const std::string& name, std::string to) {
    return to_.emplace(name, to).first->second == to;
  }

 private:
  std::map<std::string, std::string> to_;
};

template <typename Do>
void ForEachWorkload(Scenario& scenario, Do what) {
  for (Step& step : scenario.steps) {
    auto* create = std::get_if<Create>(&step.action);
    if (create != nullptr) std::ranges::for_each(create->workloads, what);
  }
}

template <typename Do>
void ForEachNodeList(Scenario& scenario, Do what) {
  what(scenario.nodes);
  for (Step& step : scenario.steps) {
    if (auto* add = std::get_if<AddNodes>(&step.action)) what(add->nodes);
  }
}

/// Each node as a group of its own: then its name is free.
void Separate(std::vector<Nodes>& groups) {
  std::vector<Nodes> separate;
  for (const Nodes& group : groups) {
    for (const auto& object : NodeObjects(group)) {
      Nodes& one = separate.emplace_back(group);
      one.name = object["metadata"]["name"].get<std::string>();
      one.count = 1;
      one.per_rack = one.racks_per_block = 0;
      for (const std::string_view key : {kRackLabel, kBlockLabel}) {
        const auto& labels = object["metadata"]["labels"];
        if (labels.contains(key)) one.labels[std::string(key)] = labels[key].get<std::string>();
      }
    }
  }
  groups = std::move(separate);
}

/// Everything that has a name.
struct AllNames {
  Names nodes;
  Names workloads;
  Names queues;
  Names tenants;  ///< Namespaces and users: a pod without a user is of its namespace.
  Names flavors;
  Names classes;
};

AllNames Collect(Scenario& scenario) {
  AllNames names;
  ForEachNodeList(scenario, [&](const std::vector<Nodes>& nodes) {
    for (const Nodes& node : nodes) names.nodes.insert(node.name);
  });
  ForEachWorkload(scenario, [&](const Workload& w) {
    names.workloads.insert(w.name);
    names.tenants.insert(w.ns);
    const auto user = w.labels.find(kUserLabel);
    if (user != w.labels.end() && !user->second.empty()) names.tenants.insert(user->second);
  });
  EditPolicies(scenario, [&](const config::PolicyConfiguration& policy) {
    for (const config::Queue& queue : policy.queues) {
      names.queues.insert(queue.name);
      if (!queue.parent.empty()) names.queues.insert(queue.parent);
      for (const std::string& ns : queue.namespaces.value_or(std::vector<std::string>{})) {
        if (ns != "*") names.tenants.insert(ns);
      }
    }
    for (const config::Flavor& flavor : policy.flavors) names.flavors.insert(flavor.name);
    for (const config::WorkloadClass& one : policy.classes) names.classes.insert(one.name);
  });
  return names;
}

/// The new name of everything.
struct Renaming {
  NameMap nodes;
  NameMap workloads;
  NameMap queues;
  NameMap tenants;
  NameMap flavors;
  NameMap classes;
  NameMap targets;  ///< Workloads, and single pods.

  void operator()(std::vector<Nodes>& list) const {
    for (Nodes& one : list) {
      nodes(one.name);
      nodes(one.labels, kHostname);
    }
  }
  void operator()(Workload& w) const {
    workloads(w.name);
    tenants(w.ns);
    queues(w.queue);
    nodes(w.node);
    nodes(w.node_selector, kHostname);
    queues(w.labels, kQueueLabel);
    tenants(w.labels, kUserLabel);
    classes(w.labels, kClassLabel);
  }
  void operator()(config::PolicyConfiguration& policy) const {
    for (config::Queue& queue : policy.queues) {
      queues(queue.name);
      queues(queue.parent);
      if (queue.namespaces) tenants(*queue.namespaces);
      if (queue.classes) classes(*queue.classes);
      for (config::FlavorQuota& amounts : queue.quotas) flavors(amounts.flavor);
    }
    for (config::Flavor& flavor : policy.flavors) {
      flavors(flavor.name);
      nodes(flavor.node_selector, kHostname);
    }
    for (config::WorkloadClass& one : policy.classes) classes(one.name);
  }

  // The steps.
  void operator()(Create& action) const {
    for (Workload& w : action.workloads) (*this)(w);
  }
  void operator()(AddNodes& action) const { (*this)(action.nodes); }
  void operator()(Delete& action) const { targets(action.targets); }
  void operator()(Finish& action) const { targets(action.targets); }
  void operator()(Ungate& action) const { targets(action.targets); }
  void operator()(Cordon& action) const { nodes(action.nodes); }
  void operator()(RemoveNodes& action) const { nodes(action.nodes); }
  void operator()(SetGpus& action) const { nodes.Keys(action.nodes); }
  void operator()(SetPolicy&) const {}  // by EditPolicies
  void operator()(Kill&) const {}
  void operator()(Wait&) const {}
  void operator()(Expect& action) const {
    targets.Keys(action.workloads);
    for (auto& [name, expected] : action.workloads) nodes(expected.on);
  }
};

/// The error is a name that means two things.
std::expected<NameMap, std::string> Targets(Scenario& scenario, const NameMap& workloads) {
  NameMap targets;
  std::string twice;
  ForEachWorkload(scenario, [&](const Workload& w) {
    std::string to = w.name;
    workloads(to);
    if (!targets.Add(w.name, to)) twice = w.name;
    for (const std::string& pod : w.PodNames()) {
      if (!targets.Add(pod, to + pod.substr(w.name.size()))) twice = pod;
    }
  });
  if (!twice.empty()) return std::unexpected(twice);
  return targets;
}

}  // namespace

std::expected<Scenario, std::string> Renamed(const Scenario& scenario, NameOrder order) {
  Scenario renamed = scenario;
  ForEachNodeList(renamed, Separate);
  const AllNames names = Collect(renamed);
  Renaming renaming{.nodes = NameMap(names.nodes, order),
                    .workloads = NameMap(names.workloads, order),
                    .queues = NameMap(names.queues, order),
                    .tenants = NameMap(names.tenants, order),
                    .flavors = NameMap(names.flavors, order),
                    .classes = NameMap(names.classes, order),
                    .targets = {}};
  auto targets = Targets(renamed, renaming.workloads);
  if (!targets) {
    return std::unexpected(fmt::format("{} is a workload, and a pod of another", targets.error()));
  }
  renaming.targets = *std::move(targets);
  EditPolicies(renamed, renaming);
  renaming(renamed.nodes);
  for (Step& step : renamed.steps) std::visit(renaming, step.action);
  return renamed;
}

}  // namespace berth::scenario
