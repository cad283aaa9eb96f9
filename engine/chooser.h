// Judges sets of jobs: whether a workload starts once they have ended, and may take their room.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "engine/places.h"
#include "engine/victim_choice.h"
#include "engine/victim_job.h"
#include "policy/node_groups.h"

namespace berth::engine {

/// For one decision: it remembers how many searches there were.
class Chooser {
 public:
  /// Jobs with which a node has room for one more member, once the earlier parts of it have ended.
  struct Part {
    cluster::NodeIndex node;
    Jobs jobs;
    std::int64_t cost;  ///< The devices of these jobs, or of an earlier part if that has more.
  };

  /// Both must outlive it, and the store must not change.
  Chooser(const View& view, const Beneficiary& beneficiary);

  /// How the workload starts once these have ended, with what ends anyway. nullopt: it does not, or
  /// a budget forbids it, or there were too many searches.
  std::optional<Reservation> Start(std::span<const VictimJob* const> jobs);
  /// The same without budgets.
  std::optional<Reservation> Search(std::span<const VictimJob* const> jobs) {
    return Find(jobs, minimum_, kMaxSearches);
  }
  /// The same for a part of a set that is enough: this has searches of its own.
  std::optional<Reservation> SearchPart(std::span<const VictimJob* const> jobs) {
    return Find(jobs, minimum_, kMaxSearches + kMaxSearchesOfParts);
  }
  /// Whether there is room and quota once they have ended, whatever claims other work has to it.
  bool HasRoom(std::span<const VictimJob* const> jobs);
  /// Whether affinity or spread may let it start only if some of the jobs stay.
  bool NeedsCompany() const;
  /// Whether jobs of other queues may be among the jobs that go.
  bool claims() const { return for_.exchange != nullptr; }
  /// There were kMaxSearches searches.
  bool IsUsedUp() const;
  /// There were as many as SearchPart permits.
  bool IsSpent() const;
  /// See policy::Exchange::Straddlers.
  std::optional<int> StraddlersOf(std::span<const VictimJob* const> jobs) const;
  /// The jobs, in that order, that can be taken together without a straddler; with `straddlers`,
  /// after them the jobs that become one. A gang whose surplus cannot go by itself may go whole.
  Jobs Admit(const Jobs& order, bool straddlers) const;
  /// What makes room for one member after the other on each node, for as many as must start: jobs
  /// in that order, with the jobs that must go before them. The part that needs the fewest devices
  /// comes first, and no part comes before an earlier one of its node. On one node alone the jobs
  /// of a part and of the parts before it can be taken together; with `straddlers`, one at each
  /// floor.
  std::vector<Part> Parts(const Jobs& order, bool straddlers);
  /// The nodes inside which the workload must be, if it must: one group for each domain.
  policy::NodeGroups Domains() const;
  /// The jobs of the set that cannot be left out, one by one, as far as counting tells.
  std::set<const VictimJob*> Needed(const Jobs& jobs);
  /// Whether none of them can be left out, as far as counting tells.
  bool NeedsAll(const Jobs& jobs);
  /// The jobs whose eviction some budget forbids together with the jobs before them, and the jobs
  /// that go only after one of these.
  Jobs BreakingBudgets(std::span<const VictimJob* const> jobs) const;

 private:
  /// What the parts of one node are found from.
  struct Given {
    cluster::NodeIndex node;
    bool straddlers;
    bool limited;  ///< By the floors of the queues that lose.
    Jobs jobs;     ///< In their order.
    auto operator<=>(const Given&) const = default;
  };
  /// `floors`: before anything is taken.
  std::vector<Part> PartsOf(const Given& given, std::optional<policy::Floors> floors) const;
  /// `members`: the pods that start where other queues lose, or more is lent than they would lend;
  /// elsewhere all may. `most`: searches in this decision.
  std::optional<Reservation> Find(std::span<const VictimJob* const> jobs,
                                  const std::vector<const cluster::PodInfo*>& members, int most);
  bool ExchangesAmongEquals(std::span<const VictimJob* const> jobs, const Reservation& start);
  /// The same with more members than the minimum, as many as may start at once.
  Reservation WithMoreMembers(std::span<const VictimJob* const> jobs, Reservation reserve);
  Ended EndedWith(std::span<const VictimJob* const> jobs) const;
  const policy::FairShareTable* SharesWithout(const policy::QueueDemands::PodSet& planned);
  std::vector<const cluster::PodInfo*> EndingWith(std::span<const VictimJob* const> jobs) const;
  void NameVictims(Reservation& reserve, std::span<const VictimJob* const> jobs) const;
  bool HasPlaces(std::span<const VictimJob* const> jobs);
  const Places& Counted();
  std::optional<Reservation> SearchRoom(std::span<const VictimJob* const> jobs,
                                        const std::vector<const cluster::PodInfo*>& pods, int most);

  const View& view_;
  const Beneficiary& for_;
  const std::vector<const cluster::PodInfo*> minimum_;
  /// The shape of the members that ask for devices, if they have only one: these members are
  /// counted, and `least_` of them must start. Null: nothing is counted. Members without devices
  /// lack room less often.
  const std::shared_ptr<const cluster::PodShape>* counted_ = nullptr;
  int least_ = 0;
  std::optional<Places> places_{};  ///< Once the pods have ended that end in any case.
  int searches_ = 0;
  /// Orders differ, but on most nodes they do not.
  std::map<Given, std::vector<Part>> parts_;
  std::map<policy::QueueDemands::PodSet, policy::FairShareTable> shares_without_;
};

}  // namespace berth::engine
