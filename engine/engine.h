// The engine takes cluster events and scheduler calls and returns answers and actions. It owns the
// life of every workload from pending to started (docs/architecture.md). It has no I/O, no clock
// and no threads: the host passes the time and serialises the calls, so that the simulator can run
// the same code in virtual time with identical results.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_set>
#include <vector>

#include "cluster/store.h"
#include "engine/actions.h"
#include "engine/active_queue.h"
#include "engine/counters.h"
#include "engine/drains.h"
#include "engine/ending.h"
#include "engine/evictor.h"
#include "engine/fair_share_cache.h"
#include "engine/input_listener.h"
#include "engine/live_answers.h"
#include "engine/options.h"
#include "engine/parked_binds.h"
#include "engine/plan_ends.h"
#include "engine/queries.h"
#include "engine/refusals.h"
#include "engine/shown_work.h"
#include "engine/timers.h"
#include "engine/wakeups.h"
#include "engine/workload_state.h"
#include "policy/placement.h"

namespace berth::engine {

struct Eviction;
class JobsToSuspend;
struct PreemptorDecision;
struct Reservation;
struct StartDecision;
struct View;

class Engine : private cluster::StoreListener {
 public:
  Engine(config::PolicyConfiguration policy, Options options);
  /// An engine that knows the same cluster as `other` but none of its plans and decisions, like a
  /// new process that has just processed its first lists. `options` needs another
  /// Options::instance.
  static std::unique_ptr<Engine> WithClusterOf(const Engine& other, Options options, TimePoint now);
  /// This listener receives the inputs from now on, instead of another one; null: none.
  void SetListener(InputListener* listener) { options_.listener = listener; }

  /// About `pods` pods will come before Start: makes the tables large enough for them.
  void Expect(std::size_t pods);

  // --- Cluster events. Before Start they only build state.
  void OnNode(kube::Node node, TimePoint now);
  void OnNodeDeleted(std::string_view name, TimePoint now);
  void OnPod(kube::Pod pod, TimePoint now);
  void OnPodDeleted(std::string_view uid, TimePoint now);
  void OnNamespace(kube::Namespace ns);
  void OnNamespaceDeleted(std::string_view name);
  void OnDisruptionBudget(kube::PodDisruptionBudget budget);
  void OnDisruptionBudgetDeleted(std::string_view uid);
  void OnDialectObject(kube::DialectObject object, TimePoint now);
  void OnDialectObjectDeleted(std::string_view uid, TimePoint now);
  void OnPolicy(config::PolicyConfiguration policy, TimePoint now);
  /// Store::BeginUsage. With fairness.halfLife it orders what waits.
  void BeginUsage(const cluster::UsageRecord& record, TimePoint now);

  /// Call once, when every first list is processed: rebuilds what was under way and begins to
  /// decide.
  void Start(TimePoint now);
  bool started() const { return started_; }

  // --- Scheduler calls. REQUIRES: started().
  FilterAnswer Filter(const FilterQuery& query, TimePoint now);
  /// kNoNode: no node is planned.
  cluster::NodeIndex PlannedNode(std::string_view uid) const;
  BindAnswer Bind(const BindQuery& query, TimePoint now);
  /// The result of a Binding that the engine had the host post; `error` is the API server's
  /// message.
  void BindFinished(std::string_view uid, BindOutcome outcome, TimePoint now,
                    std::string_view error = {});
  /// Call when a pod with an unknown bind outcome was read and given to OnPod.
  void BindSettled(std::string_view uid, TimePoint now);
  /// The caller of a parked bind call has gone; its arrival stays counted. False: the call is no
  /// longer parked, and its ResolveBind (which may say kPost) is among the actions already taken.
  bool BindAbandoned(TicketId ticket);
  VictimMap Preempt(std::string_view uid, const VictimMap& candidates, TimePoint now);

