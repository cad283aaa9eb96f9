// For an edit of the policy: the work that waits in vain now, and that the edited policy would
// admit. It becomes demand, for which queues may take devices back (policy/edit_exposure.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cluster/queue_directory.h"
#include "config/policy_configuration.h"
#include "engine/engine.h"
#include "policy/edit_exposure.h"

namespace berth::server {

/// The jobs, of the workloads that it visits, that wait and are no demand now, because of a hold, a
/// limit, a user's cap of jobs, or because no queue admits them, and would be under the next
/// policy.
class AdmittedReader {
 public:
  /// `next` must outlive it.
  explicit AdmittedReader(const config::PolicyConfiguration& next);

  void Visit(const engine::Engine& engine, const cluster::Workload& workload);

  /// Appends them, with no queue that they come from. `kinds`: of devices, now; more or fewer may
  /// have been known when workloads were visited.
  void AppendTo(std::vector<policy::Move>& moves, std::size_t kinds) const;

  /// The jobs with non-preemptible pods, of which quotas say whether they are demand.
  const std::vector<policy::QuotaJob>& non_preemptible() const { return non_preemptible_; }

 private:
  void ReadNonPreemptible(const cluster::Store& store, const cluster::Workload& workload,
                          bool placeable);
  std::string_view NameThen(const cluster::PodInfo& pod) const;
  bool StaysNonPreemptible(const cluster::PodInfo& pod) const;
  /// Jobs of one user in a queue that caps them now: those that its cap leaves no place.
  struct Capped {
    std::int64_t most = 0;  ///< The cap of now.
    std::int64_t seen = 0;
    std::vector<policy::JobSize> jobs{};
  };

  const config::Queue* QueueOf(const std::vector<const cluster::PodInfo*>& pods) const;
  bool FitsThen(const cluster::Store& store, const config::Queue& queue,
                const cluster::Amounts& asked) const;
  bool IsHeld(const config::Queue& queue) const;

  const config::PolicyConfiguration* next_;
  cluster::QueueDirectory queues_;
  std::map<std::string, const config::Queue*, std::less<>> by_name_;
  std::map<std::string, std::vector<policy::JobSize>> jobs_;      ///< By queue.
  std::map<std::pair<std::string, std::string>, Capped> capped_;  ///< By queue and user.
  std::vector<policy::QuotaJob> non_preemptible_;
};

}  // namespace berth::server
