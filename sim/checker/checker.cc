#include "sim/checker/checker.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <set>

#include "cluster/queue_refusal.h"
#include "kube/device_notes.h"
#include "kube/selector.h"

namespace berth::sim {

using cluster::Charge;

namespace {

/// A timer is handled in the planner's next turn.
constexpr Duration kSlack = 1'500;
/// Up to this many nodes, the engine's belief is checked after every step; in larger worlds after
/// every kLookEvery steps. The truth is checked at every Binding in all of them.
constexpr std::size_t kSmallWorld = 50;
constexpr std::uint64_t kLookEvery = 10'000;

/// Both pods make the same claim about their gang.
bool SameGang(const kube::Pod& a, const kube::Pod& b) {
  const auto says = [](const kube::StringMap& map, std::string_view key) {
    const auto it = map.find(key);
    return it == map.end() ? std::string() : it->second;
  };
  return std::ranges::all_of(
             std::array{"berth.dev/gang-size", "berth.dev/gang-min-member",
                        "berth.dev/topology-required", "berth.dev/topology-preferred"},
             [&](const char* key) {
               return says(a.meta.annotations, key) == says(b.meta.annotations, key);
             }) &&
         says(a.meta.labels, "berth.dev/queue") == says(b.meta.labels, "berth.dev/queue");
}

/// Whether the pod's job was evicted so often that it may not borrow any more.
bool IsExempt(const cluster::Store& store, const kube::Pod& pod) {
  const cluster::PodInfo* known = store.FindPod(pod.meta.uid);
  return known != nullptr && known->exempt;
}

}  // namespace

Checker::Checker(Environment& env) : env_(env), usage_(env) {
  env_.api.Subscribe(Kind::kNode, life_.alive(), [this] {
    WatchNode(env_.api.at(Kind::kNode, env_.api.end(Kind::kNode) - 1));
  });
  env_.api.Subscribe(Kind::kPod, life_.alive(), [this] {
    const Change& change = env_.api.at(Kind::kPod, env_.api.end(Kind::kPod) - 1);
    WatchGang(change);
  });
  env_.api.Subscribe(Kind::kPolicy, life_.alive(), [this] { WatchPolicy(env_.api.policy()); });
}

void Checker::Broken(std::string what) {
  if (violation_.empty()) violation_ = std::move(what);
}

// --- What happens in the world -------------------------------------------------------------------

void Checker::OnFault(const Fault& fault) {
  ++faults_;
  if (fault.kind == FaultKind::kSchedulerRestart) scheduler_restarted_ = env_.now();
}

void Checker::OnBound(const kube::Pod& pod) {
  last_bound_ = env_.now();
  ++bound_;
  if (pod.scheduler_name == kOtherScheduler) {
    other_binds_[pod.node_name] = env_.now();
    return;  // Berth did not decide this
  }
  CheckRoom(pod);
  CheckIndices(pod);
  if (env_.now() < passthrough_until_) {
    anywhere_.insert(pod.meta.uid);
    return;  // queues and gangs are not checked
  }
  NoteUse(pod);
  CheckPartlyEvicted();
  CheckQueues(pod);
  CheckBarrier(pod);
}

std::int64_t Checker::GpusOf(const std::string& node) const {
  const auto it = env_.api.nodes().find(node);
  return it == env_.api.nodes().end() ? 0 : AmountOf(it->second->allocatable, kGpu);
}

/// I1: no device is named by two pods of a node.
void Checker::CheckIndices(const kube::Pod& bound) {
  const auto devices = [](const kube::Pod& pod) -> std::vector<int> {
    const auto note = pod.meta.annotations.find(kube::kDevicesAnnotation);
    if (note == pod.meta.annotations.end()) return {};
    return kube::ParseDevices(note->second, kGpu).value_or(std::vector<int>{});
  };
  const std::vector<int> given = devices(bound);
  if (given.empty()) return;
  if (static_cast<std::int64_t>(given.size()) * 1'000 != AmountOf(bound.spec->requests, kGpu)) {
    Broken(fmt::format("I1: {} is given {} devices by index", bound.meta.name, given.size()));
  }
  for (const auto& [key, other] : env_.api.pods()) {
    if (other->node_name != bound.node_name || other->meta.uid == bound.meta.uid) continue;
    if (!Lives(*other)) continue;
    for (const int device : devices(*other)) {
      if (std::ranges::find(given, device) == given.end()) continue;
      Broken(fmt::format("I1: {} and {} are both given device {} of {}", bound.meta.name,
                         other->meta.name, device, bound.node_name));
    }
  }
}

// --- After every step ----------------------------------------------------------------------------

void Checker::AfterStep(const HostDriver* host) {
  if (!env_.garbled.empty()) Broken("wire: " + env_.garbled);
  if (host == nullptr || !host->ready()) {
    host_ = nullptr;
    return;
  }
  const cluster::Store& store = host->engine().store();
  if (host != host_) Began(*host);
  CheckUnknown(store);
  // The checks that compare the whole ledger cost in proportion to its size.
  if (looks_seldom_ || store.nodes().size() > kSmallWorld) {
    if (env_.timeline.steps() < next_look_) return;
    next_look_ = env_.timeline.steps() + kLookEvery;
    CheckPlans(*host);
    CheckDevices(host->engine());
    if (const auto difference = shadow_.Difference(store); !difference.empty()) {
      Broken("I7: " + difference);
    }
    return;
  }
  CheckPlans(*host);
  if (looked_ && store.generation() == generation_) return;
  generation_ = store.generation();
  CheckDevices(host->engine());
  CheckCaps(*host);
  if (!host->engine().FairSharesHold()) {
    Broken("I7: fair shares are not those of the demand that the engine holds");
  }
  if (++changes_ % kRebuildEvery == 0) CheckLedger(store);
}

/// This process decides from now on: forgets what was known of its predecessor's belief.
void Checker::Began(const HostDriver& host) {
  host_ = &host;
  ++terms_;
  shadow_ = {};
  charged_.clear();
  holding_.clear();
  posting_.clear();
  looked_ = false;
  unknown_.clear();
  told_until_ = 0;
  told_gpus_.clear();
  CheckStarted(host.engine().store());
}

/// I6: until a read has told what became of a Binding, its room is held on the node where the pod
/// may be.
void Checker::CheckUnknown(const cluster::Store& store) {
  std::erase_if(unknown_, [&](const auto& entry) {
    const cluster::PodInfo* pod = store.FindPod(entry.first);
    return pod == nullptr || !Lives(pod->object) || pod->charge == Charge::kBound;
  });
  for (const auto& [uid, node] : unknown_) {
    const cluster::PodInfo& pod = *store.FindPod(uid);
    if (pod.charge == Charge::kBinding && store.node(pod.node).name == node) continue;
    Broken(fmt::format("I6: nobody knows whether {} is bound to {}, and its room is not held",
                       pod.object.meta.name, node));
  }
}

/// I1 in the ledger: where more is taken than there is (a device became unhealthy, or another
/// scheduler bound a pod), nothing is planned on top.
void Checker::CheckDevices(const engine::Engine& engine) {
  const cluster::Store& store = engine.store();
  for (const auto& node : store.nodes()) {
    unsigned taken = 0;
    for (const cluster::PodInfo* pod : node->pods) {
      if (node->track != cluster::DeviceTrack::kKept) break;
      if ((taken & pod->devices) != 0) {
        Broken(
            fmt::format("I1: {} has devices of others on {}", pod->object.meta.name, node->name));
      }
      taken |= pod->devices;
    }
    for (const cluster::ResourceId id : store.device_ids()) {
      const bool for_victims = std::ranges::any_of(node->pods, [&](const auto* pod) {
        const engine::Plan* plan = engine.PlanOf(*pod);
        return plan != nullptr && !plan->victims.empty();
      });
      if (node->free(id) >= 0 || for_victims) continue;
      for (const cluster::PodInfo* pod : node->pods) {
        if (pod->charge != Charge::kPlanned || pod->workload == nullptr ||
            !pod->shape->asks_device) {
          continue;
        }
        Broken(fmt::format("I1: {} is planned on {}, which has {} milli-GPU free",
                           pod->object.meta.name, node->name, node->free(id)));
      }
    }
  }
}

/// I3, I6: every reservation belongs to a plan, every plan is complete and alive, and every Binding
/// that was sent has an order that will report its outcome.
void Checker::CheckPlans(const HostDriver& host) {
  const cluster::Store& store = host.engine().store();
  for (const auto& [key, workload] : store.workloads()) {
    if (!host.engine().StateOf(workload).plan) continue;
    const engine::Plan& plan = *host.engine().StateOf(workload).plan;
    bool binding = false;
    for (const engine::Assignment& a : plan.assignments) {
      binding |= a.pod->charge == Charge::kBinding;
      if (a.pod->charge == Charge::kNone || a.pod->node != a.node) {
        Broken(fmt::format("I6: {} of {} is in a plan that holds no room for it",
                           a.pod->object.meta.name, key));
      }
    }
    if (plan.started) continue;
    const bool awake = host.freezer().until() + kSlack < env_.now();
    if (awake && plan.expires + kSlack < host.now() && !binding) {
      Broken(fmt::format("I6: the plan of {} should have ended {} ms ago", key,
                         host.now() - plan.expires));
    }
    // A member that came may ask for a larger minimum: the pass looks at the plan when the
    // workload's turn comes, and before that no call is answered from it (Engine::DropFaulty). And
    // more members of a running gang may end while others end for those that it lacks.
    if (host.engine().unfinished() || plan.joins) continue;
    const auto held =
        static_cast<int>(plan.assignments.size()) + workload.BoundCount() + workload.finished;
    if (held < workload.min_member) {
      Broken(fmt::format("I3: {} holds room for {} of {} members", key, held, workload.min_member));
    }
  }
  CheckParked(host);
  for (const auto& [uid, pod] : store.pods()) {
    if (pod.charge == Charge::kBinding && !host.host().FindsOut(uid)) {
      const kube::Pod* truth = env_.api.FindPod(uid);
      const bool news_comes = truth == nullptr || !truth->node_name.empty();
      if (!news_comes) {
        Broken("I6: nobody will say what became of the Binding of " + pod.object.meta.name);
      }
    }
    if (pod.charge != Charge::kPlanned || pod.workload == nullptr) continue;
    const engine::Plan* plan = host.engine().PlanOf(pod);
    const bool in_plan =
        plan != nullptr &&
        std::ranges::any_of(plan->assignments, [&](const auto& a) { return a.pod == &pod; });
    if (!in_plan) Broken("I6: room is held without a plan for " + pod.object.meta.name);
  }
}

/// I6: a parked bind call has room held on the node to which it would bind.
void Checker::CheckParked(const HostDriver& host) {
  const cluster::Store& store = host.engine().store();
  for (const auto& [uid, node] : host.host().ParkedBinds()) {
    const cluster::PodInfo* pod = store.FindPod(uid);
    if (pod != nullptr && pod->workload != nullptr && pod->workload->in_tree) continue;
    const bool held =
        pod != nullptr && pod->node != cluster::kNoNode && store.node(pod->node).name == node;
    if (held) continue;
    Broken(fmt::format("I6: the bind call of {} is parked for {}, where no room is held for it",
                       uid, node));
    return;
  }
}

/// I7.
void Checker::CheckLedger(const cluster::Store& store) {
  if (store.reading()) return;  // some pods are still charged under the last policy
  const std::string ledger = store.LedgerString();
  const std::string rebuilt = Shadow::Rebuilt(store);
  if (ledger == rebuilt) return;
  Broken("I7: the ledger is\n" + ledger + "but its objects and plans say\n" + rebuilt);
}

// --- At the end ----------------------------------------------------------------------------------

/// The queue is the one that the policy names for the pod.
bool Checker::QueueHasRoom(const kube::Pod& pod, std::int64_t gpus) const {
  const std::string name = QueueByPolicy(pod, env_.api.policy());
  const auto& queues = env_.api.policy().queues;
  const auto own = std::ranges::find(queues, name, &config::Queue::name);
  if (own == queues.end() || !cluster::Admits(*own, pod.meta.ns)) return false;
  // What else a queue admits, and amounts of single flavors or kinds of work, are not counted here.
  const bool plain = !pod.meta.labels.contains("berth.dev/preemptible") &&
                     !pod.meta.labels.contains("berth.dev/class") && !own->classes &&
                     !own->priority_classes && own->max_jobs_per_user == 0;
  if (!plain) return false;
  const auto other = [](const auto& entry) { return entry.first != kGpu; };
  return std::ranges::all_of(PathOf(name, env_.api.policy()), [&](const std::string& charged) {
    const auto queue = std::ranges::find(queues, charged, &config::Queue::name);
    if (queue == queues.end()) return true;  // a plain group
    if (!queue->quotas.empty()) return false;
    if (queue->hold != config::Hold::kNone || env_.api.policy().borrowing) return false;
    if (std::ranges::any_of(queue->limit, other) || std::ranges::any_of(queue->quota, other)) {
      return false;  // not counted here
    }
    return usage_.GpusOf(charged) + gpus <= CapOf(env_.api.policy(), charged);
  });
}

/// By plain counting, without any code of the planner.
bool Checker::FitsSomewhere(const kube::Pod& pod) const {
  const std::int64_t gpus = AmountOf(pod.spec->requests, kGpu);
  const bool mind_neighbours = std::ranges::any_of(env_.api.pods(), [&](const auto& entry) {
    const kube::PodSpec& spec = *entry.second->spec;
    return !spec.required_pod_anti_affinity.empty() ||
           (entry.second.get() == &pod &&
            !(spec.required_pod_affinity.empty() && spec.topology_spread.empty()));
  });
  if (mind_neighbours) return false;  // not counted here
  return std::ranges::any_of(env_.api.nodes(), [&](const auto& entry) {
    const kube::Node& node = *entry.second;
    if (node.unschedulable || !kube::MatchesNode(*pod.spec, node) ||
        kube::FindUntoleratedTaint(pod.spec->tolerations, node.taints) != nullptr) {
      return false;
    }
    Usage::Room room = usage_.RoomOf(node.meta.name);
    for (const auto& [key, other] : env_.api.pods()) {  // a nomination may hold room as well
      if (other->nominated_node != node.meta.name || !other->node_name.empty()) continue;
      if (other->meta.uid == pod.meta.uid) continue;
      for (const auto& [name, amount] : other->spec->requests) room.used[name] += amount;
      room.used["pods"] += 1;
    }
    const auto left = [&](const char* name, std::int64_t asked) {
      return AmountOf(node.allocatable, name) - AmountOf(room.used, name) - asked;
    };
    const bool enough = std::ranges::all_of(pod.spec->requests, [&left](const auto& asked) {
      return asked.second == 0 || left(asked.first.c_str(), asked.second) >= 0;
    });
    if (!enough || left("pods", 1) < 0) return false;
    if (gpus == 0) return true;
    if (room.whole_node > 0 || (WholeNode(pod) && AmountOf(room.used, "pods") > 0)) return false;
    const std::int64_t all = AmountOf(node.allocatable, kGpu);
    return left(kGpu, gpus) >= 0 && QueueHasRoom(pod, WholeNode(pod) ? all : gpus);
  });
}

/// I10 by an independent and simple check: one pod, which is in a gang only if that runs, on any
/// node.
bool Checker::CouldRunAlone(const kube::Pod& pod) const {
  const bool ours = std::ranges::all_of(
      pod.scheduling_gates, [](const auto& gate) { return gate == "berth.dev/admission"; });
  if (!Lives(pod) || !pod.node_name.empty() || pod.meta.deletion || !ours) return false;
  if (pod.scheduler_name == kOtherScheduler) return false;
  if (!pod.spec->requests.contains(kGpu)) return pod.scheduling_gates.empty() && FitsSomewhere(pod);
  if (pod.meta.annotations.contains("berth.dev/topology-required")) return false;
  const std::string gang = GangOf(pod);
  if (gang.empty()) return FitsSomewhere(pod);
  bool runs = false;
  for (const auto& [uid, mate] : usage_.MembersOf(gang)) {
    if (!SameGang(*mate, pod)) return false;  // one of them may be refused alone
    runs |= Lives(*mate) && !mate->node_name.empty() && mate->spec->requests.contains(kGpu);
  }
  return runs && FitsSomewhere(pod);
}

/// I10: a second planner with the same facts and no history finds no workload to place. Only the
/// first one knows which jobs it has evicted so often that they may not borrow any more.
std::string Checker::WhoCouldRun(const engine::Engine& berth) const {
  const auto exempt = [&](const cluster::PodInfo* pod) {
    return IsExempt(berth.store(), pod->object);
  };
  engine::Options options{.instance = "fresh"};
  options.pass_budget = std::numeric_limits<std::int64_t>::max();  // everything in one pass
  engine::Engine fresh(env_.api.policy(), std::move(options));
  std::vector<std::string_view> names;
  for (const auto& [name, node] : env_.api.nodes()) {
    fresh.OnNode(*node, env_.now());
    names.push_back(name);
  }
  for (const auto& [key, pod] : env_.api.pods()) fresh.OnPod(*pod, env_.now());
  fresh.Start(env_.now());
  for (const Duration later : {0, 1'000}) {  // elastic gangs wait a moment for more members
    fresh.Step(env_.now() + later);
    for (const auto& [key, workload] : fresh.store().workloads()) {
      if (workload.plan.empty() || std::ranges::any_of(workload.members, exempt)) continue;
      return key;
    }
  }
  for (const auto& [key, pod] : env_.api.pods()) {
    if (!pod->node_name.empty() || !pod->scheduling_gates.empty()) continue;
    if (pod->scheduler_name == kOtherScheduler) continue;
    if (!pod->spec->requests.contains(kGpu)) {
      if (FitsSomewhere(*pod)) return key;  // kube-scheduler places it alone
      continue;
    }
    const auto answer = fresh.Filter({.uid = pod->meta.uid, .offered = names}, env_.now());
    if (!answer.kept.empty() && !IsExempt(berth.store(), *pod)) return key;
  }
  return "";
}

void Checker::WhenQuiet(const HostDriver& host) {
  const cluster::Store& store = host.engine().store();
  std::size_t live = 0;
  for (const auto& [key, pod] : env_.api.pods()) {
    if (!Lives(*pod)) continue;
    ++live;
    const cluster::PodInfo* known = store.FindPod(pod->meta.uid);
    if (known == nullptr || known->object.node_name != pod->node_name) {
      Broken("I7: Berth has old news of " + key);
      return;
    }
  }
  CheckLedger(store);
  CheckPartlyEvicted();
  CheckBeneficiaries();
  CheckShown(host.engine());
  for (const kube::JobKind kind : {kube::JobKind::kJob, kube::JobKind::kJobSet}) {
    for (const auto& [key, job] : env_.api.jobs(kind)) {
      if (job.suspended) Broken(fmt::format("I10: the Job {} stays suspended", key));
    }
  }
  for (const auto& [gang, incarnation] : incarnations_) {
    const auto came = static_cast<int>(incarnation.came.size());
    if (!incarnation.runs || !incarnation.checked || came >= incarnation.needed) continue;
    Broken(fmt::format("I3: {} runs, and only {} of {} members ever came to bind", gang, came,
                       incarnation.needed));
  }
  if (store.pods().size() != live) {
    std::set<std::string> gone;
    for (const auto& [uid, pod] : store.pods()) gone.insert(pod.object.meta.name);
    for (const auto& [key, pod] : env_.api.pods()) {
      if (Lives(*pod)) gone.erase(pod->meta.name);
    }
    Broken(fmt::format("I7: Berth knows pods that are gone: {}", fmt::join(gone, " ")));
  }
  if (const std::string who = WhoCouldRun(host.engine()); !who.empty()) {
    Broken("I10: " + who + " waits, and has a placement");
  }
  for (const auto& [key, pod] : env_.api.pods()) {
    if (IsExempt(store, *pod)) continue;  // what it may use is not counted here
    if (CouldRunAlone(*pod)) Broken("I10: " + key + " waits, and by plain counting has room");
  }
}

void Checker::WhenEmpty(const HostDriver& host) {
  const engine::Engine& engine = host.engine();
  if (engine.parked_binds() != 0) Broken("I6: a bind call is parked for no pod");
  if (engine.PlanCounts() != std::pair(0, 0)) Broken("I6: a plan is left");
  if (!engine.store().workloads().empty()) Broken("I6: a workload is left");
  if (!engine.store().pods().empty()) Broken("I7: a pod is left");
  cluster::Store empty(engine.store().policy());
  if (engine.store().LedgerString() != empty.LedgerString()) {
    Broken("I7: room is left taken\n" + engine.store().LedgerString());
  }
}

}  // namespace berth::sim
