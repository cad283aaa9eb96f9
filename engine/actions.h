// The actions that the engine asks its host to carry out. They are plain values. The host runs them
// in order per pod; each is idempotent and has a deadline and bounded retries.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cluster/plan_claim.h"
#include "cluster/reason.h"
#include "kube/objects.h"

namespace berth::engine {

using TicketId = std::uint64_t;

struct PodRef {
  std::string ns{};
  std::string name{};
  std::string uid{};
};

/// Lets one member go to its planned node: one patch sets status.nominatedNodeName and the
/// annotation berth.dev/plan (which wakes up an ungated pod); then our scheduling gate is removed.
struct ReleaseMember {
  PodRef pod{};
  std::string node{};        ///< Empty: no nomination (passthrough).
  std::string annotation{};  ///< Empty: none. Only with a node.
  bool remove_gate = false;
  bool withdraw = false;  ///< Instead of all of the above: clear the nomination, which is void.
};

/// What creates a pod that is evicted, in the pod's namespace: its batch/v1 Job, and the JobSet
/// that the pod's label names for it.
struct OwningJob {
  std::string name{};
  std::string uid{};
  std::string set{};  ///< By a label that any user can write; empty: none.
  /// How many pods of the JobSet, or else of the Job, are known to end with this one, waiting pods
  /// included; at least 1.
  int pods = 1;
  /// Identifies what is suspended in its namespace, for as long as it exists.
  std::string Key() const { return set.empty() ? uid : "jobset/" + set; }
};

/// Evicts a pod for work whose plan waits for its room, or because its queue is drained; then
/// Engine::EvictionAnswered is called, once. Not done any more when Engine::StillEvicts is false.
struct EvictPod {
  PodRef pod{};
  std::string workload{};  ///< The key of the work that it makes room for, or its own job's.
  std::string id{};        ///< Evictions::id.
  std::string drained{};   ///< The queue that is drained; empty: it makes room.
  bool dry_run = false;    ///< Only ask whether the eviction would be done.
  bool surplus = false;    ///< Its gang goes on without it.
  bool by_delete = false;  ///< Delete the pod: no PodDisruptionBudget holds.
  /// What may be suspended instead, if all its pods end; nullopt: nothing.
  std::optional<OwningJob> job{};
};

/// What the pod is marked with before it is evicted. No workload has a key with a single slash, so
/// after a restart no workload gets the room of what is drained.
inline cluster::EvictionMark MarkOf(const EvictPod& eviction) {
  return {.workload = eviction.drained.empty() ? eviction.workload : "drain/" + eviction.drained,
          .surplus = eviction.surplus};
}

/// Asks whether there is an object that a pod of the workload needs beside room, before others are
/// evicted for it; then Engine::EvictionAnswered is called, once, with the key of the object. Not
/// done any more when Engine::StillEvicts is false.
struct FindNeeded {
  std::string workload{};
  std::string id{};  ///< Evictions::id.
  std::string ns{};
  kube::NeededObject object{};
};

/// The key of the object in Evictions::unanswered, beside UIDs of pods: no UID has a slash.
inline std::string KeyOf(const kube::NeededObject& object) {
  return std::string(kube::ResourceOf(object.kind).plural) + '/' + object.name;
}

/// Tells a pod when it is to be evicted, by the annotation berth.dev/eviction-time.
struct WarnVictim {
  PodRef pod{};
  std::string time{};  ///< RFC 3339. Empty: it is not to be evicted any more.
};

/// Ends the wait of a parked bind call.
struct ResolveBind {
  TicketId ticket = 0;
  enum class Resolution : std::uint8_t {
    kPost,   ///< Post the Binding, then call Engine::BindFinished.
    kBound,  ///< Another call bound it to the same node: success.
    kError,
  } resolution = Resolution::kError;
  std::string error{};
  std::map<std::string, std::string> annotations{};  ///< For the Binding.
};

/// The outcome of a bind is unknown: read the pod, give it to OnPod, then call BindSettled.
struct SettleBind {
  PodRef pod{};
};

/// A Kubernetes Event on a pod. The host aggregates and rate-limits.
struct EmitEvent {
  PodRef pod{};
  bool warning = false;
  std::string reason{};  ///< A reason token, or `GangStarted`.
  std::string note{};
};

/// A node's devices began or ceased to be tracked individually, or its hardware description
/// changed. For the log.
struct NodeNotice {
  std::string node{};
  bool kept = false;      ///< Devices are tracked individually.
  std::string problem{};  ///< Why not, or what is wrong with its hardware data; empty: nothing.
};

/// One line of the decision log.
struct Decision {
  std::string kind{};  ///< plan, refuse, start, evict, drain, bind, end, dissolve.
  std::string workload{};
  std::string queue{};
  std::string plan{};
  std::uint64_t generation = 0;
  std::vector<std::pair<std::string, std::string>> placed{};  ///< Pod, node.
  cluster::Verdict verdict{};
  int candidates = 0;                            ///< Nodes with room for the first member.
  std::map<std::string, std::int64_t> chosen{};  ///< Score terms of its node, millionths.
  std::string runner_up{};                       ///< The next best node.
  std::map<std::string, std::int64_t> next_best{};
  std::int64_t ran_ms = -1;     ///< With `end`: from bound to ending.
  std::int64_t waited_ms = -1;  ///< With `start` and `bind`.
};

using Action = std::variant<ReleaseMember, EvictPod, FindNeeded, WarnVictim, ResolveBind,
                            SettleBind, EmitEvent, NodeNotice, Decision>;

}  // namespace berth::engine
