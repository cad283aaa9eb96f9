#include "tests/support/story.h"

#include <algorithm>
#include <map>

namespace berth::testing {
namespace {

config::PolicyConfiguration Policy() {
  return MakePolicy(
      {MakeQueue("a", {"*"}, 16), MakeQueue("b", {"*"}, 12), MakeQueue("default", {"*"})});
}

std::vector<kube::Node> Nodes() {
  return {MakeNode("n0").Gpu(8).Rack("r0"),        MakeNode("n1").Gpu(8).Rack("r0").Cpu(16),
          MakeNode("n2").Gpu(4).Rack("r1"),        MakeNode("n3").Gpu(8).Rack("r1").Pods(6),
          MakeNode("n4").Gpu(8).Rack("r2").Cpu(8), MakeNode("n5").Cpu(32)};
}

}  // namespace

Story::Story(bool failover, engine::Options options)
    : failover_(failover), world_(Policy(), std::move(options)), all_nodes_(Nodes()) {
  for (const kube::Node& node : all_nodes_) world_.Add(node);
  world_.Start();
}

std::string Story::Pick(int choice) const {
  if (world_.pods().empty()) return "";
  return std::next(world_.pods().begin(), choice % static_cast<int>(world_.pods().size()))->first;
}

std::string Story::GangOf(const std::string& pod) const {
  const auto& labels = world_.pod(pod).meta.labels;
  const auto it = labels.find("berth.dev/gang");
  return it == labels.end() ? "" : it->second;
}

void Story::CreateGang(int choice) {
  const std::string gang = "g" + std::to_string(created_++);
  const int size = 1 + choice % 5;
  choice /= 5;
  int min = 1 + choice % size;
  choice /= 5;
  const int gpus = 1 << (choice % 4);
  choice /= 4;
  const bool gated = choice % 2 == 0;
  choice /= 2;
  const int launchers = choice % 4 == 0 && size > 1 ? 1 : 0;
  min = std::max(min, 1 + launchers);  // launchers alone cannot start a gang
  choice /= 4;
  for (int i = 0; i < size; ++i) {
    auto pod = MakePod(gang + "-" + std::to_string(i)).Gang(gang, size).Min(min);
    pod.Created(world_.now()).Cpu(std::to_string(choice % 4));
    if (i >= launchers) pod.Gpu(gpus);
    if (gated || i < launchers) pod.Gated();
    if (choice % 3 == 0) pod.Queue("a");
    if (choice % 3 == 1) pod.Queue("b");
    if (choice % 7 == 0) pod.Required("rack");
    pod.Priority(choice % 3);
    world_.Add(pod);
  }
  world_.Tick();
}

void Story::CreateSingle(int choice) {
  auto pod = MakePod("s" + std::to_string(created_++)).Created(world_.now());
  pod.Gpu(1 << (choice % 4)).Cpu(std::to_string(choice / 4 % 5)).Priority(choice / 20 % 4);
  if (choice / 80 % 3 == 0) pod.Queue("a");
  if (choice / 80 % 3 == 1) pod.Queue("b");
  if (choice / 240 % 4 == 0) pod.WholeNode();
  if (choice / 960 % 2 == 0) pod.Gated();
  world_.Add(pod);
  world_.Tick();
}

void Story::Attempt(int choice) {
  const std::string name = Pick(choice);
  if (name.empty()) return;
  const kube::Pod& pod = world_.pod(name);
  if (!pod.node_name.empty() || !pod.scheduling_gates.empty() || pod.meta.deletion ||
      !pod.spec->requests.contains(kGpu) || (!failover_ && world_.IsParked(name))) {
    return;
  }
  if (choice % 4 == 0) {  // a sample of the nodes
    std::vector<std::string> offered;
    for (const auto& [node, object] : world_.nodes()) {
      if ((choice >> offered.size()) % 2 == 0) offered.push_back(node);
    }
    if (!GangOf(name).empty()) disturbed_.insert(GangOf(name));
    const auto answer = world_.Filter(name, offered);
    if (!answer.keep_all && !answer.node().empty()) world_.Bind(name, answer.node());
  } else {
    world_.Attempt(name);
  }
}

void Story::DisturbNode(int choice) {
  const kube::Node& node = all_nodes_[static_cast<std::size_t>(choice) % all_nodes_.size()];
  // A whole-node pod on a node that comes back is charged more than while the node was gone: skip
  // it.
  const bool whole = std::ranges::any_of(world_.pods(), [&node](const auto& entry) {
    return entry.second.node_name == node.meta.name &&
           entry.second.meta.annotations.contains("berth.dev/whole-node");
  });
  if (whole && choice / 8 % 3 == 1) return;
  for (const auto& [name, pod] : world_.pods()) {
    if (!GangOf(name).empty()) disturbed_.insert(GangOf(name));
  }
  kube::Node changed = node;
  switch (choice / 8 % 3) {
    case 0:
      changed.unschedulable = true;
      world_.Add(changed);
      break;
    case 1:
      world_.Remove(node.meta.name);
      break;
    default:
      world_.Add(node);
  }
  world_.Tick();
}

void Story::SetTrouble(int choice) {
  world_.SetPosting(static_cast<Posting>(choice % 5));
  constexpr engine::TimePoint kDelays[] = {0, 0, 100, 3000};
  world_.SetWatchDelay(kDelays[choice / 5 % 4]);
}

void Story::Step(int number) {
  const int choice = number / 16;
  switch (number % 16) {
    case 0:
    case 1:
    case 2:
      return CreateGang(choice);
    case 3:
    case 4:
      return CreateSingle(choice);
    case 5: {
      const std::string name = Pick(choice);
      if (name.empty()) return;
      if (!GangOf(name).empty()) disturbed_.insert(GangOf(name));
      if (choice % 3 == 0) {
        world_.Terminate(name);
      } else if (choice % 3 == 1) {
        world_.Change(name, [](kube::Pod& pod) { pod.phase = kube::PodPhase::kSucceeded; });
        world_.Delete(name);
      } else {
        world_.Delete(name);
      }
      return world_.Tick();
    }
    case 6:
      return world_.Advance(choice % 30'000);
    case 7:
      return world_.Advance(70'000);
    case 8:
      return world_.Schedule();
    case 9: {
      const std::string name = Pick(choice);
      if (name.empty() || !world_.pod(name).node_name.empty()) return;
      if (!GangOf(name).empty()) disturbed_.insert(GangOf(name));
      return world_.Refuse(name, "refusal " + std::to_string(choice % 3));
    }
    case 10:
      return DisturbNode(choice);
    case 11:
      return SetTrouble(choice);
    case 12:
      if (choice % 4 == 0) return world_.Reload(Policy());
      if (choice % 4 == 1) return world_.Restart();
      return SettleBindings();
    default:
      return Attempt(choice);
  }
}

void Story::SettleBindings() {
  std::set<std::string> uids;
  for (const auto& [uid, pod] : world_.store().pods()) {
    if (pod.charge == cluster::Charge::kBinding) uids.insert(uid);
  }
  for (const std::string& uid : uids) {
    world_.engine().BindFinished(uid, engine::BindOutcome::kUnknown, world_.now());
  }
  world_.Tick();
}

void Story::Calm() {
  for (const kube::Node& node : all_nodes_) world_.Add(node);
  world_.SetWatchDelay(0);
  world_.SetPosting(Posting::kBinds);
  world_.Advance(5000);  // late events
  std::vector<std::string> ending;
  for (const auto& [name, pod] : world_.pods()) {
    if (pod.meta.deletion) ending.push_back(name);
  }
  for (const std::string& name : ending) world_.Delete(name);
  SettleBindings();
  for (int i = 0; i < 100; ++i) {  // 25 minutes: the longest pause, and the time for which nodes
                                   // are avoided
    world_.Schedule();
    world_.Advance(15'000);
  }
}

void Story::EndAll() {
  world_.SetWatchDelay(0);
  world_.SetPosting(Posting::kBinds);
  for (const kube::Node& node : all_nodes_) world_.Add(node);
  world_.Advance(5000);
  SettleBindings();
  while (!world_.pods().empty()) world_.Delete(world_.pods().begin()->first);
  world_.Advance(1'000'000);
}

// --- Invariants ----------------------------------------------------------------------------------

namespace {

std::int64_t AmountOf(const cluster::Demand& demand, cluster::ResourceId id) {
  for (const auto& [of, amount] : demand) {
    if (of == id) return amount;
  }
  return 0;
}

}  // namespace

/// I1, I2: in the ledger, and from the API objects alone.
std::string Story::Overcommitted() {
  const cluster::Store& store = world_.store();
  const std::set<const cluster::PodInfo*> victims = Victims();
  for (const auto& node : store.nodes()) {
    if (!node->present) continue;
    for (const std::string name : {kGpu, "cpu", "memory", "pods"}) {
      // A launcher goes to its nominated node even if the engine has forgotten the nomination.
      if (world_.strayed() && name != kGpu) continue;
      cluster::ResourceTable names = store.resources();
      const auto id = names.Intern(name);
      std::int64_t free = node->free(id);
      for (const cluster::PodInfo* pod : node->pods) {
        if (victims.contains(pod)) free += AmountOf(pod->charged, id);
      }
      if (free < 0) {
        return "overcommitted: " + node->name + ' ' + name + '\n' + store.LedgerString();
      }
    }
  }
  std::map<std::string, std::int64_t> used;
  for (const auto& [name, pod] : world_.pods()) {
    const auto it = pod.spec->requests.find(kGpu);
    if (!pod.node_name.empty() && it != pod.spec->requests.end()) used[pod.node_name] += it->second;
  }
  for (const kube::Node& node : all_nodes_) {
    const auto it = node.allocatable.find(kGpu);
    const std::int64_t all = it == node.allocatable.end() ? 0 : it->second;
    if (used[node.meta.name] > all) return "bound twice on " + node.meta.name;
  }
  return "";
}

/// Pods whose room is another's as soon as they have ended: both are charged meanwhile.
std::set<const cluster::PodInfo*> Story::Victims() {
  std::set<const cluster::PodInfo*> victims;
  for (const auto& [key, workload] : world_.store().workloads()) {
    const std::optional<engine::Plan>& plan = world_.engine().StateOf(workload).plan;
    if (!plan) continue;
    for (const std::string& uid : plan->victims) victims.insert(world_.store().FindPod(uid));
  }
  return victims;
}

/// I4.
std::string Story::OverCap() {
  const std::set<const cluster::PodInfo*> victims = Victims();
  for (const cluster::QueueId queue_id : world_.store().queues()) {
    const cluster::QueueInfo& queue = world_.store().queue(queue_id);
    for (const auto& [id, cap] : queue.caps) {
      std::int64_t used = queue.used[id];
      for (const cluster::PodInfo* pod : victims) {
        if (pod == nullptr || pod->charged_queue == cluster::kNoQueue) continue;
        const auto& path = world_.store().queue(pod->charged_queue).path;
        const bool charged = std::ranges::find(path, queue_id) != path.end();
        if (charged) used -= AmountOf(pod->queue_charge, id);
      }
      if (used > cap) return "over the limit: " + queue.config.name;
    }
  }
  return "";
}

/// I3: if a member is bound, the minimum holds room. If none is bound and nothing was committed, no
/// Binding is on its way.
std::string Story::TornGang() {
  for (const auto& [key, workload] : world_.store().workloads()) {
    if (!workload.gang || disturbed_.contains(workload.name)) continue;
    if (world_.engine().StateOf(workload).evicted) continue;  // all of it ends
    // Members without devices run at any time: they make no calls to Berth.
    int on_the_way = 0;
    int managed = 0;
    int held = 0;
    for (const cluster::PodInfo* pod : workload.members) {
      const bool holds = pod->charge != cluster::Charge::kNone;
      held += holds ? 1 : 0;
      if (!pod->shape->asks_device) continue;
      managed += holds ? 1 : 0;
      on_the_way += pod->bound() || pod->charge == cluster::Charge::kBinding ? 1 : 0;
    }
    if (on_the_way > 0 && held < workload.min_member) return "torn gang: " + key;
    if (on_the_way > 0 && !workload.started) return "bound before it started: " + key;
    if (managed > 0 && held < workload.min_member) return "partly planned: " + key;
  }
  return "";
}

std::string Story::Violation() {
  for (const std::string& found : {Overcommitted(), OverCap(), TornGang()}) {
    if (!found.empty()) return found;
  }
  for (const auto& [uid, pod] : world_.store().pods()) {
    if (pod.charge != cluster::Charge::kPlanned || pod.workload == nullptr) continue;
    const engine::Plan* plan = world_.engine().PlanOf(pod);
    const bool in_plan =
        plan != nullptr &&
        std::ranges::any_of(plan->assignments, [&pod](const engine::Assignment& a) {
          return a.pod == &pod && a.node == pod.node;
        });
    if (!in_plan) return "planned without a plan: " + pod.object.meta.name;
  }
  return "";
}

}  // namespace berth::testing
