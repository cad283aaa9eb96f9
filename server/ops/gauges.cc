// The numbers behind the gauges.
#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "cluster/measures.h"
#include "kube/quantity.h"
#include "policy/largest_gang.h"
#include "server/ops/queue_numbers.h"
#include "server/ops/view_text.h"
#include "server/ops/views.h"
#include "server/ops/workload_view.h"

namespace berth::server {
namespace {

using cluster::DeviceTrack;
using cluster::HardwareSource;

void AppendRows(const cluster::Store& store, const cluster::QueueInfo& queue,
                const QueueNumbers& numbers, std::vector<QueueRow>& rows) {
  const kube::ResourceList quota = config::TotalQuota(queue.config);
  std::set<std::string> names;
  for (const auto& [name, amount] : quota) names.insert(name);
  for (const auto& [name, amount] : queue.config.limit) names.insert(name);
  for (const cluster::ResourceId id : store.device_ids()) names.insert(store.resources().Name(id));
  const std::string parent =
      queue.path.size() > 1 ? store.queue(queue.path[1]).config.name : std::string();
  for (const std::string& name : names) {
    const auto of = [&](const kube::ResourceList& amounts) {
      const auto it = amounts.find(name);
      return it == amounts.end() ? std::nullopt : std::optional(Whole(name, it->second));
    };
    const auto id = store.resources().Find(name);
    rows.push_back({.queue = queue.config.name,
                    .resource = name,
                    .used = id ? Whole(name, queue.used[*id]) : 0,
                    .quota = of(quota).value_or(0),
                    .limit = of(queue.config.limit),
                    .borrowed = of(numbers.borrowed).value_or(0),
                    .fair_share = of(numbers.fair_share),
                    .parent = parent});
  }
  for (const PartNumbers& part : PartsOf(store, queue)) {
    if (part.part.non_preemptible || part.part.flavor.empty()) continue;
    const std::string& name = store.resources().Name(part.part.whole);
    rows.push_back({.queue = queue.config.name,
                    .resource = name,
                    .used = Whole(name, part.used),
                    .quota = Whole(name, part.quota),
                    .limit = part.limit ? std::optional(Whole(name, *part.limit)) : std::nullopt,
                    .parent = parent,
                    .flavor = part.part.flavor});
  }
}

std::vector<QueueRow> ReadQueues(const InParts& read, const QueueReader& reader) {
  constexpr std::size_t kQueuesInPart = 200;
  std::vector<QueueRow> rows;
  std::size_t next = 0;
  read([&](const engine::Engine& engine, auto) {
    const cluster::Store& store = engine.store();
    const auto& queues = store.queues();
    for (std::size_t i = 0; i < kQueuesInPart && next < queues.size(); ++i, ++next) {
      const cluster::QueueInfo& queue = store.queue(queues[next]);
      AppendRows(store, queue, reader.Of(queue.config.name), rows);
    }
    return next < queues.size();
  });
  return rows;
}

struct WorkloadCounts {
  std::map<std::pair<std::string, std::string>, double> pending{};  ///< By queue and reason.
  std::map<std::string_view, double> phases{
      {"Gathering", 0}, {"Pending", 0}, {"Starting", 0}, {"Started", 0}, {"Refused", 0}};
  QueueReader queues{};
  policy::SizeCount sizes{};
};

WorkloadCounts CountWorkloads(const InParts& read) {
  WorkloadCounts counts;
  ForEachWorkload(read, [&](const engine::Engine& engine, const cluster::Workload& workload, auto) {
    counts.queues.Visit(engine, workload);
    counts.sizes.Add(engine.store(), workload);
    if (workload.gang) ++counts.phases[ShownPhaseOf(engine, workload)];
    if (!Waits(workload)) return;
    ++counts.pending[{QueueOf(engine.store(), workload), ReasonOf(engine, workload)}];
  });
  counts.queues.Compute(read);
  return counts;
}

/// Returns what sizes the pods have.
policy::SizeCount FeedWorkloads(const InParts& read, Metrics& metrics) {
  WorkloadCounts counts = CountWorkloads(read);
  metrics.ReplaceQueues(ReadQueues(read, counts.queues));
  std::vector<PendingRow> rows;
  for (const auto& [key, count] : counts.pending) {
    rows.push_back({.queue = key.first, .reason = key.second, .workloads = count});
  }
  metrics.ReplacePending(rows);
  std::vector<LabelledValue> gangs;
  for (const auto& [phase, count] : counts.phases) {
    gangs.push_back({.label = std::string(phase), .value = count});
  }
  metrics.ReplaceGangs(gangs);
  return std::move(counts.sizes);
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
  metrics.SetParkedBinds(engine.parked_binds());
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
      decides([](const engine::Engine&) {}) && workloads() &&
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

void FeedUsage(const cluster::UsageRecord& record, Metrics& metrics) {
  const std::string other = "other";
  // A queue or a user may be called `other`, too.
  std::map<std::pair<std::string, std::string>, cluster::Usage> sums;
  for (const auto& queue : record.queues) {
    cluster::AddUsage(sums[{queue.named ? queue.queue : other, {}}], queue.used);
  }
  for (const auto& user : record.users) cluster::AddUsage(sums[{user.queue, user.user}], user.used);
  cluster::AddUsage(sums[{other, {}}], record.other_queues);
  cluster::AddUsage(sums[{other, other}], record.other_users);
  std::vector<UsageRow> rows;
  for (const auto& [of, used] : sums) {
    for (const auto& [resource, milliseconds] : used) {
      rows.push_back({.queue = of.first,
                      .user = of.second,
                      .resource = resource,
                      .seconds = static_cast<double>(milliseconds) / 1000.0});
    }
  }
  metrics.ReplaceUsage(rows);
}

}  // namespace berth::server
