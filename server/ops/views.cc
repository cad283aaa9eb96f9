#include "server/ops/views.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory_resource>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "cluster/queue_refusal.h"
#include "kube/quantity.h"
#include "kube/time.h"
#include "server/ops/forecast.h"
#include "server/ops/positions.h"
#include "server/ops/queue_numbers.h"
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

/// The items of a page, as text at once: values by the hundred thousand would be freed together,
/// and malloc would then tidy up for 20 ms during some later call, under the lock.
class Items {
 public:
  void Add(const Json& item) {
    constexpr std::size_t kChunk = 65'536;
    if (chunks_.empty() || chunks_.back().size() >= kChunk) chunks_.emplace_back();
    chunks_.back() += (first_ ? "" : ",") + Dump(item);
    first_ = false;
  }
  std::string Page() const {
    std::string page = R"({"items":[)";
    for (const std::string& chunk : chunks_) page += chunk;
    return page + "]}";
  }

 private:
  std::deque<std::string> chunks_;
  bool first_ = true;
};

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
  int position = 0;                    ///< Of `next`; 0: nobody who may be named is in line.
  Json next{};
  std::vector<std::string>
      line;  ///< The first workloads in line, as many as forecasts are made of.
};

Json Counts(const std::map<std::string, int>& counts) {
  Json json = Json::object();
  for (const auto& [reason, count] : counts) json[reason] = count;
  return json;
}

/// Whole device-seconds by resource.
Json Seconds(const cluster::Usage& used) {
  Json json = Json::object();
  for (const auto& [resource, milliseconds] : used) json[resource] = milliseconds / 1000;
  return json;
}

/// Devices by resource, to thousandths.
Json DevicesJson(const cluster::Usage& milli) {
  Json json = Json::object();
  for (const auto& [resource, amount] : milli) json[resource] = static_cast<double>(amount) / 1000;
  return json;
}

/// What queues and their users have used, by the name of the queue.
class UsedByQueue {
 public:
  explicit UsedByQueue(const InParts& read) {
    read([this](const engine::Engine& engine, auto now) {
      if (auto record = engine.store().UsageUntil(now)) record_ = *std::move(record);
      has_past_ = engine.store().policy().fairness.half_life.count() > 0;
      return false;
    });
    for (const auto& entry : record_.queues) {
      queues_[entry.queue] = Seconds(entry.used);
      past_[entry.queue] = DevicesJson(entry.past);
    }
    for (const auto& entry : record_.users) {
      users_[entry.queue].push_back({{"user", entry.user}, {"deviceSeconds", Seconds(entry.used)}});
    }
  }
  Json Of(const std::string& queue) const { return Find(queues_, queue, Json::object()); }
  Json UsersOf(const std::string& queue) const { return Find(users_, queue, Json::array()); }
  /// What the queue held on average; null without fairness.halfLife.
  Json PastOf(const std::string& queue) const {
    return has_past_ ? Find(past_, queue, Json::object()) : Json();
  }

 private:
  using ByQueue = std::map<std::string, Json>;
  static Json Find(const ByQueue& map, const std::string& queue, const Json& otherwise) {
    const auto it = map.find(queue);
    return it == map.end() ? otherwise : it->second;
  }

  cluster::UsageRecord record_;
  bool has_past_ = false;
  ByQueue queues_;
  ByQueue past_;
  ByQueue users_;
};

/// Of the queue's workloads in line, the first one; of those in `ns`, if that is not empty: nobody
/// is told the names of other tenants' jobs.
void NoteNext(Waiting& queue, const Workload& workload, int position, std::string_view ns,
              cluster::TimePoint now) {
  if (!ns.empty() && workload.ns != ns) return;
  if (position == 0 || (queue.position != 0 && queue.position < position)) return;
  queue.position = position;
  queue.next = {{"namespace", workload.ns},
                {"name", workload.name},
                {"gang", workload.gang},
                {"position", position},
                {"waitingSeconds", WaitOf(workload, now) / 1000}};
}

void NoteInLine(Waiting& queue, const Workload& workload, int position) {
  const auto place = static_cast<std::size_t>(position);
  if (position == 0 || place > Forecasts::kMostBefore + 1) return;
  if (queue.line.size() < place) queue.line.resize(place);
  queue.line[place - 1] = workload.key;
}

/// When `next` is expected to start, RFC 3339; null: it is not known.
Json StartOf(const Waiting& queue, Forecasts& forecasts) {
  const auto position = static_cast<std::size_t>(queue.position);
  if (position > queue.line.size()) return {};
  const engine::TimePoint start = forecasts.Of(std::span(queue.line).first(position));
  return start == 0 ? Json() : Json(kube::FormatTime(start));
}