  // --- Evictions that the engine had the host make (EvictPod).
  /// `id`: EvictPod::id. `accepted`: it was done, or would be done, or the pod is gone. For
  /// FindNeeded: `uid` is the key of the object, `dry_run` is true, and `accepted` is false only if
  /// there certainly is no such object.
  void EvictionAnswered(const std::string& workload, const std::string& id, const std::string& uid,
                        bool dry_run, bool accepted, TimePoint now);
  /// Whether the pod is evicted, or about to be, for a plan.
  bool IsVictim(const cluster::PodInfo& pod) const { return !states_.At(pod).victim_of.empty(); }
  /// Whether the plan, or the drain, still needs evictions.
  bool StillEvicts(const std::string& workload, const std::string& id) const;

  // --- Progress.
  /// Fires the timers that are due and judges the workloads that changed, in order, within the
  /// budget of one pass. Call after events and at NextDeadline.
  void Step(TimePoint now);
  /// Whether a pass has left workloads to be judged, or pods to be read, by the next one.
  bool unfinished() const {
    return store_.reading() || ReadsDemand() || sweep_ || more_changed_ || !active_.empty() ||
           active_.opened() || sweep_due_ != SweepOf::kNobody ||
           (claims_due_ && *claims_due_ <= passed_at_) || evictor_.has_spared() ||
           !looks_for_room_.empty() || woken_upto_;
  }
  /// nullopt: nothing is due until the next event. While `unfinished`, it is due at once.
  std::optional<TimePoint> NextDeadline() const;
  std::vector<Action> TakeActions();
  Counters TakeCounters();

  // --- Reads.
  const cluster::Store& store() const { return store_; }
  const WorkloadState& StateOf(const cluster::Workload& workload) const {
    return states_.At(workload);
  }
  /// See min_run_time.h.
  TimePoint OfAgeAt(const cluster::Workload& workload, TimePoint now) const;
  /// It will be judged in this pass or one of the next.
  bool InLine(const cluster::Workload& workload) const { return active_.InLine(workload); }
  /// It was judged without success and is not judged again until an event can help it (which may
  /// have come, and be noticed by the next pass).
  bool Rests(const cluster::Workload& workload) const { return active_.Rests(workload); }
  /// Whether the waiting workload would start if it were judged now with nothing remembered.
  /// Changes nothing but caches.
  bool WouldStart(const cluster::Workload& workload, TimePoint now);
  /// See forecast.h. `line` must not be empty.
  std::vector<TimePoint> ExpectedEnds(const cluster::NodeInfo& node, TimePoint now) const;
  bool HasRoomAt(std::span<const cluster::Workload* const> line, TimePoint at, TimePoint now) const;
  /// What jobs add to the demand of queues that were evicted, and are not there again yet.
  std::vector<policy::QueueJob> AwayDemand() const { return fair_shares_.Away(); }
  /// The fair shares of the last decision that needed them; null: none did yet.
  const policy::FairShareTable* last_fair_shares() const { return fair_shares_.last(); }
  /// For checks: FairShareCache::Holds.
  bool FairSharesHold() const { return fair_shares_.Holds(); }
  /// As of now. Changes nothing but what is remembered of them.
  const policy::FairShareTable& FairShares(TimePoint now) { return fair_shares_.Now(now); }
  /// The plan of the pod's workload, or null if it has none. The pod may have no place in the plan.
  const Plan* PlanOf(const cluster::PodInfo& pod) const;
  MemberPhase PhaseOfMember(const cluster::PodInfo& pod) const {
    return MemberPhaseOf(pod, FindAssignment(pod));
  }
  Explanation Why(std::string_view ns, std::string_view name, TimePoint now) const;
  std::size_t parked_binds() const { return parked_.size(); }
  /// The number of plans that have not started, and of started ones with members that are not bound
  /// yet.
  std::pair<int, int> PlanCounts() const;

 private:
  enum class SweepOf : std::uint8_t { kNobody, kAwake, kAll };
  /// Puts all open workloads, or all awake ones, in line to be judged, a part in each pass.
  /// Workloads up to the key `after` have been put in line.
  struct Sweep {
    bool all = false;
    std::string after;
  };

