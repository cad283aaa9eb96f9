// One simulated day with faults, as a value: cluster, policy, jobs, faults. It is drawn from a
// seed, and small enough to be reduced piece by piece when it fails.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/policy_configuration.h"
#include "engine/engine.h"
#include "kube/objects.h"
#include "sim/faults/profiles.h"
#include "sim/scheduler/scheduler.h"
#include "sim/world/fidelity.h"
#include "sim/world/pods.h"

namespace berth::sim {

/// A gang, or a lone pod. Amounts are per member.
struct Job {
  std::string name;
  TimePoint at = 0;         ///< When its first member is created.
  Duration stagger = 0;     ///< Time between the creation of members.
  Duration lasts = 60'000;  ///< Time from bound to Succeeded, for each member.
  bool gang = false;
  int size = 1;
  int min = 1;
  int launchers = 0;  ///< This many members, the first ones, ask for no devices.
  int gpus = 0;
  int cpus = 0;
  bool gated = true;
  bool whole_node = false;
  bool replaces = false;  ///< Its controller creates a new pod for one that fails or is deleted.
  bool is_set = false;    ///< That is a JobSet with two Jobs, instead of one Job.
  std::int32_t priority = 0;
  std::string queue{};
  std::string topology_required{};
  std::string topology_preferred{};
  std::string app{};     ///< Label that budgets, affinity and spread select by.
  Duration ends_in = 0;  ///< Time from a pod's deletion until it is gone; 0: drawn, some seconds.

  /// Its pods have a volume of a claim that is created so long after the first of them; 0: none.
  /// Drawn only on calm days and by the profile `mixed`.
  Duration volume_after = 0;
  std::string user{};  ///< Drawn only by the profiles `tree` and `flavors`; empty: no label.

  // Drawn only by the profile `flavors`.
  std::string preemptible{};     ///< The label; empty: none.
  std::string workload_class{};  ///< The same.
  std::string model{};           ///< Of the node that it selects; empty: any.
  Duration expects = 0;          ///< How long it says that it will run; 0: it does not say.

  // The following members are drawn only by the profile `mixed`.
  std::string ns = "default";
  std::string scheduler = "default-scheduler";
  int memory_gib = 0;
  std::string pool{};      ///< Value of the node label that it selects; empty: any.
  bool tolerates = false;  ///< The taint `dedicated`.
  /// Placement relative to pods of its app: never in one domain, only in one domain, or evenly over
  /// all domains.
  enum class Neighbours : std::uint8_t { kAny, kApart, kTogether, kEven };
  Neighbours neighbours = Neighbours::kAny;
  std::string neighbours_by{};  ///< The node label that defines domains.
  std::string ToString() const;
};

/// A PodDisruptionBudget over all pods of one app.
struct Budget {
  std::string app;
  int min_available = 0;
};

kube::PodDisruptionBudget MakeBudget(const Budget& budget);

/// What Job::volume_after is about.
kube::NeededObject VolumeOf(const Job& job);
/// The Pod of member `index`, as its controller creates it.
kube::Pod MakeMember(const Job& job, int index);
/// What creates the members: a batch/v1 Job, or a JobSet, the first, and its two Jobs; empty:
/// nobody does.
std::vector<std::pair<kube::JobKind, kube::Job>> MakeJobs(const Job& job);
/// The name of the Job of member `index`.
std::string JobNameOf(const Job& job, int index);

/// All that determines a run.
struct Day {
  std::uint64_t seed = 0;
  Fidelity fidelity = Fidelity::kScheduler;
  std::vector<kube::Node> nodes;
  config::PolicyConfiguration policy;
  SchedulerOptions scheduler;
  Duration http_timeout = 30'000;
  int replicas = 1;  ///< Replicas of Berth; more than one elect a leader.
  std::vector<Job> jobs;
  std::vector<Budget> budgets{};
  std::vector<Fault> faults;
  bool mixed = false;         ///< See mixed.h.
  bool clocks_drift = false;  ///< The clock of each of Berth's processes is a little fast or slow.
  std::int64_t pass_budget = engine::Options{}.pass_budget;
  TimePoint start = 0;
  TimePoint faults_end = 0;  ///< All faults end here, and everything that fits must run.
};

/// Gives some queues of a day of the profile `tree` other parents, or the top one another limit.
void EditTree(config::PolicyConfiguration& policy, std::uint64_t choice);

/// 4 to 12 nodes, 5 to 30 pods, two minutes of faults of `profile`.
Day DrawDay(std::uint64_t seed, const Profile& profile);

/// 24 hours: this many nodes of 8 GPUs in racks of 16, and this many pods, a third of them in gangs
/// of up to 32 members, that together keep about 80 % of the GPUs busy; some twelve faults an hour.
Day DrawLargeDay(std::uint64_t seed, const Profile& profile, int nodes, int pods);

}  // namespace berth::sim
