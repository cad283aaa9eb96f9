// What runs where, counted as it happens at the API server: by node, by queue, by gang. The checker
// asks it at every Binding, so that a check costs what it touches and not what the cluster holds.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/world/environment.h"

namespace berth::sim {

/// It has not ended: its room is taken where it is bound.
bool Lives(const kube::Pod& pod);
/// A gang's name belongs to its namespace. Empty: no gang.
std::string GangOf(const kube::Pod& pod);
/// How many members its gang needs, as the pod says; 0: it is in none.
int MinimumOf(const kube::Pod& pod);
/// Whom a pod is charged to, by the policy and nothing else. Empty: Berth does not plan it.
std::string QueueByPolicy(const kube::Pod& pod, const config::PolicyConfiguration& policy);
/// It takes all devices of its node.
bool WholeNode(const kube::Pod& pod);
/// Of gpus, cpus and the like; 0: not named.
std::int64_t AmountOf(const kube::ResourceList& list, std::string_view name);

class Usage {
 public:
  /// Watches the pods of `env`, which must outlive it.
  explicit Usage(Environment& env);

  /// Of the live pods on one node.
  struct Room {
    kube::ResourceList used;  ///< `pods` counts them. Devices of whole-node pods are not in it.
    int whole_node = 0;       ///< Pods that take all its devices.
  };
  const Room& RoomOf(const std::string& node) const;

  /// Milli-GPUs of its bound live pods. A pod's queue is the one that Berth wrote at its Binding,
  /// while the policy has it, and else as the policy says of the pod as it was when it was first
  /// seen bound; whole nodes count by what Berth charged at binding.
  std::int64_t GpusOf(const std::string& queue) const;
  /// Of these, those that an edit of the policy brought there at `since` or later.
  std::int64_t GpusMovedTo(const std::string& queue, TimePoint since) const;
  /// A bound pod counts there because of such an edit, which came before its Binding was accepted.
  /// So much more than was allowed goes unseen in that queue for as long as news may be old.
  void CameByEdit(const std::string& uid) { moved_[uid] = env_.now(); }
  /// Empty: never seen bound.
  std::string QueueOf(const std::string& uid) const;

  /// UIDs of the live pods on a node that ask for GPUs, and of those that a queue is charged. Each
  /// costs a walk over all bound pods.
  std::vector<std::string> BoundTo(const std::string& node) const;
  std::vector<std::string> BoundIn(const std::string& queue) const;

  /// Members that exist, by UID.
  using Members = std::map<std::string, std::shared_ptr<const kube::Pod>>;
  const Members& MembersOf(const std::string& gang) const;

 private:
  struct Counted {
    std::shared_ptr<const kube::Pod> pod;
    std::shared_ptr<const kube::Pod> as_bound;  ///< As it was when it was first seen bound.
    std::string queue;
  };

  void OnPod(const Change& change);
  void OnPolicy();
  void Count(const Counted& counted, std::int64_t sign);

  Environment& env_;
  Life life_;
  std::unordered_map<std::string, Counted> bound_;  ///< Live, by UID.
  std::map<std::string, TimePoint> moved_;  ///< Bound UIDs to when their queue last changed.
  std::unordered_map<std::string, Room> rooms_;
  std::map<std::string, std::int64_t> queues_;
  std::map<std::string, Members> gangs_;
};

}  // namespace berth::sim
