// What the demo checks independently, from the pods only and without asking the engine: no device
// is given twice, no gang runs in part, no queue exceeds its limit, and nobody is evicted for equal
// priority in the own queue, or for another queue without having borrowed.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace berth::server {

/// What the auditor must know of a pod before it is bound.
struct AuditedPod {
  std::string uid;
  std::string queue;
  std::string workload{};  ///< Its job, as eviction marks name it.
  std::string gang;        ///< Empty: none.
  int min_member = 1;
  std::int32_t priority = 0;
  std::int64_t gpus = 0;
  bool whole_node = false;
};

/// What the auditor must know of a queue.
struct AuditedQueue {
  std::int64_t quota = 0;
  std::int64_t limit = 0;
};

/// Thread-safe.
class Auditor {
 public:
  /// `gpus`: devices of the node.
  void AddNode(const std::string& name, std::int64_t gpus);
  /// In GPUs.
  void AddQueue(const std::string& name, AuditedQueue amounts);
  void AddPod(AuditedPod pod);

  /// The scheduler is about to call bind: the pod waits at the barrier from now on.
  void OnBindCall(const std::string& uid);
  /// The pod is on the node. Repeating it changes nothing.
  void OnBound(const std::string& uid, const std::string& node);
  /// The pod is about to go because it was evicted for that workload.
  void OnEvicted(const std::string& uid, const std::string& workload);
  /// The pod is gone, and its devices are free.
  void OnGone(const std::string& uid);

  /// Gangs with some, but too few bound members. Empty unless binds are under way.
  std::vector<std::string> PartlyBound() const;
  /// What was wrong, in sentences; empty: nothing.
  std::vector<std::string> violations() const;
  int binds() const;
  int evicted() const;  ///< Pods.
  int gangs_started() const;

 private:
  struct Pod {
    AuditedPod facts;
    std::string node;
    bool called = false;
    int called_at = 0;  ///< When; see `moment_`.
  };
  struct NodeUse {
    std::int64_t gpus = 0;
    std::set<std::string> pods;
  };
  struct QueueUse {
    std::optional<AuditedQueue> amounts;
    std::int64_t used = 0;
    /// With those whose bind was called, which the service may know to be bound already.
    std::int64_t claimed = 0;
    std::map<int, std::int64_t> history{};  ///< `claimed` from each moment on.
  };
  /// The first sight of a job.
  struct Job {
    std::string queue;
    std::int32_t priority = 0;
    int since = 0;
  };
  void CheckNode(const std::string& node);
  void CheckGang(const std::string& gang);
  std::int64_t Charge(const Pod& pod) const;
  std::int64_t Claimed(const Pod& pod) const;
  void AddClaimed(const std::string& queue, std::int64_t gpus);
  std::int64_t MostClaimed(const std::string& queue, int since) const;

  mutable std::mutex mutex_;
  std::map<std::string, NodeUse> nodes_;
  std::map<std::string, QueueUse> queues_;
  std::map<std::string, Pod> pods_;
  std::map<std::string, Job> jobs_;                     ///< By workload; those that are gone, too.
  std::map<std::string, std::set<std::string>> gangs_;  ///< The members that exist, by UID.
  std::set<std::string> started_;
  std::vector<std::string> violations_;
  int binds_ = 0;
  int evicted_ = 0;
  int moment_ = 0;  ///< Counts what the auditor was told.
};

}  // namespace berth::server
