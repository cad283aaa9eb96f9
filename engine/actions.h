// What the engine wants done in the world. Inert values: the host carries them out, in order per
// pod, each idempotent, with a deadline and bounded retries.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "cluster/reason.h"

namespace berth::engine {

using TicketId = std::uint64_t;

struct PodRef {
  std::string ns{};
  std::string name{};
  std::string uid{};
};

/// Lets one member go to its planned node: status.nominatedNodeName and the annotation
/// berth.dev/plan (the wake-up of an ungated pod) in one patch, then the removal of our gate.
struct ReleaseMember {
  PodRef pod{};
  std::string node{};        ///< Empty: no nomination (passthrough).
  std::string annotation{};  ///< Empty: none. Only with a node.
  bool remove_gate = false;
  bool withdraw = false;  ///< Instead of all this: its nomination is void and taken back.
};

/// Ends the wait of a bind call that was told to stand.
struct ResolveBind {
  TicketId ticket = 0;
  enum class Verdict : std::uint8_t {
    kPost,   ///< Post the Binding, then call Engine::BindFinished.
    kBound,  ///< Somebody else's call bound it to the same node: success.
    kError,
  } verdict = Verdict::kError;
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

/// Whether a node's devices are told apart changed, or what it says of its hardware. For the log.
struct NodeNotice {
  std::string node{};
  bool kept = false;      ///< Devices are told apart.
  std::string problem{};  ///< Why not, or what is wrong with its hardware; empty: all is well.
};

/// One line of the decision log.
struct Decision {
  std::string kind{};  ///< plan, refuse, start, bind, end, dissolve.
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

using Action =
    std::variant<ReleaseMember, ResolveBind, SettleBind, EmitEvent, NodeNotice, Decision>;

}  // namespace berth::engine
