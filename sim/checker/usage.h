// What runs where, counted as it happens at the API server: by node, by queue, by gang. The checker
// uses it at every Binding, so that a check costs in proportion to what the Binding touches and not
// to the cluster.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "config/policy_configuration.h"
#include "kube/objects.h"
#include "sim/world/environment.h"

namespace berth::sim {

/// The queue that a pod is charged to, by the policy alone. Empty: Berth does not plan it.
std::string QueueByPolicy(const kube::Pod& pod, const config::PolicyConfiguration& policy);
/// The queue and those above it, by the policy alone.
std::vector<std::string> PathOf(const std::string& queue,
                                const config::PolicyConfiguration& policy);
/// What the pods at the API server use, kept up to date by watching them.
class Usage {
 public:
  /// Watches the pods of `env`, which must outlive it.
  explicit Usage(Environment& env);

  /// What the live pods on one node use.
  struct Room {
    kube::ResourceList used;  ///< `pods` counts the pods. Does not contain the devices of
                              ///< whole-node pods.
    int whole_node = 0;       ///< Number of pods that take all its devices.
  };
  const Room& RoomOf(const std::string& node) const;

  /// Milli-GPUs of the bound live pods of the queue and of those below it. A pod's queue is the one
  /// that Berth wrote at its Binding, while the policy has that queue; otherwise it is the one that
  /// the policy gives for the pod as it was when it was first seen bound. Whole-node pods count
  /// with what Berth charged at binding.
  std::int64_t GpusOf(const std::string& queue) const;
  /// How many of these an edit of the policy moved to their queue at `since` or later.
  std::int64_t GpusMovedTo(const std::string& queue, TimePoint since) const;
  /// A bound pod counts in its queue because of such an edit, which came before its Binding was
  /// accepted. An excess of its amount in that queue goes unnoticed for as long as information may
  /// be outdated.
  void CameByEdit(const std::string& uid) { moved_[uid] = env_.now(); }
  /// When a queue last got another parent.
  TimePoint tree_changed() const { return tree_changed_; }
  /// Empty: never seen bound.
  std::string QueueOf(const std::string& uid) const;

  /// UIDs of the live pods on a node that ask for GPUs, and of those that a queue is charged for.
  /// Each call walks over all bound pods.
  std::vector<std::string> BoundTo(const std::string& node) const;
  std::vector<std::string> BoundIn(const std::string& queue) const;

  /// Members that exist, by UID.
  using Members = std::map<std::string, std::shared_ptr<const kube::Pod>>;
  const Members& MembersOf(const std::string& gang) const;

 private:
  struct Counted {
    std::shared_ptr<const kube::Pod> pod;
    std::shared_ptr<const kube::Pod> as_bound;  ///< The pod as it was when it was first seen bound.
    std::string queue;
  };

  void OnPod(const Change& change);
  void OnPolicy();
  /// Also true of the queue itself.
  bool IsBelow(const std::string& queue, const std::string& top) const;
  void Count(const Counted& counted, std::int64_t sign);

  Environment& env_;
  Life life_;
  std::unordered_map<std::string, Counted> bound_;  ///< Live pods, by UID.
  std::map<std::string, TimePoint> moved_;          ///< UIDs of bound pods to when their queue last
                                                    ///< changed.
  std::unordered_map<std::string, Room> rooms_;
  std::map<std::string, std::int64_t> queues_;  ///< Without those below.
  std::map<std::string, std::string> parents_;  ///< Of queues.
  TimePoint tree_changed_ = 0;
  std::map<std::string, Members> gangs_;
};

}  // namespace berth::sim