  using Shapes = std::set<const cluster::PodShape*>;

  // cluster::StoreListener
  void OnMemberLeft(const cluster::Workload& workload, const cluster::PodInfo& pod) override;
  void OnNewIncarnation(const cluster::Workload& workload) override;
  void OnWorkloadGone(const cluster::Workload& workload) override;
  void OnPodGone(const cluster::PodInfo& pod) override;

  /// How long evicted jobs are demand before they are there again: a controller makes its pods
  /// again, or a suspended Job is resumed, at most so much later; a pod without one is made by
  /// hand, or not at all.
  static constexpr TimePoint kMadeAgainIn = 600'000;
  static constexpr TimePoint kMadeAgainByHandIn = 60'000;
  bool IsEvictedWhole(const cluster::Workload& workload, const cluster::PodInfo& pod) const;
  bool IsVictimOfScheduler(const cluster::PodInfo& pod) const;

  // passes.cc
  void PlanPass(const cluster::PodInfo* caller, TimePoint now);
  void OrderLine();
  bool RefreshScores();
  bool WakeClaimants(TimePoint now);
  void BudgetsPermitMore();
  void RenewPastUse(TimePoint now);
  void ReadMore(TimePoint now);
  std::size_t MostInLine() const;
  /// Whether nothing has changed that claims depend on since WakeClaimants.
  bool ClaimsAreSeen() const {
    return claims_seen_ == std::pair(store_.generation(), store_.policy_generation());
  }
  /// Whether fair shares may be needed, and some workload's demand was not read yet.
  bool ReadsDemand() const {
    return store_.policy().borrowing && store_.queues().size() > 1 && !fair_shares_.HasRead();
  }
  bool Activate(TimePoint now);
  void MarkNeighbours(const cluster::Store::NeighbourNews& news);
  void StartSweep(SweepOf whom);
  bool GoOnSweeping(std::size_t most, std::vector<const cluster::Workload*>& part);
  void PutInLine(std::span<const cluster::Workload* const> workloads, TimePoint now);
  void JudgeNext(const cluster::Workload& workload, const cluster::PodInfo* caller, TimePoint now);
  void ShowToAutoscalers(TimePoint now);

  // planner.cc
  void Judge(const cluster::Workload& workload, const cluster::PodInfo* caller, TimePoint now);
  void JudgeStarted(const cluster::Workload& workload,
                    std::span<const cluster::PodInfo* const> pods, TimePoint now);
  bool OthersAreNext(const cluster::Workload& workload);
  void MakeRoomForMissing(const cluster::Workload& workload,
                          const std::vector<const cluster::PodInfo*>& pods, TimePoint now);
  void JudgePending(const cluster::Workload& workload, std::vector<const cluster::PodInfo*> pods,
                    const cluster::PodInfo* caller, TimePoint now);
  bool MayStart(const cluster::Workload& workload, int& searches, TimePoint now);
  bool PassesOver(const cluster::Workload& workload, TimePoint now);
  bool NeedsPlan(const cluster::Workload& workload) const;
  bool Settles(const cluster::Workload& workload, int have, TimePoint now);
  void SetVerdict(const cluster::Workload& workload, cluster::Verdict verdict);
  void TellFaulty(const cluster::Workload& workload);

