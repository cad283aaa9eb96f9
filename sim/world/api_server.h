// A model of kube-apiserver: objects, their resource versions, and a history per kind that watches
// read. A write takes effect at once, and either completely or not at all. What a network adds
// (delay, loss, refusals) is modelled in api_client.h and watch.h.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "config/policy_configuration.h"
#include "engine/actions.h"
#include "kube/decode.h"
#include "kube/objects.h"
#include "kube/requests.h"
#include "sim/world/event_log.h"
#include "sim/world/timeline.h"

namespace berth::sim {

/// The kinds of objects that are watched; each has a journal of its own.
enum class Kind : std::uint8_t { kNode, kPod, kPolicy, kBudget };
inline constexpr int kKinds = 4;
/// As it stands in messages, for example `pods`.
std::string_view Name(Kind kind);

/// One event of a watch: the current object, or its last state if it was deleted.
struct Change {
  std::string key;  ///< A node's name; a pod's or a budget's UID.
  bool deleted = false;
  std::shared_ptr<const kube::Node> node{};
  std::shared_ptr<const kube::Pod> pod{};
  std::shared_ptr<const config::PolicyConfiguration> policy{};
  std::shared_ptr<const kube::PodDisruptionBudget> budget{};
};

/// The server's answer to a write or a read.
struct Reply {
  int status = 200;
  std::string message{};
  std::shared_ptr<const kube::Pod> pod{};
  kube::JobList jobs{};  ///< Of a read of Jobs.
  bool ok() const { return status / 100 == 2; }
};

/// Names exactly this pod, not a later pod with the same name.
inline engine::PodRef RefOf(const kube::Pod& pod) {
  return {.ns = pod.meta.ns, .name = pod.meta.name, .uid = pod.meta.uid};
}

/// kube-scheduler's own writes. Two classes implement it: the API server in virtual time, and the
/// cluster of `berth demo` (server/demo/scheduler_driver.h).
class SchedulerWrites {
 public:
  SchedulerWrites() = default;
  SchedulerWrites(const SchedulerWrites&) = delete;
  SchedulerWrites& operator=(const SchedulerWrites&) = delete;
  virtual ~SchedulerWrites() = default;

  virtual Reply DeletePod(const engine::PodRef& ref) = 0;
  virtual Reply Bind(const engine::PodRef& ref, const std::string& node,
                     const std::map<std::string, std::string>& annotations) = 0;
  /// `change` returns false if it changes nothing; then no event follows.
  virtual Reply Patch(const engine::PodRef& ref, const std::function<bool(kube::Pod&)>& change) = 0;
};

/// Keeps the objects of one cluster, and the journals of their changes.
class ApiServer final : public SchedulerWrites {
 public:
  ApiServer(const Timeline& timeline, EventLog& log) : timeline_(timeline), log_(log) {}

  // --- Pods. Every write takes a UID precondition where `uid` is not empty: 409 for another pod of
  // that name (a patch gets 422, see kube::IsOtherUid), 404 for none.
  /// Sets UID, creation timestamp and resource version. 409: the name is taken.
  Reply CreatePod(kube::Pod pod);
  /// Adds or replaces a pod with the UID and the creation timestamp that it has: for a world that
  /// shows the pods of another server. REQUIRES: no other pod has its name.
  void PutPod(kube::Pod pod) { Store(std::move(pod)); }
  /// An unbound pod is removed at once. A bound one gets its deletion timestamp, and RemovePod
  /// removes it later.
  Reply DeletePod(const engine::PodRef& ref) override;
  Reply RemovePod(const engine::PodRef& ref);
  /// The Eviction API: as DeletePod, but 429 if a budget allows no disruption of a bound pod. What
  /// a budget allows is less by one afterwards, until its controller counts again. `dry_run`
  /// changes nothing.
  Reply EvictPod(const engine::PodRef& ref, bool dry_run);
  /// The same by DeletePod, whatever budgets say (eviction.by: delete).
  Reply EvictByDelete(const engine::PodRef& ref, bool dry_run);
  Reply Annotate(const engine::PodRef& ref, const kube::AnnotationPatch& annotations);
  Reply ReadPod(const engine::PodRef& ref) const;
  /// 409: the pod is bound, is being deleted or is gated. Annotations are merged and the node's
  /// name is set in one write.
  Reply Bind(const engine::PodRef& ref, const std::string& node,
             const std::map<std::string, std::string>& annotations) override;
  /// The status patch: sets the nominated node (empty: none), and annotations with it. 422 for a
  /// bound pod.
  Reply Nominate(const engine::PodRef& ref, const std::string& node,
                 const kube::AnnotationPatch& annotations = {});
  Reply RemoveGate(const engine::PodRef& ref, const std::string& gate);
  /// Any other patch.
  Reply Patch(const engine::PodRef& ref, const std::function<bool(kube::Pod&)>& change) override;