/// `named`: whether to say who is next.
std::map<std::string, Waiting> WaitingByQueue(const InParts& read, std::string_view ns, bool named,
                                              QueueReader& numbers) {
  std::pmr::monotonic_buffer_resource memory;
  const Positions positions = named ? PositionsOf(read, memory) : Positions(&memory);
  std::map<std::string, Waiting> queues;
  ForEachWorkload(
      read, [&](const engine::Engine& engine, const Workload& workload, cluster::TimePoint now) {
        numbers.Visit(engine, workload);
        if (!Waits(workload)) return;
        const cluster::Store& store = engine.store();
        Waiting& queue = queues[QueueOf(store, workload)];
        ++queue.pending[ReasonOf(engine, workload)];
        const auto place = positions.find(workload.key);
        const int position = place == positions.end() ? 0 : place->second;
        NoteNext(queue, workload, position, ns, now);
        NoteInLine(queue, workload, position);
        for (const PodInfo* pod : workload.faulty) {
          if (pod->refusal.reason == cluster::ReasonId::kWaitingForMembers) continue;
          ++queues[QueueOf(store, *pod)].refused[std::string(cluster::Token(pod->refusal.reason))];
        }
      });
  std::optional<Forecasts> forecasts;
  for (auto& [name, queue] : queues) {
    if (queue.position == 0) continue;
    if (!forecasts) forecasts.emplace(read);
    queue.next["estimatedStart"] = StartOf(queue, *forecasts);
  }
  return queues;
}

kube::ResourceList UsedOf(const cluster::Store& store, const cluster::QueueInfo& queue) {
  kube::ResourceList used;
  for (std::size_t id = 0; id < queue.used.size(); ++id) {
    const auto rid = static_cast<cluster::ResourceId>(id);
    if (queue.used[rid] == 0 || store.resources().FindPart(rid) != nullptr) continue;
    used[store.resources().Name(rid)] = queue.used[rid];
  }
  return used;
}

Json PartsJson(const cluster::Store& store, const cluster::QueueInfo& queue) {
  Json parts = Json::array();
  for (const PartNumbers& numbers : PartsOf(store, queue)) {
    // Everywhere a quota restricts non-preemptible work: told only where there is some.
    if (numbers.part.non_preemptible && numbers.used == 0) continue;
    const std::string& name = store.resources().Name(numbers.part.whole);
    parts.push_back({{"resource", name},
                     {"flavor", numbers.part.flavor},
                     {"nonPreemptible", numbers.part.non_preemptible},
                     {"used", kube::Format(name, numbers.used)}});
    if (numbers.quota != 0) parts.back()["quota"] = kube::Format(name, numbers.quota);
    if (numbers.limit) parts.back()["limit"] = kube::Format(name, *numbers.limit);
  }
  return parts;
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
          {"phase", refused ? "Refused" : ShownPhaseOf(engine, workload)},
          {"reason",
           refused ? std::string(cluster::Token(pod.refusal.reason)) : ReasonOf(engine, workload)},
          {"message", refused ? cluster::Sentence(pod.refusal) : MessageOf(engine, workload)},
          {"since", kube::FormatTime(meta.creation)},
          {"waitingSeconds", std::max<std::int64_t>(0, now - meta.creation) / 1000}};
}

Json NodeJson(const cluster::Store& store, const cluster::NodeInfo& node) {
  Json devices = Json::object();
  for (const cluster::ResourceId id : store.device_ids()) {
    if (node.allocatable[id] == 0 && node.used[id] == 0) continue;
    const std::string& name = store.resources().Name(id);
    devices[name] = {{"allocatable", kube::Format(name, node.allocatable[id])},
                     {"used", kube::Format(name, node.used[id])}};
  }
  Json domains = Json::object();
  for (std::size_t level = 0; level < node.domains.size(); ++level) {
    if (node.domains[level] == cluster::kNoDomain) continue;
    domains[store.policy().levels[level].name] =
        store.domains()[static_cast<std::size_t>(node.domains[level])].name;
  }
  Json pods = Json::array();
  for (const PodInfo* pod : node.pods) {
    if (!pod->shape->asks_device) continue;
    pods.push_back(
        {{"pod", pod->object.meta.ns + "/" + pod->object.meta.name},
         {"queue", pod->workload == nullptr ? "" : QueueOf(store, *pod->workload)},
         {"devices", Whole("a/b", pod->shape->whole_node ? node.allocatable[pod->shape->device]
                                                         : pod->shape->device_amount)},
         {"planned", pod->charge == Charge::kPlanned}});
    if (node.track == DeviceTrack::kKept) pods.back()["indices"] = Indices(pod->devices);
  }
  const auto& labels = node.object.meta.labels;
  const auto model = labels.find("nvidia.com/gpu.product");
  return {{"name", node.name},
          {"unschedulable", node.object.unschedulable},
          {"ready", node.object.ready},
          {"reason", OutReason(node.object)},
          {"taints", Taints(node.object)},
          {"model", model == labels.end() ? "" : model->second},
          {"domains", domains},
          {"devices", devices},
          {"hardware", HardwareJson(node)},
          {"pods", pods}};
}

}  // namespace