  // commit.cc
  View Now(TimePoint now);
  View ViewOf(TimePoint now, std::int64_t& work) const;
  void Commit(const cluster::Workload& workload, const Reservation& decision,
              const cluster::PodInfo* caller, TimePoint now);
  void CommitStart(const cluster::Workload& workload, const Reservation& decision,
                   const cluster::PodInfo* caller, TimePoint now);
  void CommitJoin(const cluster::Workload& workload, const Reservation& decision, TimePoint now);
  void CommitMove(const cluster::Workload& workload, const Reservation& decision,
                  const cluster::PodInfo* caller);
  void CommitRetry(const cluster::Workload& workload, const Reservation& decision, TimePoint now);
  void CommitRecover(const cluster::Workload& workload, const Reservation& decision, TimePoint now);
  void ReleasePlan(const cluster::Workload& workload, const cluster::PodInfo* caller,
                   TimePoint now);
  void ReleaseJoining(const cluster::Workload& workload, TimePoint now);
  Wakeups::Wish WishOf(const cluster::Workload& workload, const cluster::Verdict& denied);
  void CommitRefusal(const cluster::Workload& workload, const StartDecision& decision,
                     const PreemptorDecision& may);
  void Reserve(Assignment& place, const policy::Placed& placed);
  Assignment& AddPlace(const cluster::Workload& workload, const cluster::PodInfo& pod,
                       const Shapes& called);
  void HoldPlace(const cluster::Workload& workload, Assignment& place, TimePoint until);
  void LogPlan(const cluster::Workload& workload, const Reservation& decision,
               const std::string& id);

  // verbs.cc
  FilterAnswer FilterUnknown(const FilterQuery& query, TimePoint now);
  FilterAnswer FilterManaged(const cluster::PodInfo& pod, const FilterQuery& query, TimePoint now);
  void NoteCall(const cluster::PodInfo& pod);
  static bool IsManaged(const cluster::PodInfo& pod, const Shapes& called);
  Shapes CalledShapes(const cluster::Workload& workload) const;
  bool MoveToOffered(const cluster::PodInfo& pod, const FilterQuery& query, TimePoint now);
  void KeepMore(const cluster::PodInfo& pod, const FilterQuery& query, TimePoint now,
                FilterAnswer& answer);
  bool ReplanMember(const cluster::Workload& workload, const cluster::PodInfo& pod,
                    const std::function<bool(cluster::NodeIndex)>& allowed, bool called,
                    TimePoint now);
  bool MoveMembers(const cluster::Workload& workload,
                   const std::vector<const cluster::PodInfo*>& moving,
                   const std::function<bool(cluster::NodeIndex)>& allowed,
                   const cluster::PodInfo& asking, bool called, TimePoint now);
  void RememberRefusal(const cluster::Workload& workload, const cluster::PodInfo& pod,
                       cluster::NodeIndex node, TimePoint now);
  void NoticeRefusal(const cluster::PodInfo& pod, TimePoint now);
  void NoticeRejection(const kube::Pod& object, TimePoint now);
  void NoticeSuccess(const cluster::PodInfo& pod);
  void ForgetRefusals(cluster::NodeIndex node);

  // plans.cc
  Plan& BeginPlan(const cluster::Workload& workload, std::string id);
  void EndPlan(const cluster::Workload& workload);
  void DropPlan(const cluster::Workload& workload);
  int BarrierOf(const cluster::Workload& workload) const;
  void MarkReleased(Assignment& assignment);
  void Release(const cluster::Workload& workload, Assignment& assignment);
  void Ungate(const cluster::PodInfo& pod);
  void Withdraw(const cluster::PodInfo& pod);
  void RecheckPlans(cluster::NodeIndex node);
  bool MustGiveWay(const cluster::PodInfo& pod) const;
  bool CostsTooMuch(const cluster::PodInfo& pod) const;
  void DropFaulty(const cluster::Workload& workload);
  void GiveUpPlace(const cluster::PodInfo& pod, const PlanEnd& end);
  void GiveUpPlaces(const cluster::Workload& workload);
  void LeavePlan(const cluster::PodInfo& pod, const PlanEnd& end);
  void Dissolve(const cluster::Workload& workload, const PlanEnd& end, bool hold, TimePoint now);
  void Pause(const cluster::Workload& workload, TimePoint held, TimePoint now);
  void BeginIncarnation(const cluster::Workload& workload, TimePoint now);