  // --- Jobs and JobSets, by ns/name. As for pods, but 409 for another resource version, too.
  void PutJob(kube::JobKind kind, kube::Job job);
  Reply ReadJob(kube::JobKind kind, const std::string& ns, const std::string& name) const;
  /// Those with the label of the JobSet; one at a time, so that callers have to go on.
  Reply ListJobsOfSet(const std::string& ns, const std::string& set, const std::string& from) const;
  /// Likewise one at a time.
  Reply ListJobs(kube::JobKind kind, const std::string& label, const std::string& from) const;
  /// Sets spec.suspend with the label, or resumes without it. The controller of what is suspended
  /// deletes its pods.
  Reply SuspendJob(const kube::JobRef& ref, const std::string& label, bool suspend);
  const std::map<std::string, kube::Job>& jobs(kube::JobKind kind) const {
    return jobs_.at(static_cast<std::size_t>(kind));
  }

  // --- What pods need beside room. All such objects exist, but for those that are said not to.
  void SetMissing(const std::string& ns, const kube::NeededObject& object, bool missing);
  Reply FindNeeded(const std::string& ns, const kube::NeededObject& object) const;
  /// The first object that the pod needs and that does not exist; nullptr: there is none.
  const kube::NeededObject* MissingOf(const kube::Pod& pod) const;

  // --- Nodes, budgets and the policy.
  void PutNode(kube::Node node);
  void DeleteNode(const std::string& name);
  void PutPolicy(config::PolicyConfiguration policy);
  /// Adds or replaces the budget by its UID. Processes that watch budgets do so only if there are
  /// any when they start.
  void PutBudget(kube::PodDisruptionBudget budget);

  const std::map<std::string, std::shared_ptr<const kube::Pod>>& pods() const { return pods_; }
  const std::map<std::string, std::shared_ptr<const kube::Node>>& nodes() const { return nodes_; }
  const config::PolicyConfiguration& policy() const { return *policy_; }
  const std::map<std::string, std::shared_ptr<const kube::PodDisruptionBudget>>& budgets() const {
    return budgets_;
  }
  const kube::Pod* FindPod(const std::string& uid) const;

  // --- Watches.
  /// Positions begin(kind) to end(kind) are remembered; a watch that asks for an older one gets
  /// 410.
  std::size_t begin(Kind kind) const { return journal(kind).begin; }
  std::size_t end(Kind kind) const { return journal(kind).begin + journal(kind).changes.size(); }
  const Change& at(Kind kind, std::size_t position) const {
    return journal(kind).changes[position - journal(kind).begin];
  }
  /// The objects that exist now, in key order.
  std::vector<Change> List(Kind kind) const;
  /// The objects that existed at `position`. REQUIRES: it is end(kind), or begin(kind) is 0.
  std::vector<Change> List(Kind kind, std::size_t position) const;
  /// Calls `watcher` after every change while `alive` exists.
  void Subscribe(Kind kind, std::weak_ptr<const bool> alive, std::function<void()> watcher);

  /// Called when a pod's Binding has taken effect; set for the checker.
  std::function<void(const kube::Pod&)> on_bound;
  /// Called when a Job was suspended or resumed; set for its controller.
  std::function<void(const kube::Job&)> on_job;
  /// Called when an eviction is about to take effect; set for the checker.
  std::function<void(const kube::Pod&)> on_evicted;

 private:
  struct Journal {
    std::deque<Change> changes;
    std::size_t begin = 0;
  };
  const Journal& journal(Kind kind) const { return journals_[static_cast<std::size_t>(kind)]; }
  void Append(Kind kind, Change change);
  std::shared_ptr<const kube::Pod> Find(const engine::PodRef& ref, Reply& reply) const;
  std::shared_ptr<const kube::Pod> FindToPatch(const engine::PodRef& ref, Reply& reply) const;
  struct Watcher {
    std::weak_ptr<const bool> alive;
    std::function<void()> call;
  };

  Reply Store(kube::Pod pod);
  void Erase(const kube::Pod& pod);

  const Timeline& timeline_;
  EventLog& log_;
  std::uint64_t version_ = 0;
  std::uint64_t pods_created_ = 0;
  std::map<std::string, std::shared_ptr<const kube::Pod>> pods_;  ///< By ns/name.
  std::unordered_map<std::string, const kube::Pod*> by_uid_;      ///< The same pods by UID.
  std::map<std::string, std::shared_ptr<const kube::Node>> nodes_;
  std::shared_ptr<const config::PolicyConfiguration> policy_;
  std::map<std::string, std::shared_ptr<const kube::PodDisruptionBudget>> budgets_;
  std::array<std::map<std::string, kube::Job>, 2> jobs_;          ///< By kube::JobKind.
  std::set<std::pair<std::string, kube::NeededObject>> missing_;  ///< With their namespaces.
  std::array<Journal, kKinds> journals_;
  std::array<std::vector<Watcher>, kKinds> watchers_;
};

}  // namespace berth::sim