std::string QueuesJson(const InParts& read, std::string_view ns, bool namespaces) {
  QueueReader reader;
  // Everybody may ask for the page of all queues, unless it has names anyway.
  auto waiting = WaitingByQueue(read, ns, namespaces || !ns.empty(), reader);
  reader.Compute(read);
  const UsedByQueue used(read);
  Items items;
  std::size_t next = 0;
  read([&](const engine::Engine& engine, auto) {
    constexpr std::size_t kQueuesInPart = 100;
    const cluster::Store& store = engine.store();
    const auto& queues = store.queues();
    for (std::size_t i = 0; i < kQueuesInPart && next < queues.size(); ++i, ++next) {
      const cluster::QueueInfo& queue = store.queue(queues[next]);
      if (!ns.empty() && !cluster::Admits(queue.config, ns)) continue;
      const Waiting& waits = waiting[queue.config.name];
      const QueueNumbers& numbers = reader.Of(queue.config.name);
      Json item = {{"name", queue.config.name},
                   {"parent", queue.config.parent},
                   {"quota", Quantities(config::TotalQuota(queue.config))},
                   {"limit", Quantities(queue.config.limit)},
                   {"used", Quantities(UsedOf(store, queue))},
                   {"borrowed", Quantities(numbers.borrowed)},
                   {"lent", Quantities(numbers.lent)},
                   {"fairShare", Quantities(numbers.fair_share)},
                   {"parts", PartsJson(store, queue)},
                   {"deviceSeconds", used.Of(queue.config.name)},
                   {"pending", Counts(waits.pending)},
                   {"refused", Counts(waits.refused)}};
      if (waits.position != 0) item["next"] = waits.next;
      if (Json past = used.PastOf(queue.config.name); !past.is_null()) {
        item["pastUse"] = std::move(past);
      }
      if (namespaces) {
        item["namespaces"] = queue.config.namespaces.value_or(std::vector<std::string>{});
        item["users"] = used.UsersOf(queue.config.name);
      }
      items.Add(item);
    }
    return next < queues.size();
  });
  const auto none = waiting.find(std::string(kNoQueueName));
  if (ns.empty() && none != waiting.end()) {
    items.Add({{"name", kNoQueueName},
               {"parent", ""},
               {"quota", Json::object()},
               {"limit", Json::object()},
               {"used", Json::object()},
               {"borrowed", Json::object()},
               {"lent", Json::object()},
               {"fairShare", Json::object()},
               {"parts", Json::array()},
               {"deviceSeconds", Json::object()},
               {"pending", Counts(none->second.pending)},
               {"refused", Counts(none->second.refused)}});
  }
  return items.Page();
}

std::string GangsJson(const InParts& read, std::string_view ns) {
  Items items;
  ForEachWorkload(
      read, [&](const engine::Engine& engine, const Workload& workload, engine::TimePoint now) {
        if (!workload.gang || (!ns.empty() && workload.ns != ns)) return;
        const cluster::Store& store = engine.store();
        const bool waits = !workload.started;
        std::set<std::string> nodes;
        for (const PodInfo* pod : workload.members) {
          if (pod->node != cluster::kNoNode) nodes.insert(store.node(pod->node).name);
        }
        items.Add({{"namespace", workload.ns},
                   {"name", workload.name},
                   {"queue", QueueOf(store, workload)},
                   {"phase", ShownPhaseOf(engine, workload)},
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
      });
  return items.Page();
}

std::string PodsJson(const InParts& read, std::string_view ns) {
  std::pmr::monotonic_buffer_resource memory;
  const Positions positions = PositionsOf(read, memory);
  Items items;
  ForEachWorkload(
      read, [&](const engine::Engine& engine, const Workload& workload, engine::TimePoint now) {
        if (!ns.empty() && workload.ns != ns) return;
        const auto place = positions.find(workload.key);
        const int position = place == positions.end() ? 0 : place->second;
        for (const auto* pods : {&workload.members, &workload.faulty}) {
          for (const PodInfo* pod : *pods) {
            if (pod->bound() || pod->charge == Charge::kBinding) continue;
            items.Add(PodJson(engine, *pod, position, now));
          }
        }
      });
  return items.Page();
}

std::string NodesJson(const InParts& read) {
  std::map<std::string, std::string> nodes;
  ForEachNode(read, [&](const engine::Engine& engine, const cluster::NodeInfo& node) {
    nodes[node.name] = Dump(NodeJson(engine.store(), node));
  });
  std::string page = R"({"items":[)";
  bool first = true;
  for (const auto& [name, node] : nodes) page += (std::exchange(first, false) ? "" : ",") + node;
  return page + "]}";
}

}  // namespace berth::server
