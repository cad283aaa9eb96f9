#include "sim/world/world.h"

#include "cluster/plan_claim.h"

namespace berth::sim {
namespace {

constexpr const char* kGpu = "nvidia.com/gpu";
/// Longer than any pause: ten minutes after failed plans, five in the unschedulable pool.
constexpr Duration kQuiet = 1'200'000;
/// A run that is not quiet by then never will be.
constexpr Duration kLongest = 6 * 3'600'000;
constexpr std::uint64_t kMostSteps = 2'000'000;

engine::PodRef RefOf(const kube::Pod& pod) {
  return {.ns = pod.meta.ns, .name = pod.meta.name, .uid = pod.meta.uid};
}

}  // namespace

World::World(const Scenario& scenario, std::size_t trace_lines)
    : scenario_(scenario),
      env_(scenario.seed, scenario.start, trace_lines),
      wire_(env_, scenario.http_timeout),
      checker_(env_),
      controllers_(env_, scenario.jobs) {
  env_.api.on_bound = [this](const kube::Pod& pod) { checker_.OnBound(pod); };
  wire_.on_bind = [this](const std::string& uid) { checker_.OnBindCall(uid); };
  env_.api.PutPolicy(scenario.policy);
  for (const kube::Node& node : scenario.nodes) env_.api.PutNode(node);
  StartBerth();
  StartScheduler();
  for (const Fault& fault : scenario.faults) {
    env_.timeline.At(fault.at, [this, &fault] {
      if (!calm_) Happen(fault);
    });
  }
}

RunResult World::Run() {
  if (RunUntil(scenario_.faults_end)) {
    Calm();
    Settle();
    if (checker_.violation().empty()) Empty();
  }
  RunResult result{.violation = checker_.violation(),
                   .at = env_.now(),
                   .steps = env_.timeline.steps(),
                   .hash = env_.trace.hash(),
                   .bound = checker_.bound(),
                   .crashes = crashes_,
                   .filters = wire_.filters(),
                   .last_events = {env_.trace.last().begin(), env_.trace.last().end()}};
  return result;
}

/// False: an invariant is broken.
bool World::RunUntil(TimePoint end) {
  while (!env_.timeline.empty() && env_.timeline.next() <= end) {
    env_.timeline.Step();
    checker_.AfterStep(berth_.get());
    if (!checker_.violation().empty()) return false;
  }
  if (!env_.timeline.empty() && env_.timeline.next() <= end) return false;
  env_.timeline.At(end, [] {});
  env_.timeline.Step();
  return true;
}

/// Until all pods have run, or nothing has moved for longer than any pause.
void World::Settle() {
  if (!RunUntil(env_.now() + 60'000)) return;
  while (!env_.api.pods().empty() || !controllers_.Quiet()) {
    if (!RunUntil(env_.now() + 5'000)) return;
    if (controllers_.Quiet() && AtRest()) break;
    const TimePoint last = std::max(checker_.last_bound(), scenario_.faults_end);
    if (controllers_.Quiet() && env_.now() > last + kQuiet) break;
    if (env_.now() > scenario_.faults_end + kLongest || env_.timeline.steps() > kMostSteps) {
      checker_.Stop(fmt::format("I10: no rest after {} steps", env_.timeline.steps()));
      return;
    }
  }
  if (berth_ == nullptr || !berth_->ready()) return checker_.Stop("Berth never came up");
  checker_.WhenQuiet(*berth_);
}

/// Nothing is held, nothing is under way, nobody could run: time alone changes nothing any more.
bool World::AtRest() const {
  return berth_ != nullptr && berth_->Idle() && berth_->engine().PlanCounts() == std::pair(0, 0) &&
         checker_.WhoCouldRun().empty();
}

void World::Empty() {
  std::vector<engine::PodRef> all;
  for (const auto& [key, pod] : env_.api.pods()) all.push_back(RefOf(*pod));
  controllers_.Stop();
  for (const engine::PodRef& ref : all) env_.api.RemovePod(ref);
  if (RunUntil(env_.now() + 60'000)) checker_.WhenEmpty(*berth_);
}

// --- Processes -----------------------------------------------------------------------------------

void World::StartBerth() {
  env_.trace.Say("berth starts");
  checker_.OnBerthStarted();
  berth_ = std::make_unique<BerthHost>(env_, fmt::format("b{}", ++berths_));
  wire_.Listen(berth_.get());
}

void World::CrashBerth(Duration down) {
  if (berth_ == nullptr) return;
  env_.trace.Say("berth crashes");
  ++crashes_;
  berth_.reset();
  wire_.Listen(nullptr);
  env_.timeline.After(down, [this] { StartBerth(); });
}

void World::StartScheduler() {
  wire_.HangUp();
  scheduler_ = std::make_unique<Scheduler>(env_, scenario_.scheduler, wire_);
  scheduler_->on_preemption = [this](const kube::Pod& pod, const std::string& node,
                                     const std::vector<const kube::Pod*>& victims) {
    checker_.OnPreemption(pod, node, victims);
  };
}

// --- Faults --------------------------------------------------------------------------------------

void World::Calm() {
  env_.trace.Say("--- all trouble ends");
  calm_ = true;
  env_.weather.Clear();
  for (const kube::Node& node : scenario_.nodes) env_.api.PutNode(node);
  env_.api.PutPolicy(scenario_.policy);
  std::vector<engine::PodRef> forged;
  for (const auto& [key, pod] : env_.api.pods()) {
    if (pod->meta.name.starts_with("forged-")) forged.push_back(RefOf(*pod));
  }
  for (const engine::PodRef& ref : forged) env_.api.RemovePod(ref);
}

void World::Happen(const Fault& fault) {
  env_.trace.Say("fault: {}", fault.ToString());
  checker_.OnFault(fault);
  env_.weather.Begin(fault);
  switch (fault.kind) {
    case FaultKind::kWatchBreak:
    case FaultKind::kWatchExpire:
    case FaultKind::kWatchSlow:
    case FaultKind::kWatchDuplicate:
      return HappenToStream(fault);
    case FaultKind::kBerthCrash:
      return CrashBerth(1'000 + static_cast<Duration>(fault.choice % 5'000));
    case FaultKind::kSchedulerRestart:
      env_.trace.Say("scheduler restarts");
      return StartScheduler();
    case FaultKind::kNodeCordon:
    case FaultKind::kNodeTaint:
    case FaultKind::kNodeDelete:
    case FaultKind::kDeviceHealth:
      return HappenToNode(fault);
    case FaultKind::kPodDelete:
    case FaultKind::kForgeClaim:
    case FaultKind::kForgeNomination:
    case FaultKind::kForgeGate:
    case FaultKind::kForgeMember:
      return HappenToPod(fault);
    case FaultKind::kPolicyEdit:
      return EditPolicy(fault);
    default:
      return;  // the weather's
  }
}

void World::HappenToStream(const Fault& fault) {
  const Kind kind = fault.choice % 3 == 0 ? Kind::kNode : Kind::kPod;
  const bool schedulers = fault.choice / 3 % 3 == 0;
  if (!schedulers && berth_ == nullptr) return;
  WatchStream& stream = schedulers ? scheduler_->stream(kind) : berth_->stream(kind);
  const TimePoint end = env_.now() + fault.lasts;
  switch (fault.kind) {
    case FaultKind::kWatchSlow:
      return stream.SlowDown(std::min<Duration>(fault.lasts, 5'000), end);
    case FaultKind::kWatchDuplicate:
      return stream.Duplicate(end);
    default:
      return stream.Break(std::min<Duration>(fault.lasts, 10'000),
                          fault.kind == FaultKind::kWatchExpire);
  }
}

void World::HappenToNode(const Fault& fault) {
  const kube::Node& whole = scenario_.nodes[fault.choice % scenario_.nodes.size()];
  const std::string name = whole.meta.name;
  if (!env_.api.nodes().contains(name)) return;
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
    if (gpus == hurt.allocatable.end()) return;
    gpus->second = static_cast<std::int64_t>(fault.choice / 16 %
                                             static_cast<std::uint64_t>(gpus->second / 1'000 + 1)) *
                   1'000;
  }
  if (fault.kind == FaultKind::kNodeDelete) {
    env_.api.DeleteNode(name);
  } else {
    env_.api.PutNode(hurt);
  }
  env_.timeline.After(fault.lasts, [this, &whole] {
    if (!calm_) env_.api.PutNode(whole);
  });
}

/// Some pod; with `unbound` one that waits. Null: there is none.
const kube::Pod* World::Pick(std::uint64_t choice, bool unbound) const {
  std::vector<const kube::Pod*> pods;
  for (const auto& [key, pod] : env_.api.pods()) {
    if (!unbound || pod->node_name.empty()) pods.push_back(pod.get());
  }
  return pods.empty() ? nullptr : pods[choice % pods.size()];
}

void World::HappenToPod(const Fault& fault) {
  const kube::Pod* pod = Pick(fault.choice, fault.kind != FaultKind::kPodDelete);
  if (pod == nullptr) return;
  const engine::PodRef ref = RefOf(*pod);
  const std::string node = scenario_.nodes[fault.choice / 64 % scenario_.nodes.size()].meta.name;
  if (fault.kind == FaultKind::kPodDelete) {
    env_.api.DeletePod(ref);
  } else if (fault.kind == FaultKind::kForgeNomination) {
    env_.api.Nominate(ref, node);
  } else if (fault.kind == FaultKind::kForgeGate) {
    env_.api.Patch(ref, [](kube::Pod& p) {
      return std::erase(p.scheduling_gates, cluster::kAdmissionGate) > 0;
    });
  } else if (fault.kind == FaultKind::kForgeClaim) {
    // The very plan that a running member of the gang carries, where there is one, for a room of
    // choice: now and then that member's own.
    std::optional<cluster::PlanClaim> real;
    const auto gang = pod->meta.labels.find("berth.dev/gang");
    for (const auto& [key, mate] : env_.api.pods()) {
      const auto label = mate->meta.labels.find("berth.dev/gang");
      const auto text = mate->meta.annotations.find(cluster::kPlanAnnotation);
      const bool same = gang != pod->meta.labels.end() && label != mate->meta.labels.end() &&
                        label->second == gang->second;
      if (same && !mate->node_name.empty() && text != mate->meta.annotations.end()) {
        real = cluster::DecodePlanClaim(text->second);
      }
    }
    const std::string room = real && fault.choice % 3 == 0 ? real->node : node;
    // Where no Binding of ours follows, a forged queue is believed after a restart, as long as it
    // admits the namespace: known, see docs/fault-search.md.
    const auto label = pod->meta.labels.find("berth.dev/queue");
    const std::string own = label == pod->meta.labels.end() ? "default" : label->second;
    const bool managed = pod->spec->requests.contains(kGpu);
    const cluster::PlanClaim claim{.plan = real ? real->plan : "b1-1",
                                   .node = room,
                                   .queue = managed && fault.choice % 2 == 0 ? "a" : own,
                                   .rank = static_cast<int>(fault.choice / 2 % 5)};
    env_.api.Patch(ref, [&claim](kube::Pod& p) {
      p.meta.annotations[std::string(cluster::kPlanAnnotation)] = cluster::EncodePlanClaim(claim);
      return true;
    });
  } else {
    kube::Pod forged = *pod;
    forged.meta.name = fmt::format("forged-{}", fault.choice);
    forged.meta.annotations["berth.dev/gang-size"] = fmt::format("{}", 9);
    forged.meta.annotations["berth.dev/gang-min-member"] = fmt::format("{}", 1 + fault.choice % 9);
    forged.nominated_node.clear();
    forged.pod_scheduled.reset();
    env_.api.CreatePod(std::move(forged));
  }
}

void World::EditPolicy(const Fault& fault) {
  config::PolicyConfiguration policy = scenario_.policy;
  const auto amount = static_cast<std::int64_t>(1 + fault.choice / 8 % 20) * 1'000;
  switch (fault.choice % 4) {
    case 0:
      policy.queues[0].limit[kGpu] = amount;
      break;
    case 1:
      policy.queues[1].limit[kGpu] = amount;
      break;
    case 2:
      policy.gang.bind_timeout = std::chrono::milliseconds(amount);
      break;
    default:
      policy.gang.plan_timeout = std::chrono::milliseconds(5'000 + amount);
      policy.gang.max_standing = 2;
  }
  env_.api.PutPolicy(policy);
  env_.timeline.After(fault.lasts, [this] {
    if (!calm_) env_.api.PutPolicy(scenario_.policy);
  });
}

}  // namespace berth::sim
