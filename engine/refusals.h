// Nodes on which pods are not tried for a while, because kube-scheduler refused the node to a
// workload or because the node's kubelet rejected a pod of the shape.
#pragma once

#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "cluster/model.h"
#include "policy/placement.h"

namespace berth::engine {

using cluster::TimePoint;

/// In whole seconds, rounded up; 0 if `then` has passed.
TimePoint SecondsUntil(TimePoint then, TimePoint now);

/// The entries of `avoid` whose pause is not over.
std::vector<policy::Avoid> NotYet(std::vector<policy::Avoid> avoid, TimePoint now);

/// The time until the first of the pauses is over; 0: there is none.
TimePoint SecondsLeft(std::span<const policy::Avoid> avoid, TimePoint now);

class Refusals {
 public:
  /// After its kubelet rejected a pod, a node is not used for pods of that shape until `again`, and
  /// only as the last resort until `until`.
  struct Pause {
    TimePoint again = 0;
    TimePoint until = 0;
  };

  /// kube-scheduler refused the node to `workload`.
  void Refused(const cluster::Workload& workload, policy::Avoid avoid) {
    refused_[&workload].push_back(std::move(avoid));
  }
  /// A kubelet rejected a pod of the shape. When there are very many pairs, the oldest is
  /// forgotten.
  Pause Rejected(const std::shared_ptr<const cluster::PodShape>& shape, cluster::NodeIndex node,
                 TimePoint now);
  /// A pod of the shape that was bound at `bound_at` runs there.
  void Succeeded(const cluster::PodShape& shape, cluster::NodeIndex node, TimePoint bound_at);

  /// Returns whether a refusal of `workload` has expired.
  bool Expire(const cluster::Workload& workload, TimePoint now);
  void ExpireRejections(TimePoint now);
  /// Call when the node's devices or conditions have changed, or the node is gone.
  void ForgetNode(cluster::NodeIndex node);
  void ForgetWorkload(const cluster::Workload& workload) { refused_.erase(&workload); }
  void Clear();

  /// Where members of these shapes are not to be tried: nodes that kube-scheduler refused to this
  /// workload, and nodes whose kubelet rejected such a shape from any workload.
  std::vector<policy::Avoid> Of(const cluster::Workload& workload,
                                std::span<const cluster::PodInfo* const> pods) const;
  /// The node's kubelet rejected the shape, and the node is still the last resort for it.
  bool WasRejected(const cluster::PodShape& shape, cluster::NodeIndex node) const;

 private:
  struct Rejection {
    std::shared_ptr<const cluster::PodShape> shape;
    cluster::NodeIndex node = cluster::kNoNode;
    int times = 0;        ///< Rejections in a row.
    TimePoint since = 0;  ///< When the last one arrived.
    Pause pause;

    bool Is(const cluster::PodShape& of, cluster::NodeIndex on) const {
      return shape.get() == &of && node == on;
    }
  };

  /// Workloads with at least one refusal, and some that had one.
  std::unordered_map<const cluster::Workload*, std::vector<policy::Avoid>> refused_;
  std::vector<Rejection> rejected_;
};

}  // namespace berth::engine