  // barrier.cc
  BindAnswer Park(const cluster::PodInfo& pod, TimePoint now);
  BindAnswer PostNow(const cluster::PodInfo& pod, cluster::NodeIndex node);
  std::map<std::string, std::string> BindingAnnotations(const cluster::PodInfo& pod,
                                                        cluster::NodeIndex node) const;
  bool AdoptAnswer(const cluster::PodInfo& pod, cluster::NodeIndex node, TimePoint now);
  void Arrive(const cluster::Workload& workload, Assignment& assignment, TimePoint now);
  void StartGang(const cluster::Workload& workload, TimePoint now);
  void StartIfComplete(const cluster::Workload& workload, TimePoint now);
  void AfterMemberGone(const std::string& key, bool asked_device, TimePoint now);
  void ResolveTickets(std::string_view uid, ResolveBind::Resolution resolution,
                      const std::string& error);
  void RecheckBarrier(const cluster::Workload& workload, const PlanEnd& end, TimePoint now);
  void PruneBound(const cluster::PodInfo& pod, TimePoint now);
  void BoundAhead(const cluster::Workload& workload, bool as_planned, TimePoint now);
  void SettlePod(std::string_view uid, TimePoint now);
  void LogEnd(const cluster::PodInfo& pod, TimePoint now);
  void ForgetPod(std::string_view uid, TimePoint now);
  bool ComeInTurns(const Plan& plan) const;
  void ReleaseNext(const cluster::Workload& workload);

  // expiry.cc
  void FireTimers(TimePoint now);
  bool IsYetToBeTried(const Plan& plan, TimePoint now) const;
  void ExpireWorkload(const cluster::Workload& workload, TimePoint now);
  void ExpireWaiting(const cluster::Workload& workload, TimePoint now);
  void ExpireStarted(const cluster::Workload& workload, TimePoint now);

  // preempt.cc
  std::optional<Eviction> AnsweredBefore(const cluster::PodInfo& pod,
                                         const VictimMap& candidates) const;
  std::optional<Reservation> DecideOwnEviction(const cluster::PodInfo& pod, TimePoint now);
  std::optional<Eviction> OnOneNode(const Reservation& own, const VictimMap& candidates,
                                    TimePoint now) const;
  VictimMap AnswerOf(Eviction eviction) const;
  void HoldRoomOf(const Eviction& eviction, const cluster::PodInfo& pod, TimePoint now);
  bool VictimsEnd(const Plan& plan) const;
  bool MayCountVictims(const Plan& plan, TimePoint now) const;
  bool AwaitsVictims(const Plan& plan) const;
  bool VictimsInTheWay(const cluster::PodInfo& pod) const;
  bool AwaitsEvictions(const cluster::PodInfo& pod) const;
  void AfterVictimGone(const std::string& uid, cluster::NodeIndex node, TimePoint now);
  void LetPreempt(const cluster::PodInfo& pod);

  // evictions.cc
  void BeginEvictions(const cluster::Workload& workload, const Reservation& decision);
  void SendEvictions(const cluster::Workload& workload);
  void BeginEviction(const cluster::Workload& gang, const cluster::Workload& preemptor);
  void JoinEviction(const cluster::PodInfo& pod);
  bool BacksOff(const cluster::Workload& workload, TimePoint now);
  void ExemptIfEvictedOften(const cluster::Workload& workload);
  void ReleaseFromSpared(TimePoint now);
  void GiveUpPlannedOf(const cluster::Workload& gang);
  void RecheckEvicting(TimePoint now);
  void OrderEviction(const cluster::Workload& workload, const cluster::PodInfo& victim,
                     JobsToSuspend* jobs);
  void GoOnEvicting(const cluster::Workload& workload, TimePoint now);
  bool TakesOthers(const cluster::Workload& workload, TimePoint now);
  void EndEvictions(const cluster::Workload& workload);
  void AnsweredLate(const std::string& key, const std::string& id, const std::string& uid,
                    bool dry_run, bool accepted, TimePoint now);
  void EvictRest(const cluster::Workload& gang, const std::string& work, const std::string& reason,
                 const Evictions& sent);
  void ForgetBegun(const std::string& gang);
  void NoteInVain(const cluster::Workload& workload, const PlanEnd& end);
  std::size_t TakeEvicted(const cluster::Workload& workload);
  void LookForHeirs(const cluster::Workload& workload);
  void LookForHeirsOf(const std::string& victim);
  void AfterLastVictim(const cluster::Workload& workload, TimePoint now);

