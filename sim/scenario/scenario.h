// A scenario file: a small cluster, what happens in it step by step, and what must then be true.
// The same file runs in the simulator and, through the end-to-end tests, on a real control plane
// (docs/scenarios.md is the reference of every key; keys.h has them all).
#pragma once

#include <chrono>
#include <cstdint>
#include <expected>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/policy_configuration.h"
#include "config/yaml_reader.h"
#include "kube/objects.h"

namespace berth::scenario {

inline constexpr int kMaxNodes = 1000;
inline constexpr int kMaxPods = 5000;

/// Equal nodes, `name-0` to `name-(count-1)`; just `name` if there is one.
struct Nodes {
  std::string name;
  int count = 1;
  int gpus = 8;
  std::string cpu = "64";
  std::string memory = "512Gi";
  int per_rack = 0;  ///< Nodes that share a rack label; 0: no rack labels.
  int racks_per_block = 0;
  kube::StringMap labels{};
  std::vector<kube::Taint> taints{};
};

/// A gang of pods, or `pods` single pods; named `name-0`, `name-1`... or just `name`. Amounts are
/// per pod.
struct Workload {
  std::string name;
  int pods = 1;
  bool gang = false;
  int size = 0;       ///< Number of members that the gang announces; 0: as many as `pods`.
  int min = 0;        ///< 0: all.
  int launchers = 0;  ///< This many pods, the first ones, ask for no devices.
  int first = 0;      ///< Number of the first pod: for members that are created later.
  int gpus = 0;
  std::string cpu = "1";  ///< Empty: no request. The same applies to memory.
  std::string memory = "1Gi";
  std::string ns = "default";
  std::string queue{};
  std::int32_t priority = 0;
  bool gated = false;
  std::string foreign_gate{};  ///< Scheduling gate of another controller.
  bool whole_node = false;
  std::string required{};  ///< Topology level or node label.
  std::string preferred{};
  std::string node{};       ///< It is created bound to this node, without a scheduler.
  std::string scheduler{};  ///< Another schedulerName.
  kube::StringMap node_selector{};
  std::vector<std::string> tolerations{};  ///< Keys; tolerates any value and effect.
  bool apart = false;                      ///< Required anti-affinity among its pods, by host.
  kube::StringMap annotations{};           ///< Added to those that the keys above imply.
  kube::StringMap labels{};                ///< The same.

  std::vector<std::string> PodNames() const;
};

// The actions. Names in `targets` are of workloads (all their pods) or of single pods.
struct Create {
  std::vector<Workload> workloads;
  bool reversed = false;  ///< The last pod first; no key of the file.
};
/// Nodes join the cluster.
struct AddNodes {
  std::vector<Nodes> nodes;
};
/// The pods are deleted.
struct Delete {
  std::vector<std::string> targets;
};
/// The pods' containers end.
struct Finish {
  std::vector<std::string> targets;
  bool succeeded = true;
};
/// The owner of `foreign_gate` removes it.
struct Ungate {
  std::vector<std::string> targets;
};
/// The nodes are cordoned, or uncordoned.
struct Cordon {
  std::vector<std::string> nodes;
  bool cordoned = true;
};
/// The nodes are deleted.
struct RemoveNodes {
  std::vector<std::string> nodes;
};
/// The device plugin reports a different number of devices.
struct SetGpus {
  std::map<std::string, int> nodes;
};
/// The policy file is replaced.
struct SetPolicy {
  std::string yaml;
};
/// What can be killed.
enum class Process : std::uint8_t { kBerth, kScheduler };
/// kill -9, and a new process at once.
struct Kill {
  Process process = Process::kBerth;
};
/// Time passes.
struct Wait {
  std::chrono::milliseconds time{};
};

/// What must hold of one workload; nullopt and empty: not checked.
struct WorkloadExpectation {
  std::optional<int> bound;            ///< Pods with a node.
  std::optional<int> waiting;          ///< Pods that exist without one.
  std::optional<int> gated;            ///< Of those, with Berth's gate.
  std::optional<int> unschedulable;    ///< Of those, marked so by kube-scheduler.
  std::optional<int> nodes;            ///< Number of different nodes that they use.
  std::map<std::string, int> domains;  ///< By node label key: number of different values on the
                                       ///< nodes that they use.
  std::vector<std::string> on;         ///< Exactly these nodes.
  std::string reason;                  ///< The token that `why` gives for its first waiting pod.
};

/// What must hold once the cluster has settled.
struct Expect {
  std::map<std::string, WorkloadExpectation> workloads;
  std::optional<int> free_nodes;  ///< Nodes whose devices are all free.
};

using Action = std::variant<Create, AddNodes, Delete, Finish, Ungate, Cordon, RemoveNodes, SetGpus,
                            SetPolicy, Kill, Wait, Expect>;

/// One action, and where it stands in the file.
struct Step {
  int line = 0;
  std::string key;  ///< As written: `create`, `expect`...
  Action action;
};

/// A scenario file.
struct Scenario {
  std::string proves;       ///< One sentence.
  std::string area;         ///< gang, quota, fragmentation, topology, restart.
  std::string policy_yaml;  ///< A complete policy file.
  config::PolicyConfiguration policy;
  std::vector<Nodes> nodes;
  std::vector<Step> steps;

  /// Every workload ever created under a name, by name; the first declaration counts.
  const Workload* Find(std::string_view name) const;
  /// The pods that `target` names: a workload's, or the one of that name. {namespace, name}.
  std::vector<std::pair<std::string, std::string>> Pods(std::string_view target) const;
};

/// Strict, as for the policy file: returns all errors together, in document order.
std::expected<Scenario, std::vector<config::Diagnostic>> Decode(std::string_view yaml,
                                                                std::string_view file_name);

/// A JSON schema of scenario files. sim/scenario/schema.json is a copy of it.
std::string Schema();

}  // namespace berth::scenario
