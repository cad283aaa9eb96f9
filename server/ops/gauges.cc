// The numbers behind the gauges.
#include <algorithm>
#include <set>
#include <span>

#include "cluster/measures.h"
#include "kube/quantity.h"
#include "policy/largest_gang.h"
#include "server/ops/view_text.h"
#include "server/ops/views.h"
#include "server/ops/workload_view.h"

namespace berth::server {
namespace {

using cluster::DeviceTrack;
using cluster::HardwareSource;

void FeedQueues(const cluster::Store& store, Metrics& metrics) {
  std::vector<QueueRow> rows;
  for (const cluster::QueueId queue_id : store.queues()) {
    const cluster::QueueInfo& queue = store.queue(queue_id);
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

/// Returns what sizes the pods have.
policy::SizeCount FeedWorkloads(const InParts& read, Metrics& metrics) {
  policy::SizeCount sizes;
  std::map<std::pair<std::string, std::string>, double> pending;
  std::map<std::string_view, double> phases{
      {"Gathering", 0}, {"Pending", 0}, {"Starting", 0}, {"Started", 0}, {"Refused", 0}};
  ForEachWorkload(read, [&](const engine::Engine& engine, const cluster::Workload& workload, auto) {
    sizes.Add(engine.store(), workload);
    if (workload.gang) ++phases[PhaseOf(engine, workload)];
    if (!Waits(workload)) return;
    ++pending[{QueueOf(engine.store(), workload), ReasonOf(engine, workload)}];
  });
  std::vector<PendingRow> rows;
  for (const auto& [key, count] : pending) {
    rows.push_back({.queue = key.first, .reason = key.second, .workloads = count});
  }
  metrics.ReplacePending(rows);
  std::vector<LabelledValue> gangs;
  for (const auto& [phase, count] : phases) {
    gangs.push_back({.label = std::string(phase), .value = count});
  }
  metrics.ReplaceGangs(gangs);
  return sizes;
}

void FeedFragmentation(const cluster::Store& store, Metrics& metrics) {
  std::vector<LabelledValue> ratios;
  for (const cluster::ResourceId id : store.device_ids()) {
    ratios.push_back(
        {.label = store.resources().Name(id), .value = cluster::FragmentationRatio(store, id)});
  }
  metrics.ReplaceFragmentation(ratios);
}

void FeedLargestGangs(const cluster::Store& store, std::span<const policy::PodSize> sizes,
                      Metrics& metrics) {
  if (store.reading()) return;  // domains may not be complete: the last numbers stay
  std::vector<LargestGangRow> gangs;
  for (const auto& gang : policy::LargestGangs(store, sizes)) {
    const auto& levels = store.policy().levels;
    gangs.push_back({.level = gang.level == policy::kWholeCluster
                                  ? "cluster"
                                  : levels[static_cast<std::size_t>(gang.level)].name,
                     .pod_gpus = static_cast<int>(gang.devices),
                     .pods = static_cast<double>(gang.pods)});
  }
  metrics.ReplaceLargestGangs(gangs);
}

/// Sets the gauges of nodes that have devices.
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

void FeedCache(const engine::Engine& engine, Metrics& metrics) {
  const cluster::Store& store = engine.store();
  metrics.SetStandingBinds(engine.parked_binds());
  metrics.ReplaceCacheObjects(std::vector<LabelledValue>{
      {.label = "nodes", .value = static_cast<double>(store.present_nodes())},
      {.label = "pods", .value = static_cast<double>(store.pods().size())},
      {.label = "workloads", .value = static_cast<double>(store.workloads().size())},
      {.label = "queues", .value = static_cast<double>(store.queues().size())}});
}

void FeedPlans(const engine::Engine& engine, Metrics& metrics) {
  const auto [uncommitted, committed] = engine.PlanCounts();
  metrics.ReplacePlans(
      std::vector<LabelledValue>{{.label = "waiting", .value = static_cast<double>(uncommitted)},
                                 {.label = "committed", .value = static_cast<double>(committed)}});
}

}  // namespace

void FeedGauges(const InParts& read, Metrics& metrics) {
  /// Each in a part of its own. False: the engine has not started, or has resigned meanwhile.
  const auto decides = [&](const auto& feed) {
    bool started = false;
    read([&](const engine::Engine& engine, auto) {
      started = engine.started();
      if (started) feed(engine);
      return false;
    });
    return started;
  };
  read([&](const engine::Engine& engine, auto) {
    FeedCache(engine, metrics);
    return false;
  });
  policy::SizeCount sizes;
  const auto workloads = [&] {
    sizes = FeedWorkloads(read, metrics);
    return true;
  };
  const bool decided =
      decides([&](const engine::Engine& engine) { FeedQueues(engine.store(), metrics); }) &&
      workloads() &&
      decides([&](const engine::Engine& engine) { FeedFragmentation(engine.store(), metrics); }) &&
      decides([&](const engine::Engine& engine) {
        FeedLargestGangs(engine.store(), sizes.Sizes(engine.store()), metrics);
      }) &&
      decides([&](const engine::Engine& engine) { FeedHardware(engine.store(), metrics); }) &&
      decides([&](const engine::Engine& engine) { FeedPlans(engine, metrics); });
  if (decided) return;
  metrics.ReplaceQueues({});
  metrics.ReplacePending({});
  metrics.ReplaceGangs({});
  metrics.ReplacePlans({});
  metrics.ReplaceFragmentation({});
  metrics.ReplaceDeviceNodes({});
  metrics.ReplaceHardwareNodes({});
  metrics.ReplaceLargestGangs({});
}

}  // namespace berth::server
