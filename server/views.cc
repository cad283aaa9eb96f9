#include "server/views.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cluster/measures.h"
#include "kube/quantity.h"
#include "policy/largest_gang.h"

namespace berth::server {
namespace {

using cluster::Charge;
using cluster::DeviceTrack;
using cluster::HardwareSource;
using cluster::ReasonId;
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

std::string PhaseOf(const Workload& workload) {
  if (workload.started) return "Started";
  if (workload.plan) return "Starting";
  return workload.verdict.reason == ReasonId::kWaitingForMembers ? "Gathering" : "Pending";
}

bool Waits(const Workload& workload) {
  return std::ranges::any_of(workload.members,
                             [](const cluster::PodInfo* pod) {
                               return !pod->bound() && pod->charge != Charge::kBinding;
                             }) ||
         !workload.faulty.empty();
}

std::string ReasonOf(const Workload& workload) {
  if (workload.members.empty() && !workload.faulty.empty()) {
    return std::string(cluster::Token(workload.faulty.front()->refusal.reason));
  }
  if (workload.plan) return std::string(cluster::Token(ReasonId::kStarting));
  return std::string(cluster::Token(workload.verdict.reason));
}

std::string MessageOf(const Workload& workload) {
  const bool refused = workload.members.empty() && !workload.faulty.empty();
  return cluster::Sentence(refused ? workload.faulty.front()->refusal : workload.verdict);
}

std::string QueueOf(const cluster::Store& store, const Workload& workload) {
  return workload.queue == cluster::kNoQueue
             ? std::string()
             : store.queues()[static_cast<std::size_t>(workload.queue)].config.name;
}

double Whole(std::string_view resource, std::int64_t amount) {
  return kube::InThousandths(resource) ? static_cast<double>(amount) / 1000.0
                                       : static_cast<double>(amount);
}

std::string_view TrackName(DeviceTrack track) {
  switch (track) {
    case DeviceTrack::kKept:
      return "kept";
    case DeviceTrack::kCountOnly:
      return "count_only";
    case DeviceTrack::kCounted:
      break;
  }
  return "counted";
}

std::string_view SourceName(HardwareSource source) {
  switch (source) {
    case HardwareSource::kRefused:
      return "refused";
    case HardwareSource::kAnnotation:
      return "annotation";
    case HardwareSource::kHami:
      return "hami";
    case HardwareSource::kLabels:
      return "labels";
    case HardwareSource::kUnknown:
      break;
  }
  return "unknown";
}

Json Indices(topology::DeviceMask mask) {
  Json indices = Json::array();
  for (int i = 0; i < topology::DeviceSet::kMost; ++i) {
    if ((mask >> static_cast<unsigned>(i) & 1U) != 0) indices.push_back(i);
  }
  return indices;
}

/// What is known of the node's devices one by one.
Json HardwareJson(const cluster::NodeInfo& node) {
  const bool kept = node.track == DeviceTrack::kKept;
  return {{"source", SourceName(node.hardware)},
          {"indices", TrackName(node.track)},
          {"free", kept ? Indices(node.devices.AtLeast(topology::DeviceSet::kWhole)) : Json()},
          {"problem", node.hardware_problem.empty() ? node.device_problem : node.hardware_problem}};
}

}  // namespace

std::string QueuesJson(const engine::Engine& engine) {
  const cluster::Store& store = engine.store();
  std::map<std::string, std::map<std::string, int>> pending;
  for (const auto& [key, workload] : store.workloads()) {
    if (Waits(*workload)) ++pending[QueueOf(store, *workload)][ReasonOf(*workload)];
  }
  Json items = Json::array();
  for (const cluster::QueueInfo& queue : store.queues()) {
    kube::ResourceList used;
    for (std::size_t id = 0; id < queue.used.size(); ++id) {
      const auto rid = static_cast<cluster::ResourceId>(id);
      if (queue.used[rid] != 0) used[store.resources().Name(rid)] = queue.used[rid];
    }
    Json item{{"name", queue.config.name},
              {"namespaces", queue.config.namespaces.value_or(std::vector<std::string>{})},
              {"quota", Quantities(queue.config.quota)},
              {"limit", Quantities(queue.config.limit)},
              {"used", Quantities(used)},
              {"pending", Json::object()}};
    for (const auto& [reason, count] : pending[queue.config.name]) {
      item["pending"][reason.empty() ? "Arriving" : reason] = count;
    }
    items.push_back(std::move(item));
  }
  return Dump({{"items", items}});
}

std::string GangsJson(const engine::Engine& engine, std::string_view ns, engine::TimePoint now) {
  const cluster::Store& store = engine.store();
  Json items = Json::array();
  for (const auto& [key, workload] : store.workloads()) {
    if (!workload->gang || (!ns.empty() && workload->ns != ns)) continue;
    const bool waits = !workload->started;
    std::set<std::string> nodes;
    for (const cluster::PodInfo* pod : workload->members) {
      if (pod->node != cluster::kNoNode) nodes.insert(store.node(pod->node).name);
    }
    items.push_back(
        {{"namespace", workload->ns},
         {"name", workload->name},
         {"queue", QueueOf(store, *workload)},
         {"phase", PhaseOf(*workload)},
         {"size", workload->size},
         {"minMember", workload->min_member},
         {"members", workload->members.size()},
         {"refused", workload->faulty.size()},
         {"bound", workload->BoundCount()},
         {"reason", waits ? ReasonOf(*workload) : ""},
         {"message", waits ? MessageOf(*workload) : ""},
         {"waitingSeconds", waits ? std::max<std::int64_t>(0, now - workload->creation) / 1000 : 0},
         {"nodes", nodes}});
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
    for (const cluster::PodInfo* pod : node->pods) {
      if (!pod->shape->asks_device) continue;
      pods.push_back(
          {{"pod", pod->object.meta.ns + "/" + pod->object.meta.name},
           {"queue", pod->workload == nullptr ? "" : QueueOf(store, *pod->workload)},
           {"devices", Whole("a/b", pod->shape->whole_node ? node->allocatable[pod->shape->device]
                                                           : pod->shape->device_amount)},
           {"planned", pod->charge == Charge::kPlanned}});
      if (node->track == DeviceTrack::kKept) pods.back()["indices"] = Indices(pod->devices);
    }
    items.push_back({{"name", node->name},
                     {"unschedulable", node->object.unschedulable},
                     {"domains", domains},
                     {"devices", devices},
                     {"hardware", HardwareJson(*node)},
                     {"pods", pods}});
  }
  return Dump({{"items", items}});
}

std::string WhyJson(const engine::Engine& engine, std::string_view ns, std::string_view name,
                    engine::TimePoint now) {
  const engine::Explanation why = engine.Why(ns, name, now);
  if (!why.found) return {};
  return Dump({{"pod", std::string(ns) + "/" + std::string(name)},
               {"phase", why.phase},
               {"reason", cluster::Token(why.verdict.reason)},
               {"message", cluster::Sentence(why.verdict)},
               {"want", why.verdict.want},
               {"have", why.verdict.have},
               {"subject", why.verdict.subject},
               {"queue", why.queue},
               {"queueFrom", why.queue_from},
               {"gangFrom", why.gang_from},
               {"workload", why.workload},
               {"gang", why.gang},
               {"members", why.members},
               {"minMember", why.min_member},
               {"bound", why.bound},
               {"node", why.node},
               {"waitingSeconds", why.waiting_ms / 1000}});
}

namespace {

void FeedQueues(const cluster::Store& store, Metrics& metrics) {
  std::vector<QueueRow> rows;
  for (const cluster::QueueInfo& queue : store.queues()) {
    std::set<std::string> names;
    for (const auto& [name, amount] : queue.config.quota) names.insert(name);
    for (const auto& [name, amount] : queue.config.limit) names.insert(name);
    for (const cluster::ResourceId id : store.device_ids())
      names.insert(store.resources().Name(id));
    for (const std::string& name : names) {
      std::int64_t used = 0;
      for (std::size_t id = 0; id < store.resources().size(); ++id) {
        const auto rid = static_cast<cluster::ResourceId>(id);
        if (store.resources().Name(rid) == name) used = queue.used[rid];
      }
      QueueRow row{.queue = queue.config.name,
                   .resource = name,
                   .used = Whole(name, used),
                   .quota = 0,
                   .limit = {}};
      if (const auto it = queue.config.quota.find(name); it != queue.config.quota.end()) {
        row.quota = Whole(name, it->second);
      }
      if (const auto it = queue.config.limit.find(name); it != queue.config.limit.end()) {
        row.limit = Whole(name, it->second);
      }
      rows.push_back(std::move(row));
    }
  }
  metrics.ReplaceQueues(rows);
}

void FeedWorkloads(const cluster::Store& store, Metrics& metrics) {
  std::map<std::pair<std::string, std::string>, double> pending;
  std::map<std::string, double> phases{
      {"Gathering", 0}, {"Pending", 0}, {"Starting", 0}, {"Started", 0}};
  for (const auto& [key, workload] : store.workloads()) {
    if (workload->gang) ++phases[PhaseOf(*workload)];
    if (!Waits(*workload)) continue;
    const std::string reason = ReasonOf(*workload);
    ++pending[{QueueOf(store, *workload), reason.empty() ? "Arriving" : reason}];
  }
  std::vector<PendingRow> rows;
  for (const auto& [key, count] : pending) {
    rows.push_back({.queue = key.first, .reason = key.second, .workloads = count});
  }
  metrics.ReplacePending(rows);
  std::vector<LabelledValue> gangs;
  for (const auto& [phase, count] : phases) gangs.push_back({.label = phase, .value = count});
  metrics.ReplaceGangs(gangs);
}

void FeedShape(const cluster::Store& store, Metrics& metrics) {
  std::vector<LabelledValue> ratios;
  for (const cluster::ResourceId id : store.device_ids()) {
    ratios.push_back(
        {.label = store.resources().Name(id), .value = cluster::FragmentationRatio(store, id)});
  }
  metrics.ReplaceFragmentation(ratios);
  std::vector<LargestGangRow> gangs;
  for (const auto& gang : policy::LargestGangs(store, policy::PodSizes(store))) {
    const auto& levels = store.policy().levels;
    gangs.push_back({.level = gang.level == policy::kWholeCluster
                                  ? "cluster"
                                  : levels[static_cast<std::size_t>(gang.level)].name,
                     .pod_gpus = static_cast<int>(gang.devices),
                     .pods = static_cast<double>(gang.pods)});
  }
  metrics.ReplaceLargestGangs(gangs);
}

/// Of nodes that have devices.
void FeedHardware(const cluster::Store& store, Metrics& metrics) {
  std::map<std::string_view, double> states{{"counted", 0}, {"kept", 0}, {"count_only", 0}};
  std::map<std::string_view, double> sources;
  for (const auto source :
       {HardwareSource::kUnknown, HardwareSource::kRefused, HardwareSource::kAnnotation,
        HardwareSource::kHami, HardwareSource::kLabels}) {
    sources[SourceName(source)] = 0;
  }
  for (const auto& node : store.nodes()) {
    const bool has =
        !store.device_ids().empty() && node->allocatable[store.device_ids().front()] > 0;
    if (!node->present || !has) continue;
    ++states[TrackName(node->track)];
    ++sources[SourceName(node->hardware)];
  }
  const auto rows = [](const std::map<std::string_view, double>& values) {
    std::vector<LabelledValue> result;
    for (const auto& [label, value] : values) {
      result.push_back({.label = std::string(label), .value = value});
    }
    return result;
  };
  metrics.ReplaceDeviceNodes(rows(states));
  metrics.ReplaceHardwareNodes(rows(sources));
}

}  // namespace

void FeedGauges(const engine::Engine& engine, Metrics& metrics) {
  const cluster::Store& store = engine.store();
  metrics.ReplaceCacheObjects(std::vector<LabelledValue>{
      {.label = "nodes", .value = static_cast<double>(store.present_nodes())},
      {.label = "pods", .value = static_cast<double>(store.pods().size())},
      {.label = "workloads", .value = static_cast<double>(store.workloads().size())},
      {.label = "queues", .value = static_cast<double>(store.queues().size())}});
  if (!engine.started()) {
    metrics.ReplaceQueues({});
    metrics.ReplacePending({});
    metrics.ReplaceGangs({});
    metrics.ReplacePlans({});
    metrics.ReplaceFragmentation({});
    metrics.ReplaceDeviceNodes({});
    metrics.ReplaceHardwareNodes({});
    metrics.ReplaceLargestGangs({});
    return;
  }
  FeedQueues(store, metrics);
  FeedWorkloads(store, metrics);
  FeedShape(store, metrics);
  FeedHardware(store, metrics);
  const auto [uncommitted, committed] = engine.PlanCounts();
  metrics.ReplacePlans(
      std::vector<LabelledValue>{{.label = "waiting", .value = static_cast<double>(uncommitted)},
                                 {.label = "committed", .value = static_cast<double>(committed)}});
}

}  // namespace berth::server
