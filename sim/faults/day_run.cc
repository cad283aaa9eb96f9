#include "sim/faults/day_run.h"

#include "cluster/plan_claim.h"
#include "sim/faults/kinds_of_work.h"

namespace berth::sim {
namespace {

/// Longer than any pause: ten minutes after failed plans, five minutes in the unschedulable pool.
constexpr Duration kQuiet = 1'200'000;
/// A run that is not quiet after this time, counted from the longest job, never will be.
constexpr Duration kLongest = 6 * 3'600'000;
constexpr std::uint64_t kMostSteps = 2'000'000;

/// Fewer steps than this are no sign of an endless loop.
std::uint64_t MostSteps(const Day& day) {
  std::uint64_t pods = 0;
  for (const Job& job : day.jobs) pods += static_cast<std::uint64_t>(job.size);
  return kMostSteps + 1'000 * pods;
}

Duration LongestJob(const Day& day) {
  Duration longest = 0;
  for (const Job& job : day.jobs) longest = std::max(longest, job.lasts);
  return longest;
}

}  // namespace

DayRun::DayRun(const Day& day, std::size_t log_lines)
    : day_(day),
      env_(day.seed, day.start, log_lines, day.fidelity),
      processes_(env_, day.scheduler, day.http_timeout, day.replicas),
      controllers_(env_, day.jobs, day.budgets) {
  env_.clocks_drift = day.clocks_drift;
  env_.engine_options.pass_budget = day.pass_budget;
  env_.api.PutPolicy(day.policy);
  for (const kube::Node& node : day.nodes) env_.api.PutNode(node);
  env_.api.Subscribe(Kind::kPod, life_.alive(), [this] {
    const Change& change = env_.api.at(Kind::kPod, env_.api.end(Kind::kPod) - 1);
    if (!change.deleted) AfterBinding(*change.pod);
  });
  processes_.StartBerth();
  processes_.StartScheduler();
  for (const Job& job : day.jobs) {
    if (job.volume_after == 0) continue;
    env_.api.SetMissing(job.ns, VolumeOf(job), true);
    env_.timeline.At(job.at + job.volume_after, [this, &job] {
      env_.log.Say("api: claim {}", VolumeOf(job).name);
      env_.api.SetMissing(job.ns, VolumeOf(job), false);
      processes_.scheduler().OnClaimAdded();
    });
  }
  for (const Fault& fault : day.faults) {
    env_.timeline.At(fault.at, [this, &fault] {
      if (!calm_) Inject(fault);
    });
  }
}

RunResult DayRun::Run() {
  if (processes_.RunUntil(day_.faults_end)) {
    Calm();
    Settle();
    if (checker().violation().empty()) Empty();
  }
  RunResult result{.violation = checker().violation(),
                   .at = env_.now(),
                   .steps = env_.timeline.steps(),
                   .hash = env_.log.hash(),
                   .bound = checker().bound(),
                   .crashes = crashes_,
                   .filters = processes_.wire().filters(),
                   .trials = processes_.wire().trials(),
                   .gangs = checker().gangs(),
                   .evictions = checker().evictions(),
                   .evicted = checker().evicted(),
                   .surplus = checker().surplus(),
                   .for_running = checker().for_running(),
                   .terms = checker().terms(),
                   .effects = env_.faults.effects(),
                   .last_events = {env_.log.last().begin(), env_.log.last().end()}};
  return result;
}

/// Runs until all pods have run, or nothing has changed for longer than any pause.
void DayRun::Settle() {
  if (!processes_.RunUntil(env_.now() + 60'000)) return;
  const Duration longest = kLongest + LongestJob(day_);
  const std::uint64_t most = MostSteps(day_);
  // A watch that broke again and again backs off for up to a minute, twice if its version expired.
  const auto caught_up = [this] {
    return processes_.berth() != nullptr && processes_.berth()->CaughtUp();
  };
  while (!env_.api.pods().empty() || !controllers_.Quiet() || !caught_up()) {
    if (!processes_.RunUntil(env_.now() + 5'000)) return;
    if (controllers_.Quiet() && AtRest()) break;
    const TimePoint last = std::max(checker().last_bound(), day_.faults_end);
    if (controllers_.Quiet() && env_.now() > last + kQuiet) break;
    if (env_.now() > day_.faults_end + longest || env_.timeline.steps() > most) {
      checker().Stop(fmt::format("I10: no rest after {} steps", env_.timeline.steps()));
      return;
    }
  }
  const HostDriver* berth = processes_.berth();
  if (berth == nullptr || !berth->ready()) return checker().Stop("Berth never came up");
  checker().WhenQuiet(*berth);
}

/// No room is held, nothing is under way and no workload could run: time alone changes nothing
/// more.
bool DayRun::AtRest() const {
  const HostDriver* berth = processes_.berth();
  return berth != nullptr && berth->Idle() && berth->engine().PlanCounts() == std::pair(0, 0) &&
         checker().WhoCouldRun(berth->engine()).empty();
}

void DayRun::Empty() {
  std::vector<engine::PodRef> all;
  for (const auto& [key, pod] : env_.api.pods()) all.push_back(RefOf(*pod));
  controllers_.Stop();
  for (const engine::PodRef& ref : all) env_.api.RemovePod(ref);
  if (processes_.RunUntil(env_.now() + 60'000)) checker().WhenEmpty(*processes_.berth());
}

/// kCrashInGang: acts when one member of a gang is bound and others are not.
void DayRun::AfterBinding(const kube::Pod& bound) {
  const Fault* fault = env_.faults.Find(FaultKind::kCrashInGang);
  const std::string gang = GangOf(bound);
  if (fault == nullptr || fault->at == last_aimed_ || gang.empty() || bound.node_name.empty()) {
    return;
  }
  std::vector<std::shared_ptr<const kube::Pod>> unbound;
  for (const auto& [key, mate] : env_.api.pods()) {
    if (GangOf(*mate) == gang && mate->node_name.empty()) unbound.push_back(mate);
  }
  if (unbound.empty()) return;
  last_aimed_ = fault->at;
  env_.faults.TookEffect(FaultKind::kCrashInGang);
  const std::uint64_t choice = fault->choice;
  env_.timeline.After(static_cast<Duration>(choice % 300), [this, choice, unbound] {
    CrashBerth(1'000 + static_cast<Duration>(choice / 300 % 3'000));
    // On bound pods the annotation is trusted; the admission policy prevents users from writing it.
    const kube::Pod* forger = env_.api.FindPod(unbound[choice / 7 % unbound.size()]->meta.uid);
    if (choice % 2 == 0 && forger != nullptr && forger->node_name.empty()) {
      ForgeClaim(*forger, choice, day_.nodes[choice / 64 % day_.nodes.size()].meta.name);
    }
  });
}

bool DayRun::CrashBerth(Duration down) {
  if (processes_.berth() == nullptr) return false;
  ++crashes_;
  processes_.KillBerth();
  env_.timeline.After(down, [this] { processes_.StartBerth(); });
  return true;
}

bool DayRun::EndBerth(Duration down) {
  return processes_.StopBerth(
      [this, down] { env_.timeline.After(down, [this] { processes_.StartBerth(); }); });
}

// --- Faults --------------------------------------------------------------------------------------

void DayRun::Calm() {
  env_.log.Say("--- all trouble ends");
  calm_ = true;
  env_.faults.Clear();
  for (const kube::Node& node : day_.nodes) env_.api.PutNode(node);
  env_.api.PutPolicy(day_.policy);
  std::vector<engine::PodRef> forged;
  for (const auto& [key, pod] : env_.api.pods()) {
    if (pod->meta.name.starts_with("forged-")) forged.push_back(RefOf(*pod));
  }
  for (const engine::PodRef& ref : forged) env_.api.RemovePod(ref);
}

void DayRun::Inject(const Fault& fault) {
  env_.log.Say("fault: {}", fault.ToString());
  checker().OnFault(fault);
  env_.faults.Begin(fault);
  if (Apply(fault)) env_.faults.TookEffect(fault.kind);
}

/// False: there was nothing to hit, or the fault lasts and affects later events.
bool DayRun::Apply(const Fault& fault) {
  switch (fault.kind) {
    case FaultKind::kWatchBreak:
    case FaultKind::kWatchExpire:
    case FaultKind::kWatchSlow:
    case FaultKind::kWatchDuplicate:
      return HitStream(fault);
    case FaultKind::kWatchOutage:
      return WatchOutage(fault);
    case FaultKind::kLeaseStolen:
      return processes_.lease().Steal();
    case FaultKind::kLeaseDeleted:
      return processes_.lease().Delete();
    case FaultKind::kBerthCrash:
      return CrashBerth(1'000 + static_cast<Duration>(fault.choice % 5'000));
    case FaultKind::kBerthEnds:
      return EndBerth(static_cast<Duration>(fault.choice % 5'000));
    case FaultKind::kSchedulerRestart:
      env_.log.Say("scheduler restarts");
      processes_.StartScheduler();
      return true;
    case FaultKind::kNodeCordon:
    case FaultKind::kNodeTaint:
    case FaultKind::kNodeDelete:
    case FaultKind::kDeviceHealth:
      return HitNode(fault);
    case FaultKind::kPodDelete:
    case FaultKind::kForgeClaim:
    case FaultKind::kForgeNomination:
    case FaultKind::kForgeGate:
    case FaultKind::kForgeMember:
      return HitPod(fault);
    case FaultKind::kPolicyEdit:
      EditPolicy(fault);
      return true;
    case FaultKind::kPassthrough:
    case FaultKind::kQueuesChange:
    case FaultKind::kTreeEdit:
    case FaultKind::kFlavorEdit:
      ChangeQueues(fault);
      return true;
    case FaultKind::kFreeze:
      FreezeBerth(fault);
      return false;
    case FaultKind::kClockJump:
      env_.clock_skew = static_cast<Duration>(fault.choice % 1'200'000) - 600'000;
      return false;
    default:
      return false;
  }
}

bool DayRun::WatchOutage(const Fault& fault) {
  HostDriver* const host = processes_.AnyBerth(fault.choice);
  if (host == nullptr) return false;
  host->stream(Kind::kPod).Break(fault.lasts, /*expired=*/false);
  return true;
}

/// Often for longer than a term.
void DayRun::FreezeBerth(const Fault& fault) {
  HostDriver* const host = processes_.AnyBerth(fault.choice);
  if (host == nullptr) return;
  const Duration time = fault.lasts + (fault.choice / 4 % 3 == 0 ? 12'000 : 0);
  if (fault.choice % 2 == 0) return host->FreezeBeforeSending(time);
  env_.faults.TookEffect(FaultKind::kFreeze);
  host->Freeze(time);
}

bool DayRun::HitStream(const Fault& fault) {
  const bool budgets = !day_.budgets.empty() && fault.choice / 9 % 3 == 0;
  const Kind other = budgets ? Kind::kBudget : Kind::kPod;
  const Kind kind = fault.choice % 3 == 0 ? Kind::kNode : other;
  const bool schedulers = fault.choice / 3 % 3 == 0;
  HostDriver* const host = processes_.AnyBerth(fault.choice);
  if (!schedulers && host == nullptr) return false;
  WatchStream& stream = schedulers ? processes_.scheduler().stream(kind) : host->stream(kind);
  const TimePoint end = env_.now() + fault.lasts;
  switch (fault.kind) {
    case FaultKind::kWatchSlow:
      stream.SlowDown(std::min<Duration>(fault.lasts, 5'000), end);
      break;
    case FaultKind::kWatchDuplicate:
      stream.Duplicate(end);
      break;
    default:
      stream.Break(std::min<Duration>(fault.lasts, 10'000), fault.kind == FaultKind::kWatchExpire);
  }
  return true;
}

bool DayRun::HitNode(const Fault& fault) {
  const kube::Node& whole = day_.nodes[fault.choice % day_.nodes.size()];
  const std::string name = whole.meta.name;
  if (!env_.api.nodes().contains(name)) return false;
  kube::Node hurt = *env_.api.nodes().at(name);
  if (fault.kind == FaultKind::kNodeCordon) {
    hurt.unschedulable = true;
  } else if (fault.kind == FaultKind::kNodeTaint) {
    hurt.ready = false;
    hurt.taints = {{.key = "node.kubernetes.io/not-ready",
                    .value = {},
                    .effect = kube::TaintEffect::kNoSchedule}};
  } else if (fault.kind == FaultKind::kDeviceHealth) {
    const auto gpus = hurt.allocatable.find(kGpu);
    if (gpus == hurt.allocatable.end()) return false;
    gpus->second = static_cast<std::int64_t>(fault.choice / 16 %
                                             static_cast<std::uint64_t>(gpus->second / 1'000 + 1)) *
                   1'000;
  }
  if (fault.kind == FaultKind::kNodeDelete) {
    env_.api.DeleteNode(name);
  } else {
    env_.api.PutNode(hurt);
  }
  kube::Node back = whole;
  // An autoscaler gives each node a new name.
  if (fault.kind == FaultKind::kNodeDelete && fault.choice / 16 % 2 == 1) {
    back.meta.name = fmt::format("{}-{}", name, env_.now());
    back.meta.labels["kubernetes.io/hostname"] = back.meta.name;
  }
  env_.timeline.After(fault.lasts, [this, back = std::move(back)] {
    if (!calm_) env_.api.PutNode(back);
  });
  return true;
}

/// Some pod; with `unbound` one that waits. Null: there is none.
const kube::Pod* DayRun::Pick(std::uint64_t choice, bool unbound) const {
  std::vector<const kube::Pod*> pods;
  for (const auto& [key, pod] : env_.api.pods()) {
    if (!unbound || pod->node_name.empty()) pods.push_back(pod.get());
  }
  return pods.empty() ? nullptr : pods[choice % pods.size()];
}

bool DayRun::HitPod(const Fault& fault) {
  const kube::Pod* pod = Pick(fault.choice, fault.kind != FaultKind::kPodDelete);
  if (pod == nullptr) return false;
  const engine::PodRef ref = RefOf(*pod);
  const std::string node = day_.nodes[fault.choice / 64 % day_.nodes.size()].meta.name;
  switch (fault.kind) {
    case FaultKind::kPodDelete:
      return env_.api.DeletePod(ref).ok();
    case FaultKind::kForgeNomination:
      return env_.api.Nominate(ref, node).ok();
    case FaultKind::kForgeGate:
      return env_.api.RemoveGate(ref, std::string(cluster::kAdmissionGate)).ok();
    case FaultKind::kForgeClaim:
      ForgeClaim(*pod, fault.choice, node);
      return true;
    default:
      ForgeMember(*pod, fault.choice);
      return true;
  }
}

/// Uses the plan of a running member of the gang, if there is one, for a node that is drawn:
/// sometimes that member's own.
void DayRun::ForgeClaim(const kube::Pod& pod, std::uint64_t choice, const std::string& node) {
  std::optional<cluster::PlanClaim> real;
  const std::string gang = GangOf(pod);
  for (const auto& [key, mate] : env_.api.pods()) {
    const auto text = mate->meta.annotations.find(cluster::kPlanAnnotation);
    const bool same = !gang.empty() && GangOf(*mate) == gang;
    if (same && !mate->node_name.empty() && text != mate->meta.annotations.end()) {
      real = cluster::DecodePlanClaim(text->second);
    }
  }
  const std::string room = real && choice % 3 == 0 ? real->node : node;
  // If no Binding of ours follows, a forged queue is trusted after a restart, as long as it admits
  // the namespace: a known limit, see docs/fault-search.md. Passthrough may bind a pod with such a
  // claim, and does not change the claim.
  const std::string own = QueueByPolicy(pod, day_.policy);
  const bool managed = pod.spec->requests.contains(kGpu) && !day_.mixed;
  const cluster::PlanClaim claim{.plan = real ? real->plan : "b1-1",
                                 .node = room,
                                 .queue = managed && choice % 2 == 0 ? "a" : own,
                                 .rank = static_cast<int>(choice / 2 % 5)};
  env_.api.Patch(RefOf(pod), [&claim](kube::Pod& p) {
    p.meta.annotations[std::string(cluster::kPlanAnnotation)] = cluster::EncodePlanClaim(claim);
    return true;
  });
}

/// Creates another pod in the pod's gang, with a different gang size.
void DayRun::ForgeMember(const kube::Pod& pod, std::uint64_t choice) {
  kube::Pod forged = pod;
  forged.meta.name = fmt::format("forged-{}", choice);
  forged.meta.annotations["berth.dev/gang-size"] = std::string("9");
  forged.meta.annotations["berth.dev/gang-min-member"] = fmt::format("{}", 1 + choice % 9);
  forged.nominated_node.clear();
  forged.pod_scheduled.reset();
  env_.api.CreatePod(std::move(forged));
}

void DayRun::EditPolicy(const Fault& fault) {
  config::PolicyConfiguration policy = day_.policy;
  const auto amount = static_cast<std::int64_t>(1 + fault.choice / 8 % 20) * 1'000;
  const auto plan_timeout = policy.gang.plan_timeout;
  switch (fault.choice % 4) {
    case 0:
      policy.queues[0].limit[kGpu] = amount;
      break;
    case 1:
      policy.queues[1].limit[kGpu] = amount;
      break;
    case 2:
      policy.gang.bind_timeout = std::min(std::chrono::milliseconds(amount), plan_timeout);
      break;
    default:
      policy.gang.plan_timeout =
          std::max(std::chrono::milliseconds(5'000 + amount), policy.gang.bind_timeout);
      policy.gang.max_standing = 2;
  }
  PutPolicy(policy, fault.lasts);
}

void DayRun::ChangeQueues(const Fault& fault) {
  config::PolicyConfiguration policy = day_.policy;
  if (fault.kind == FaultKind::kPassthrough) {
    policy.mode = config::Mode::kPassthrough;
  } else if (fault.kind == FaultKind::kTreeEdit) {
    EditTree(policy, fault.choice);
    EditUsers(policy, fault.choice);
  } else if (fault.kind == FaultKind::kFlavorEdit) {
    EditFlavors(policy, fault.choice);
    EditUsers(policy, fault.choice);
  } else if (fault.choice % 3 < 2) {
    policy.queues.erase(policy.queues.begin() + static_cast<std::ptrdiff_t>(fault.choice % 3));
  } else {
    config::Queue queue{.name = "c", .namespaces = std::vector<std::string>{"*"}};
    queue.limit[kGpu] = static_cast<std::int64_t>(1 + fault.choice / 8 % 16) * 1'000;
    policy.queues.push_back(queue);
  }
  PutPolicy(policy, fault.lasts);
}

/// Sets the policy for `lasts`; then restores the day's own policy.
void DayRun::PutPolicy(config::PolicyConfiguration policy, Duration lasts) {
  for (config::Queue& queue : policy.queues) {  // a policy with more quota than limit is refused
    const auto limit = queue.limit.find(kGpu);
    if (limit == queue.limit.end()) continue;
    for (kube::ResourceList* amounts : {&queue.quota, &queue.lending_limit}) {
      const auto amount = amounts->find(kGpu);
      if (amount != amounts->end()) amount->second = std::min(amount->second, limit->second);
    }
  }
  env_.api.PutPolicy(policy);
  env_.timeline.After(lasts, [this] {
    if (!calm_) env_.api.PutPolicy(day_.policy);
  });
}

}  // namespace berth::sim
