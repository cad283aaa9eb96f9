// Where pods are not to be tried for a while: kube-scheduler refused a workload the node, or the
// kubelet of the node rejected a pod of the shape.
#pragma once

#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "cluster/model.h"
#include "policy/placement.h"

namespace berth::engine {

using cluster::TimePoint;

/// Whole seconds, rounded up; 0 if it is over.
TimePoint SecondsUntil(TimePoint then, TimePoint now);

/// Those of `avoid` whose pause is not over.
std::vector<policy::Avoid> NotYet(std::vector<policy::Avoid> avoid, TimePoint now);

/// Until the first of them is over; 0: there is none.
TimePoint SecondsLeft(std::span<const policy::Avoid> avoid, TimePoint now);

class Refusals {
 public:
  /// After its kubelet rejected a pod, a node is left alone until `again`, and is the last resort
  /// until `until`, for pods of that shape.
  struct Pause {
    TimePoint again = 0;
    TimePoint until = 0;
  };

  /// kube-scheduler refused it to `workload`.
  void Refused(const cluster::Workload& workload, policy::Avoid avoid) {
    refused_[&workload].push_back(std::move(avoid));
  }
  /// A kubelet rejected a pod of the shape. Of very many pairs the oldest is forgotten.
  Pause Rejected(const std::shared_ptr<const cluster::PodShape>& shape, cluster::NodeIndex node,
                 TimePoint now);
  /// A pod of the shape that was bound at `bound_at` runs there.
  void Succeeded(const cluster::PodShape& shape, cluster::NodeIndex node, TimePoint bound_at);

  /// Returns whether a refusal of `workload` is over.
  bool Expire(const cluster::Workload& workload, TimePoint now);
  void ExpireRejections(TimePoint now);
  /// The node's devices or conditions have changed, or it is gone.
  void ForgetNode(cluster::NodeIndex node);
  void ForgetWorkload(const cluster::Workload& workload) { refused_.erase(&workload); }
  void Clear();

  /// Where members of these shapes are not to be tried: what kube-scheduler refused this workload,
  /// and what a kubelet rejected of anybody's.
  std::vector<policy::Avoid> Of(const cluster::Workload& workload,
                                std::span<const cluster::PodInfo* const> pods) const;
  /// By its kubelet, and it is the last resort still.
  bool WasRejected(const cluster::PodShape& shape, cluster::NodeIndex node) const;

 private:
  struct Rejection {
    std::shared_ptr<const cluster::PodShape> shape;
    cluster::NodeIndex node = cluster::kNoNode;
    int times = 0;        ///< In a row.
    TimePoint since = 0;  ///< When the last one came.
    Pause pause;

    bool Is(const cluster::PodShape& of, cluster::NodeIndex on) const {
      return shape.get() == &of && node == on;
    }
  };

  /// Workloads with at least one, and some that had one.
  std::unordered_map<const cluster::Workload*, std::vector<policy::Avoid>> refused_;
  std::vector<Rejection> rejected_;
};

}  // namespace berth::engine