  // eviction_holds.cc
  void NoteEnd(const cluster::PodInfo& pod, TimePoint now);
  bool PodsEnd(TimePoint now) const;
  bool RoomComes(TimePoint now) const;
  bool WaitsForEnds(const cluster::Workload& workload, TimePoint now);
  bool LeavesRoomThatComes(const cluster::Workload& workload,
                           const std::vector<const cluster::PodInfo*>& pods, TimePoint now);
  bool GivesClaim(const cluster::Workload& workload, const Reservation& start, TimePoint now);
  const cluster::Workload* FindClaimGivenBy(const cluster::Workload& workload,
                                            const Reservation& start, TimePoint now);
  bool FindsRoom(const cluster::Workload& claimant, TimePoint now);
  bool WouldEvict(const cluster::Workload& claimant, const cluster::Workload& workload,
                  const Reservation& start, TimePoint now);
  std::vector<const cluster::Workload*> ClaimantsBeside(const cluster::Workload& workload,
                                                        TimePoint now);
  void EvictNobodyBefore(const cluster::Workload& workload, TimePoint from);
  void LookForNeeded(const cluster::Workload& workload);
  void LacksNeeded(const cluster::Workload& workload, const std::string& key, TimePoint now);
  void RefrainFromEvicting(const cluster::Workload& workload, TimePoint now);

  // eviction_marks.cc
  void NoteMarked();
  std::vector<const cluster::PodInfo*> TakeMarked(const cluster::Workload& workload);
  std::vector<const cluster::Workload*> GangsOf(const std::set<std::string>& uids) const;

  // warnings.cc
  bool Warns(const cluster::Workload& workload, TimePoint now);
  bool CountsOnWarned(const cluster::Workload& workload, TimePoint now);
  TimePoint ToldBefore(const Plan& plan, const cluster::PodInfo& victim) const;
  TimePoint EvictionTimeOf(const Plan& plan, const cluster::PodInfo& victim, TimePoint now) const;
  TimePoint DueOf(const cluster::Workload& workload, TimePoint now) const;
  std::vector<const cluster::PodInfo*> LaterPlacesOn(cluster::NodeIndex node,
                                                     const cluster::Workload& workload) const;
  bool NeedsPodsOfOthers(const cluster::Workload& workload, TimePoint now);
  void LookForRoom();
  void FindRoomForWarned(TimePoint now);

  // recovery.cc
  void Recover(const cluster::Workload& workload, TimePoint now);

  // in_tree.cc
  FilterAnswer FilterInTree(const cluster::PodInfo& pod, const FilterQuery& query, TimePoint now);
  BindAnswer BindInTree(const cluster::PodInfo& pod, cluster::NodeIndex node, TimePoint now);
  void NoteInTreeStart(const cluster::Workload& workload);
  void JudgeInTree(const cluster::Workload& workload, std::span<const cluster::PodInfo* const> pods,
                   TimePoint now);

  // engine.cc
  void TakePod(kube::Pod pod, TimePoint now);
  void TakePolicy(config::PolicyConfiguration policy, TimePoint now);
  void ReadPlanned(TimePoint now);
  void BeginIncarnationIfNoneRuns(const std::string& gang, TimePoint now);
  void BeginIncarnationAfterLaunchers(const cluster::Workload& workload, TimePoint now);
  void RereadIfDue(TimePoint now);
  void ReadAgain(const std::vector<const cluster::PodInfo*>& pods, TimePoint now);
  Assignment* FindAssignment(const cluster::PodInfo& pod);
  const Assignment* FindAssignment(const cluster::PodInfo& pod) const;
  std::string NextPlanId(const cluster::Workload& workload);
  std::string ClaimText(const cluster::Workload& workload, const Assignment& a) const;
  std::string QueueName(cluster::QueueId queue) const;
  bool Passthrough() const;
  InputListener* listener() const { return options_.listener; }

