// Jobs that are suspended instead of having their pods evicted one by one: where all pods of a
// batch/v1 Job end, its controller ends them together, counts no failure towards backoffLimit, and
// begins activeDeadlineSeconds again. Once they are gone the Job is resumed, and its new pods wait
// in line as the pods of an evicted Job do. The same holds for a JobSet, where all pods of all its
// Jobs end: its controller suspends and resumes its Jobs, and would resume one that others suspend.
// Below, "Job" means both. Which Jobs belong to a JobSet is read from their owner; any user can
// write what pods say of it.
//
// A Job is read, its pods are marked for the workload that gets their room, and it is suspended in
// one write with our label. What the label says outlives the process: the next one resumes the Job.
// Without the right to do so, and where a Job cannot be suspended or has other pods that would end
// with it, the pods are evicted as they are without this.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cluster/store.h"
#include "host/orders.h"

namespace berth::host {

/// Orders the reads and writes by which Jobs are suspended and resumed.
class Suspensions {
 public:
  /// What has become of evictions.
  struct Ended {
    std::vector<engine::EvictPod> accepted{};    ///< Their Job is suspended.
    std::vector<engine::EvictPod> one_by_one{};  ///< They are still to be made.
  };

  /// `out` must outlive it.
  explicit Suspensions(Outbox& out) : out_(out) {}

  /// A term begins: reads which Jobs are to be resumed.
  void Start();
  /// Distinguishes the evictions of one Job from the evictions of others.
  /// REQUIRES: the eviction names a Job.
  static std::string KeyOf(const engine::EvictPod& eviction) {
    return eviction.pod.ns + '/' + eviction.job->Key();
  }
  /// Whether Begin may be called for this Job: it is not suspended already, and Jobs can be read.
  /// REQUIRES: the eviction names a Job.
  bool Takes(const engine::EvictPod& eviction, TimePoint now) const;
  /// All evictions of pods of one Job that one plan has ordered together.
  /// REQUIRES: Takes, for each of them.
  void Begin(std::vector<engine::EvictPod> evictions);

  /// Whether this is a read or a write of Suspensions.
  bool Has(Id order) const { return orders_.contains(order); }
  /// Whether it is still to be made. REQUIRES: Has(order).
  bool Wants(Id order, const engine::Engine& engine) const;
  /// REQUIRES: Has(order).
  Ended Finished(Id order, const Result& result, const cluster::Store& store, TimePoint now);
  /// The store has changed: pods may have ended.
  void Observe(const cluster::Store& store, TimePoint now);
  /// Does what is due.
  void Advance(const cluster::Store& store, TimePoint now);
  /// When to call Advance; nullopt: nothing waits for a time.
  std::optional<TimePoint> due() const;

  /// No Job is suspended, or about to be.
  bool empty() const { return jobs_.empty(); }
  /// Forgets everything. Outcomes of orders under way are ignored from here on.
  void Clear();

 private:
  enum class Step : std::uint8_t {
    kReading,   ///< Whether it can be suspended.
    kWaiting,   ///< Until its status counts the pods that have succeeded; then it is read again.
    kCounting,  ///< The Jobs of a JobSet, and what pods they may have.
    kMarking,   ///< Its pods.
    kSuspending,
    kEnding,   ///< Suspended, until its pods are gone.
    kLooking,  ///< Read again, before it is resumed.
    kResuming,
    kResting,  ///< Resuming has failed; tried again later.
  };
  struct Job {
    kube::JobRef ref{};
    Step step = Step::kReading;
    std::vector<engine::EvictPod> evictions{};  ///< Not answered yet.
    int known = 0;                              ///< Pods that are known to end with it.
    std::set<Id> marks{};                       ///< Under way.
    bool marked = true;                         ///< No mark has failed.
    std::int64_t most_pods = 0;                 ///< How many it may have that have not ended.
    std::set<std::string> of_set{};  ///< UIDs of the Jobs of a JobSet, as far as they were read.
    int parts = 0;                   ///< How many parts of their list were asked for.
    bool suspended = false;          ///< With our label, when it was read.
    bool sent = false;               ///< A write that suspends it, which may have been done.
    bool unsure = false;             ///< The outcome of such a write is not known.
    int waits = 0;                   ///< How often it was in kWaiting.
    int attempt = 1;                 ///< Of suspending, later of resuming.
    std::vector<std::string>
        pods{};           ///< UIDs of pods that are to be gone; the last is looked at first.
    TimePoint since = 0;  ///< When it was suspended, as far as is known.
  };
  /// By KeyOf.
  using Jobs = std::map<std::string, Job, std::less<>>;
  /// What is known of all Jobs, or of all JobSets.
  struct Kind {
    int lists_failed = 0;        ///< Since the last that was read.
    bool listed = false;         ///< The list was read in this term.
    TimePoint denied_until = 0;  ///< Berth does not have the right to suspend them.
  };

  static std::string KeyOf(const kube::JobRef& ref) {
    const bool is_set = ref.kind == kube::JobKind::kJobSet;
    return ref.ns + '/' +
           engine::OwningJob{.uid = ref.uid, .set = is_set ? ref.name : std::string()}.Key();
  }
  Kind& kind(kube::JobKind kind) { return kinds_.at(static_cast<std::size_t>(kind)); }
  Id NewOrder(const std::string& key);
  void List(kube::JobKind kind, std::string from);
  void Read(Job& job);
  void Write(Job& job, bool suspend);
  void Count(Job& set, std::string from);
  void Mark(Job& job);
  void Forget(Jobs::iterator at);
  Ended OneByOne(Jobs::iterator at, TimePoint now);
  Ended Suspended(Jobs::iterator at, TimePoint now);
  Ended Suspend(Jobs::iterator at, const cluster::Store& store, TimePoint now);
  Ended WasRead(Jobs::iterator at, const Result& result, const cluster::Store& store,
                TimePoint now);
  Ended WasCounted(Jobs::iterator at, const Result& result, const cluster::Store& store,
                   TimePoint now);
  Ended Proceed(Jobs::iterator at, const cluster::Store& store, TimePoint now);
  Ended WasMarked(Jobs::iterator at, Id mark, const Result& result, const cluster::Store& store,
                  TimePoint now);
  Ended WasSuspended(Jobs::iterator at, const Result& result, TimePoint now);
  void WasLookedAt(Jobs::iterator at, const Result& result, TimePoint now);
  void WasResumed(Jobs::iterator at, const Result& result, TimePoint now);
  void WereListed(kube::JobKind kind, const Result& result, const cluster::Store& store,
                  TimePoint now);
  void Rest(Job& job, TimePoint now);
  static bool HasEnded(Job& job, const cluster::Store& store, TimePoint now);

  Outbox& out_;
  Jobs jobs_;
  std::map<Id, std::string> orders_;  ///< Under way: of which Job, by its key, or ListKey.
  std::set<std::pair<TimePoint, std::string>> timers_;  ///< As orders_.
  std::array<Kind, 2> kinds_{};                         ///< By kube::JobKind.
};

}  // namespace berth::host
