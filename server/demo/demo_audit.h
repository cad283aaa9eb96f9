// What the demo checks independently, from the pods only and without asking the engine: no device
// is given twice, no gang runs in part, no queue exceeds its limit.
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
  std::string gang;  ///< Empty: none.
  int min_member = 1;
  std::int64_t gpus = 0;
  bool whole_node = false;
};

/// Thread-safe.
class Auditor {
 public:
  void AddNode(const std::string& name, std::int64_t gpus);
  void AddQueue(const std::string& name, std::int64_t limit_gpus);
  void AddPod(AuditedPod pod);

  /// The scheduler is about to call bind: the pod waits at the barrier from now on.
  void OnBindCall(const std::string& uid);
  /// The pod is on the node. Repeating it changes nothing.
  void OnBound(const std::string& uid, const std::string& node);
  /// The pod is gone, and its devices are free.
  void OnGone(const std::string& uid);

  /// Gangs with some, but too few bound members. Empty unless binds are under way.
  std::vector<std::string> PartlyBound() const;
  std::vector<std::string> violations() const;
  int binds() const;
  int gangs_started() const;

 private:
  struct Pod {
    AuditedPod facts;
    std::string node;
    bool called = false;
  };
  struct NodeUse {
    std::int64_t gpus = 0;
    std::set<std::string> pods;
  };
  struct QueueUse {
    std::optional<std::int64_t> limit;
    std::int64_t used = 0;
  };
  void CheckNode(const std::string& node);
  void CheckGang(const std::string& gang);
  std::int64_t Charge(const Pod& pod) const;

  mutable std::mutex mutex_;
  std::map<std::string, NodeUse> nodes_;
  std::map<std::string, QueueUse> queues_;
  std::map<std::string, Pod> pods_;
  std::map<std::string, std::set<std::string>> gangs_;  ///< The members that exist, by UID.
  std::set<std::string> started_;
  std::vector<std::string> violations_;
  int binds_ = 0;
};

}  // namespace berth::server
