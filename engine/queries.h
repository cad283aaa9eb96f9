// What the engine is asked, and what it answers: the calls of kube-scheduler, and why a pod waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/reason.h"
#include "engine/actions.h"

namespace berth::engine {

/// A filter call, as the engine sees it.
struct FilterQuery {
  std::string_view uid;
  std::span<const std::string_view> offered;
  /// Decodes the pod in the request, for a pod that the informer does not know. May return null.
  std::function<const kube::Pod*()> request_pod{};
};

struct FilterAnswer {
  bool keep_all = false;                                ///< Not a pod that we judge.
  std::vector<std::size_t> kept{};                      ///< Indices into `offered`, best first.
  cluster::ReasonId reason = cluster::ReasonId::kNone;  ///< Why the other nodes are not kept.
};

/// A bind call.
struct BindQuery {
  std::string_view uid;
  std::string_view ns;
  std::string_view name;
  std::string_view node;
};

/// A bind call is either answered at once or parked until a ResolveBind with its ticket.
struct BindAnswer {
  bool parked = false;
  TicketId ticket = 0;
  ResolveBind now{};  ///< Valid if it is not parked.
};

/// Pods that end on one node so that kube-scheduler may place another one there.
struct VictimSet {
  std::vector<std::string> uids;  ///< By descending priority.
  std::int64_t pdb_violations = 0;
};
/// By the name of the node.
using VictimMap = std::map<std::string, VictimSet, std::less<>>;

/// Why one pod waits, or that it does not wait.
struct Explanation {
  bool found = false;
  std::string workload;
  bool gang = false;
  std::string queue;
  std::string_view gang_from;   ///< The dialect that named the gang, as cluster::Name gives it.
  std::string_view queue_from;  ///< The dialect that named the queue; empty: none did.
  std::string phase;            ///< Pending, Starting, Started, Bound, Unmanaged.
  cluster::Verdict verdict;
  int members = 0;
  int min_member = 0;
  int bound = 0;
  std::string node;
  std::int64_t waiting_ms = 0;
};

}  // namespace berth::engine
