#include "server/ops/views.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "cluster/queue_refusal.h"
#include "kube/quantity.h"
#include "kube/time.h"
#include "server/ops/view_text.h"
#include "server/ops/workload_view.h"

namespace berth::server {
namespace {

using cluster::Charge;
using cluster::DeviceTrack;
using cluster::PodInfo;
using cluster::Workload;
using Json = nlohmann::ordered_json;

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json Quantities(const kube::ResourceList& amounts) {
  Json json = Json::object();
  for (const auto& [name, amount] : amounts) json[name] = kube::Format(name, amount);
  return json;
}

Json Indices(topology::DeviceMask mask) {
  Json indices = Json::array();
  for (int i = 0; i < topology::DeviceSet::kMost; ++i) {
    if ((mask >> static_cast<unsigned>(i) & 1U) != 0) indices.push_back(i);
  }
  return indices;
}

Json Taints(const kube::Node& node) {
  static constexpr const char* kEffects[] = {"NoSchedule", "PreferNoSchedule", "NoExecute"};
  Json taints = Json::array();
  for (const kube::Taint& taint : node.taints) {
    taints.push_back(taint.key + (taint.value.empty() ? "" : "=" + taint.value) + ":" +
                     kEffects[static_cast<std::size_t>(taint.effect)]);
  }
  return taints;
}

/// Why a node accepts no new pods, as far as the node says so: by its kubelet or the node
/// controller, or by the taints of the person who took it out of use (`kubectl taint node n1
/// broken=nvlink:NoSchedule`).
std::string OutReason(const kube::Node& node) {
  std::string text = node.ready ? "" : node.not_ready_reason;
  for (const kube::Taint& taint : node.taints) {
    // Taints of the node controller repeat the STATUS; a taint named after a device keeps away pods
    // that do not ask for the device.
    const bool custom =
        !taint.key.starts_with("node.kubernetes.io/") && !node.allocatable.contains(taint.key);
    if (taint.effect == kube::TaintEffect::kPreferNoSchedule || !custom) continue;
    text += (text.empty() ? "" : ", ") + taint.key + (taint.value.empty() ? "" : "=" + taint.value);
  }
  return text;
}

/// What is known about the node's individual devices.
Json HardwareJson(const cluster::NodeInfo& node) {
  const bool kept = node.track == DeviceTrack::kKept;
  return {{"source", SourceName(node.hardware)},
          {"indices", TrackName(node.track)},
          {"free", kept ? Indices(node.devices.AtLeast(topology::DeviceSet::kWhole)) : Json()},
          {"problem", node.hardware_problem.empty() ? node.device_problem : node.hardware_problem}};
}

/// The waiting workloads and pods of one queue.
struct Waiting {
  std::map<std::string, int> pending;  ///< Workloads by reason.
  std::map<std::string, int> refused;  ///< Pods by reason.
};

Json Counts(const std::map<std::string, int>& counts) {
  Json json = Json::object();
  for (const auto& [reason, count] : counts) json[reason] = count;
  return json;
}

std::map<std::string, Waiting> WaitingByQueue(const engine::Engine& engine) {
  const cluster::Store& store = engine.store();
  std::map<std::string, Waiting> queues;
  for (const auto& [key, workload] : store.workloads()) {
    if (!Waits(workload)) continue;
    ++queues[QueueOf(store, workload)].pending[ReasonOf(engine, workload)];
    for (const PodInfo* pod : workload.faulty) {
      if (pod->refusal.reason == cluster::ReasonId::kWaitingForMembers) continue;
      ++queues[QueueOf(store, *pod)].refused[std::string(cluster::Token(pod->refusal.reason))];
    }
  }
  return queues;
}

kube::ResourceList UsedOf(const cluster::Store& store, const cluster::QueueInfo& queue) {
  kube::ResourceList used;
  for (std::size_t id = 0; id < queue.used.size(); ++id) {
    const auto rid = static_cast<cluster::ResourceId>(id);
    if (queue.used[rid] != 0) used[store.resources().Name(rid)] = queue.used[rid];
  }
  return used;
}

/// By `priority`, then age, in the planner's order of a queue. 1 is the head; 0: it is in no queue.
std::map<const Workload*, int> PositionsOf(const cluster::Store& store) {
  std::map<cluster::QueueId, std::vector<const Workload*>> lines;
  for (const auto& [key, workload] : store.workloads()) {
    const bool waits = Waits(workload) && workload.plan.empty() && !workload.members.empty();
    if (waits && workload.queue != cluster::kNoQueue) {
      lines[workload.queue].push_back(&workload);
    }
  }
  std::map<const Workload*, int> positions;
  for (auto& [queue, line] : lines) {
    std::ranges::stable_sort(line, {}, [](const Workload* workload) {
      return std::pair(-std::int64_t{workload->priority}, workload->creation);
    });
    int position = 0;
    for (const Workload* workload : line) positions[workload] = ++position;
  }
  return positions;
}

Json DevicesOf(const cluster::Store& store, const PodInfo& pod) {
  Json devices = Json::object();
  for (const auto& [id, amount] : pod.shape->demand) {
    if (std::ranges::find(store.device_ids(), id) == store.device_ids().end()) continue;
    const std::string& name = store.resources().Name(id);
    devices[name] = kube::Format(name, amount);
  }
  return devices;
}

Json PodJson(const engine::Engine& engine, const PodInfo& pod, int position,
             engine::TimePoint now) {
  const cluster::Store& store = engine.store();
  const Workload& workload = *pod.workload;
  const bool refused = pod.refusal.reason != cluster::ReasonId::kNone;
  const auto& meta = pod.object.meta;
  return {{"namespace", meta.ns},
          {"name", meta.name},
          {"queue", QueueOf(store, pod)},
          {"position", refused ? 0 : position},
          {"gang", workload.gang ? workload.name : ""},
          {"priority", pod.object.priority},
          {"devices", DevicesOf(store, pod)},
          {"phase", refused ? "Refused" : PhaseOf(engine, workload)},
          {"reason",
           refused ? std::string(cluster::Token(pod.refusal.reason)) : ReasonOf(engine, workload)},
          {"message", refused ? cluster::Sentence(pod.refusal) : MessageOf(engine, workload)},
          {"since", kube::FormatTime(meta.creation)},
          {"waitingSeconds", std::max<std::int64_t>(0, now - meta.creation) / 1000}};
}

}  // namespace

std::string QueuesJson(const engine::Engine& engine, std::string_view ns, bool namespaces) {
  const cluster::Store& store = engine.store();
  auto waiting = WaitingByQueue(engine);
  Json items = Json::array();
  for (const cluster::QueueId queue_id : store.queues()) {
    const cluster::QueueInfo& queue = store.queue(queue_id);
    if (!ns.empty() && !cluster::Admits(queue.config, ns)) continue;
    const Waiting& waits = waiting[queue.config.name];
    items.push_back({{"name", queue.config.name},
                     {"quota", Quantities(queue.config.quota)},
                     {"limit", Quantities(queue.config.limit)},
                     {"used", Quantities(UsedOf(store, queue))},
                     {"pending", Counts(waits.pending)},
                     {"refused", Counts(waits.refused)}});
    if (!namespaces) continue;
    items.back()["namespaces"] = queue.config.namespaces.value_or(std::vector<std::string>{});
  }
  const auto none = waiting.find(std::string(kNoQueueName));
  if (ns.empty() && none != waiting.end()) {
    items.push_back({{"name", kNoQueueName},
                     {"quota", Json::object()},
                     {"limit", Json::object()},
                     {"used", Json::object()},
                     {"pending", Counts(none->second.pending)},
                     {"refused", Counts(none->second.refused)}});
  }
  return Dump({{"items", items}});
}

std::string GangsJson(const engine::Engine& engine, std::string_view ns, engine::TimePoint now) {
  const cluster::Store& store = engine.store();
  Json items = Json::array();
  for (const auto& [key, workload] : store.workloads()) {
    if (!workload.gang || (!ns.empty() && workload.ns != ns)) continue;
    const bool waits = !workload.started;
    std::set<std::string> nodes;
    for (const PodInfo* pod : workload.members) {
      if (pod->node != cluster::kNoNode) nodes.insert(store.node(pod->node).name);
    }
    items.push_back({{"namespace", workload.ns},
                     {"name", workload.name},
                     {"queue", QueueOf(store, workload)},
                     {"phase", PhaseOf(engine, workload)},
                     {"size", workload.size},
                     {"minMember", workload.min_member},
                     {"members", workload.members.size()},
                     {"refused", workload.faulty.size()},
                     {"refusals", Counts(RefusalsOf(workload))},
                     {"bound", workload.BoundCount()},
                     {"reason", waits ? ReasonOf(engine, workload) : ""},
                     {"message", waits ? MessageOf(engine, workload) : ""},
                     {"since", kube::FormatTime(workload.creation)},
                     {"waitingSeconds", waits ? WaitOf(workload, now) / 1000 : 0},
                     {"nodes", nodes}});
  }
  return Dump({{"items", items}});
}

std::string PodsJson(const engine::Engine& engine, std::string_view ns, engine::TimePoint now) {
  const cluster::Store& store = engine.store();
  const auto positions = PositionsOf(store);
  Json items = Json::array();
  for (const auto& [key, workload] : store.workloads()) {
    if (!ns.empty() && workload.ns != ns) continue;
    const auto place = positions.find(&workload);
    const int position = place == positions.end() ? 0 : place->second;
    for (const auto* pods : {&workload.members, &workload.faulty}) {
      for (const PodInfo* pod : *pods) {
        if (pod->bound() || pod->charge == Charge::kBinding) continue;
        items.push_back(PodJson(engine, *pod, position, now));
      }
    }
  }
  return Dump({{"items", items}});
}

std::string NodesJson(const engine::Engine& engine) {
  const cluster::Store& store = engine.store();
  std::vector<const cluster::NodeInfo*> nodes;
  for (const auto& node : store.nodes()) {
    if (node->present) nodes.push_back(node.get());
  }
  std::ranges::sort(nodes, {}, &cluster::NodeInfo::name);
  Json items = Json::array();
  for (const cluster::NodeInfo* node : nodes) {
    Json devices = Json::object();
    for (const cluster::ResourceId id : store.device_ids()) {
      if (node->allocatable[id] == 0 && node->used[id] == 0) continue;
      const std::string& name = store.resources().Name(id);
      devices[name] = {{"allocatable", kube::Format(name, node->allocatable[id])},
                       {"used", kube::Format(name, node->used[id])}};
    }
    Json domains = Json::object();
    for (std::size_t level = 0; level < node->domains.size(); ++level) {
      if (node->domains[level] == cluster::kNoDomain) continue;
      domains[store.policy().levels[level].name] =
          store.domains()[static_cast<std::size_t>(node->domains[level])].name;
    }
    Json pods = Json::array();
    for (const PodInfo* pod : node->pods) {
      if (!pod->shape->asks_device) continue;
      pods.push_back(
          {{"pod", pod->object.meta.ns + "/" + pod->object.meta.name},
           {"queue", pod->workload == nullptr ? "" : QueueOf(store, *pod->workload)},
           {"devices", Whole("a/b", pod->shape->whole_node ? node->allocatable[pod->shape->device]
                                                           : pod->shape->device_amount)},
           {"planned", pod->charge == Charge::kPlanned}});
      if (node->track == DeviceTrack::kKept) pods.back()["indices"] = Indices(pod->devices);
    }
    const auto& labels = node->object.meta.labels;
    const auto model = labels.find("nvidia.com/gpu.product");
    items.push_back({{"name", node->name},
                     {"unschedulable", node->object.unschedulable},
                     {"ready", node->object.ready},
                     {"reason", OutReason(node->object)},
                     {"taints", Taints(node->object)},
                     {"model", model == labels.end() ? "" : model->second},
                     {"domains", domains},
                     {"devices", devices},
                     {"hardware", HardwareJson(*node)},
                     {"pods", pods}});
  }
  return Dump({{"items", items}});
}

}  // namespace berth::server