  // why.cc
  cluster::Verdict Current(const cluster::Workload& workload, TimePoint now) const;
  cluster::Verdict OnItsWay(const cluster::Workload& workload, const Assignment& assignment) const;

  Options options_;
  States states_;
  cluster::Store store_;
  mutable policy::Scorer scorer_;  ///< What it remembers changes no answer.
  bool started_ = false;
  std::uint64_t plan_counter_ = 0;

  ActiveQueue active_{store_};
  /// Judged before work that its queue ranks behind: see PassesOver. Null: none is.
  const cluster::Workload* goes_first_ = nullptr;
  Wakeups wakeups_{store_, active_};
  std::optional<Sweep> sweep_;            ///< In progress.
  SweepOf sweep_due_ = SweepOf::kNobody;  ///< Starts when the line is empty.
  bool more_changed_ = false;             ///< Some changed workloads are left for the next pass.
  std::uint64_t swept_free_generation_ = 0;
  std::int64_t spent_ = 0;          ///< In this pass; see Options::pass_budget.
  std::uint64_t scored_under_ = 0;  ///< The store's policy_generation: see RefreshScores.
  TimePoint passed_at_ = 0;         ///< The time of the last pass.
  TimePoint pod_ended_at_ = 0;      ///< See NoteEnd.
  TimePoint room_came_at_ = 0;      ///< The same.
  std::set<const cluster::Workload*, cluster::ByKey> planned_;   ///< Workloads that have a plan.
  std::set<const cluster::Workload*, cluster::ByKey> awaiting_;  ///< Their plans have victims.
  /// By id, the evictions of plans that have ended, until all of them are answered.
  std::map<std::string, Evictions> late_;
  /// By the key of a workload: UIDs of pods that an earlier process evicted for it.
  std::map<std::string, std::set<std::string>> marked_;
  std::set<std::string> looks_for_room_;  ///< Keys of workloads: see LookForRoom.
  Refusals refusals_;

  mutable FairShareCache fair_shares_{store_, scorer_.fit()};
  mutable EndingCache ending_;
  ShownWork shown_{store_, states_};
  std::uint64_t shown_generation_ = 0;  ///< The store's when use was last looked at for it.
  /// Workloads that wait and may come to have a claim on other queues.
  std::set<const cluster::Workload*, cluster::ByKey> claimants_;
  /// The last one that WakeClaimants has looked at, while some are left; nullopt: none are.
  std::optional<std::string> woken_upto_;
  /// Until when work of a queue that is alike and wants as much does not start, because of work of
  /// the queue `to`: see GivesClaim. By queue.
  struct ClaimGiven {
    TimePoint until = 0;
    cluster::Demand wants{};
    std::shared_ptr<const cluster::PodShape> shape{};  ///< Of its first pod.
    std::int32_t priority = 0;
    std::string to{};
  };
  std::map<cluster::QueueId, ClaimGiven> claims_given_;
  /// The store's generation, and that of its policy, when they were last looked at.
  std::pair<std::uint64_t, std::uint64_t> claims_seen_;
  std::optional<TimePoint> claims_due_;  ///< When they are looked at again.
  TimePoint past_use_due_ = 0;           ///< When RenewPastUse is to renew it at the latest.

  std::set<std::string> in_tree_started_;  ///< Keys of in-tree groups below their minimum.

  ParkedBinds parked_;
  LiveAnswers live_answers_;

  std::vector<Action> actions_;
  Counters counters_;
  Timers timers_;
  Evictor evictor_{options_.instance, store_, states_, {actions_, counters_, timers_}};
  Drains drains_{store_, states_, evictor_, actions_,
                 [this](const cluster::Workload& gang) { GiveUpPlannedOf(gang); }};
};

}  // namespace berth::engine
