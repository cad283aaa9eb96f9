#include "server/ops/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <tuple>
#include <utility>
#include <vector>

#include "server/http/http_server.h"

namespace berth::server {
namespace {

using prometheus::MetricType;

/// STABLE: name, labels and meaning stay. ALPHA: may still change with a release note.
enum class Stability : std::uint8_t { kStable, kAlpha };

struct MetricInfo {
  std::string_view name;
  MetricType type;
  std::string_view labels;  ///< For people: `verb, code`.
  Stability stability;
  std::string_view help;
};

enum Id : std::uint8_t {
  kRequestDuration,
  kRequestDecodeErrors,
  kHttpEvents,
  kParkedBinds,
  kOpsAuth,
  kEvents,
  kTlsReload,
  kTlsExpiry,
  kPendingWorkloads,
  kGangs,
  kGangWait,
  kQueueUsed,
  kQueueQuota,
  kQueueLimit,
  kQueueBorrowed,
  kQueueFairShare,
  kQueueFlavorUsed,
  kQueueFlavorQuota,
  kQueueFlavorLimit,
  kQueueUsage,
  kUserUsage,
  kFragmentation,
  kDeviceNodes,
  kDraIgnored,
  kHardwareNodes,
  kLargestGang,
  kBinds,
  kPlans,
  kEvictions,
  kEvictionsInVain,
  kSnapshotAge,
  kWatchRestarts,
  kLists,
  kObjectProblems,
  kCacheObjects,
  kLeader,
  kPolicyReload,
  kBuildInfo,
  kProcessCpu,
  kProcessMemory,
  kProcessFds,
  kMetricCount,
};

constexpr std::array<MetricInfo, kMetricCount> kTable{{
    {"berth_request_duration_seconds", MetricType::Histogram, "verb, code", Stability::kStable,
     "Time to answer an extender call, by verb and HTTP status. Binds include their time at the "
     "gang barrier."},
    {"berth_request_decode_errors_total", MetricType::Counter, "verb", Stability::kAlpha,
     "Extender calls whose body could not be decoded: a caller or its configuration is wrong."},
    {"berth_http_events_total", MetricType::Counter, "listener, event", Stability::kAlpha,
     "Connections and requests refused or failed around the handlers: shed, bad_request, "
     "too_large, overloaded, exception, tls_refused."},
    {"berth_standing_binds", MetricType::Gauge, "", Stability::kAlpha,
     "Bind calls that wait at a gang barrier."},
    {"berth_ops_auth_total", MetricType::Counter, "result", Stability::kAlpha,
     "Requests to the operations port under --ops-auth kubernetes: allowed, unauthorized (401), "
     "forbidden (403), error (503: the API server did not say)."},
    {"berth_events_total", MetricType::Counter, "result", Stability::kAlpha,
     "Kubernetes Events: written, aggregated (said a moment ago, counted in the next), limited "
     "(their "
     "namespace has had too many), failed, dropped (too many wait to be written)."},
    {"berth_tls_last_reload_successful", MetricType::Gauge, "listener", Stability::kAlpha,
     "0 after certificate files were refused, or while the certificate in force has expired: the "
     "last good files stay."},
    {"berth_tls_certificate_expiry_timestamp_seconds", MetricType::Gauge, "listener",
     Stability::kAlpha, "When the certificate that is in force ends, in seconds since the epoch."},
    {"berth_pending_workloads", MetricType::Gauge, "queue, reason", Stability::kStable,
     "Workloads that wait, by the reason that `berth why` gives."},
    {"berth_gangs", MetricType::Gauge, "phase", Stability::kStable, "Gangs by phase."},
    {"berth_gang_wait_seconds", MetricType::Histogram, "", Stability::kStable,
     "Time from a gang's first member to the commit of its minimum."},
    {"berth_queue_used", MetricType::Gauge, "queue, resource", Stability::kStable,
     "Devices that a queue and those below it hold."},
    {"berth_queue_quota", MetricType::Gauge, "queue, resource", Stability::kStable,
     "Devices that a queue, with those below it, is promised."},
    {"berth_queue_limit", MetricType::Gauge, "queue, resource", Stability::kStable,
     "Devices that a queue, with those below it, can never exceed. Absent: no limit."},
    {"berth_queue_borrowed", MetricType::Gauge, "queue, resource", Stability::kStable,
     "Devices that a queue, with those below it, holds above its quota (docs/queues.md)."},
    {"berth_queue_fair_share", MetricType::Gauge, "queue, resource", Stability::kAlpha,
     "Devices that a queue, with those below it, is entitled to by quota, weight and demand "
     "(docs/queues.md)."},
    {"berth_queue_flavor_used", MetricType::Gauge, "queue, flavor, resource", Stability::kAlpha,
     "Devices that a queue and those below it hold on the nodes of one flavor. Of queues that have "
     "amounts of single flavors, or are below one that has."},
    {"berth_queue_flavor_quota", MetricType::Gauge, "queue, flavor, resource", Stability::kAlpha,
     "Devices of one flavor that a queue, with those below it, is promised."},
    {"berth_queue_flavor_limit", MetricType::Gauge, "queue, flavor, resource", Stability::kAlpha,
     "Devices of one flavor that a queue, with those below it, can never exceed. Absent: no "
     "limit."},
    {"berth_queue_device_seconds_total", MetricType::Counter, "queue, resource", Stability::kAlpha,
     "Devices that the bound pods of a queue, and of those below it, hold, times seconds: GPU "
     "hours "
     "are a 3600th. Goes on over restarts (docs/queues.md). The first 100 queues that use devices "
     "have a label of their own."},
    {"berth_user_device_seconds_total", MetricType::Counter, "queue, user, resource",
     Stability::kAlpha,
     "The same by user, of the queue itself. Up to 1,000 users; the others are queue `other`, user "
     "`other`."},
    {"berth_fragmentation_ratio", MetricType::Gauge, "resource", Stability::kAlpha,
     "Share of the free devices that are on nodes where others are taken, 0 to 1."},
    {"berth_device_nodes", MetricType::Gauge, "state", Stability::kAlpha,
     "Nodes with devices, by how these are tracked: counted (no component there honours device "
     "indices), kept (tracked individually), count_only (a component is declared to honour "
     "indices, "
     "but not all devices can be accounted for)."},
    {"berth_dra_ignored", MetricType::Gauge, "reason", Stability::kAlpha,
     "What DRA drivers publish and Berth cannot count as devices of a node: class_selector (device "
     "classes), no_node (slices), divisible and tainted (devices)."},
    {"berth_hardware_nodes", MetricType::Gauge, "source", Stability::kAlpha,
     "Nodes with devices, by where their hardware is read: annotation, hami, labels, unknown, "
     "refused (what is said cannot be true)."},
    {"berth_largest_placeable_gang_pods", MetricType::Gauge, "level, pod_gpus", Stability::kAlpha,
     "Pods of the largest gang that could start now inside one domain of a topology level "
     "(cluster: anywhere), by devices per pod: 1, 2, 4, 8, and up to four more sizes in use."},
    {"berth_binds_total", MetricType::Counter, "result", Stability::kStable,
     "Binds by how they ended."},
    {"berth_plans", MetricType::Gauge, "state", Stability::kAlpha, "Plans by state."},
    {"berth_evictions_total", MetricType::Counter, "reason", Stability::kStable,
     "Pods evicted by Berth, by why: `preemption` for work of higher priority in their queue, "
     "`reclaim` for work of another queue, `drain` because their queue is drained."},
    {"berth_evictions_in_vain_total", MetricType::Counter, "reason", Stability::kAlpha,
     "Pods evicted for work whose plan ended before any of it was bound, by what ended it: the "
     "work is gone or changed (`gone`, `changed`), or it yields to other work (`yields`), the "
     "`policy`, a `node`, `scheduler` (kube-scheduler did not take the places in time), or other "
     "`victims` that stay. The work may get the room later all the same."},
    {"berth_snapshot_age_seconds", MetricType::Gauge, "", Stability::kStable,
     "Age of the cluster state that decisions are made on."},
    {"berth_watch_restarts_total", MetricType::Counter, "resource, reason", Stability::kStable,
     "Watches of the API server that ended and were started again."},
    {"berth_lists_total", MetricType::Counter, "resource, kind", Stability::kAlpha,
     "Times that all objects of a resource were asked for: stream (a watch that begins with them), "
     "cached (a list from the API server's cache), consistent (a list of the newest, which API "
     "servers before 1.31 read from etcd)."},
    {"berth_object_problems_total", MetricType::Counter, "resource, problem", Stability::kAlpha,
     "Objects of the API server that were not taken as they are: unreadable (not taken at all), "
     "cut "
     "(beyond a bound, something was left out). The log names them."},
    {"berth_cache_objects", MetricType::Gauge, "kind", Stability::kStable,
     "Objects held in memory."},
    {"berth_leader", MetricType::Gauge, "", Stability::kStable,
     "1 while this replica holds the Lease and answers the verbs."},
    {"berth_policy_last_reload_successful", MetricType::Gauge, "", Stability::kStable,
     "0 after a policy was refused: the one before it is in force."},
    {"berth_build_info", MetricType::Gauge, "version, commit, compiler", Stability::kStable,
     "Always 1; its labels say what runs."},
    {"process_cpu_seconds_total", MetricType::Counter, "", Stability::kStable,
     "User and system CPU time spent."},
    {"process_resident_memory_bytes", MetricType::Gauge, "", Stability::kStable,
     "Resident memory."},
    {"process_open_fds", MetricType::Gauge, "", Stability::kStable, "Open file descriptors."},
}};

/// From a cached refusal to a bind that was parked at the barrier for its whole time.
const std::vector<double> kRequestBuckets{50e-6, 100e-6, 250e-6, 500e-6, 1e-3,   2.5e-3, 5e-3,
                                          10e-3, 25e-3,  50e-3,  100e-3, 250e-3, 500e-3, 1,
                                          2.5,   5,      10,     20,     30};
/// From a second to a week.
const std::vector<double> kGangWaitBuckets{1,     2,     5,     10,     30,     60,
                                           120,   300,   600,   1800,   3600,   7200,
                                           14400, 28800, 86400, 172800, 345600, 604800};

std::string_view EventName(HttpEvent event) {
  switch (event) {
    case HttpEvent::kShed:
      return "shed";
    case HttpEvent::kBadRequest:
      return "bad_request";
    case HttpEvent::kTooLarge:
      return "too_large";
    case HttpEvent::kOverloaded:
      return "overloaded";
    case HttpEvent::kException:
      return "exception";
    case HttpEvent::kTlsRefused:
      return "tls_refused";
  }
  return "unknown";
}

using Labels = std::vector<prometheus::ClientMetric::Label>;

/// The gauges of one family, replaced as a whole.
class ReplacedFamily {
 public:
  void Add(Labels labels, double value) {
    auto& metric = metrics_.emplace_back();
    metric.label = std::move(labels);
    metric.gauge.value = value;
    metric.counter.value = value;  // which of the two counts, its type says
  }

  prometheus::MetricFamily Collect(Id id) const {
    const auto& info = kTable[id];
    return {std::string(info.name), std::string(info.help), info.type, metrics_};
  }

 private:
  std::vector<prometheus::ClientMetric> metrics_;
};

constexpr std::string_view kOtherQueue = "other";

/// Chooses the queues that get a label of their own: the largest, then by name. If some get none, a
/// queue that has the name of their sum is part of it.
std::set<std::string, std::less<>> LargestQueues(std::span<const QueueRow> rows) {
  std::map<std::string_view, double> sizes;
  for (const auto& row : rows) {
    if (row.flavor.empty()) sizes[row.queue] += row.quota + row.used;
  }
  std::vector<std::pair<double, std::string_view>> order;
  for (const auto& [queue, size] : sizes) order.emplace_back(-size, queue);
  std::ranges::sort(order);
  std::set<std::string, std::less<>> names;
  if (order.size() > kMaxQueueLabels) {
    std::erase_if(order, [](const auto& entry) { return entry.second == kOtherQueue; });
    order.resize(kMaxQueueLabels);
  }
  for (const auto& [size, queue] : order) names.emplace(queue);
  return names;
}

double CpuSeconds() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

double ResidentBytes() {
  double total = 0;
  double resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

double OpenFiles() {
  std::error_code error;
  const std::filesystem::directory_iterator files("/proc/self/fd", error);
  return error ? 0 : static_cast<double>(std::distance(begin(files), end(files)));
}

template <typename Builder>
auto& Register(prometheus::Registry& registry, Id id, Builder builder) {
  const auto& info = kTable[id];
  return builder.Name(std::string(info.name)).Help(std::string(info.help)).Register(registry);
}

}  // namespace

std::string_view VerbName(Verb verb) {
  constexpr std::array<std::string_view, 4> kNames{"filter", "prioritize", "bind", "preempt"};
  return kNames[static_cast<std::size_t>(verb)];
}

struct Metrics::State {
  using Counters = prometheus::Family<prometheus::Counter>;
  using Gauges = prometheus::Family<prometheus::Gauge>;
  using Histograms = prometheus::Family<prometheus::Histogram>;

  explicit State(const BuildInfo& build) {
    gauges(kBuildInfo)
        .Add({{"version", build.version}, {"commit", build.commit}, {"compiler", build.compiler}})
        .Set(1);
    for (std::size_t verb = 0; verb < ok.size(); ++verb) {
      const std::string name(VerbName(static_cast<Verb>(verb)));
      ok[verb] = &requests.Add({{"verb", name}, {"code", "200"}}, kRequestBuckets);
      decode_errors[verb] = &decoding.Add({{"verb", name}});
    }
  }

  Counters& counters(Id id) { return Register(registry, id, prometheus::BuildCounter()); }
  Gauges& gauges(Id id) { return Register(registry, id, prometheus::BuildGauge()); }
  Histograms& histograms(Id id) { return Register(registry, id, prometheus::BuildHistogram()); }

  /// Replaces the family by one row for each value, labelled `name`.
  void Replace(Id id, const std::string& name, std::span<const LabelledValue> values) {
    ReplacedFamily family;
    for (const auto& value : values) family.Add({{name, value.label}}, value.value);
    const std::lock_guard lock(mutex);
    replaced[id] = std::move(family);
  }

  prometheus::Registry registry;
  Histograms& requests = histograms(kRequestDuration);
  Counters& decoding = counters(kRequestDecodeErrors);
  std::array<prometheus::Histogram*, 4> ok{};  ///< By verb; a look-up by labels costs 158 ns.
  std::array<prometheus::Counter*, 4> decode_errors{};
  Counters& http_events = counters(kHttpEvents);
  prometheus::Gauge& parked = gauges(kParkedBinds).Add({});
  Counters& ops_auth = counters(kOpsAuth);
  Counters& events = counters(kEvents);
  Gauges& tls_reload = gauges(kTlsReload);
  Gauges& tls_expiry = gauges(kTlsExpiry);
  prometheus::Histogram& gang_wait = histograms(kGangWait).Add({}, kGangWaitBuckets);
  Counters& binds = counters(kBinds);
  Counters& evictions = counters(kEvictions);
  Counters& evictions_in_vain = counters(kEvictionsInVain);
  Counters& watch_restarts = counters(kWatchRestarts);
  Counters& lists = counters(kLists);
  Counters& object_problems = counters(kObjectProblems);
  prometheus::Gauge& snapshot_age = gauges(kSnapshotAge).Add({});
  prometheus::Gauge& leader = gauges(kLeader).Add({});
  prometheus::Gauge& policy_reload = gauges(kPolicyReload).Add({});

  mutable std::mutex mutex;
  std::map<Id, ReplacedFamily> replaced;
  std::set<std::string, std::less<>> named_queues;
};

Metrics::Metrics(const BuildInfo& build) : state_(std::make_unique<State>(build)) {}
Metrics::~Metrics() = default;

std::string Metrics::Serialize() const {
  auto families = state_->registry.Collect();
  {
    const std::lock_guard lock(state_->mutex);
    for (const auto& [id, family] : state_->replaced) families.push_back(family.Collect(id));
  }
  const auto add = [&](Id id, double value) {
    prometheus::ClientMetric metric;
    (kTable[id].type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
    families.push_back(
        {std::string(kTable[id].name), std::string(kTable[id].help), kTable[id].type, {metric}});
  };
  add(kProcessCpu, CpuSeconds());
  add(kProcessMemory, ResidentBytes());
  add(kProcessFds, OpenFiles());
  std::ranges::sort(families, {}, &prometheus::MetricFamily::name);
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, families);
  return std::move(out).str();
}

void Metrics::ObserveRequest(Verb verb, int code, double seconds) {
  auto* histogram = state_->ok[static_cast<std::size_t>(verb)];
  if (code != 200) {
    histogram = &state_->requests.Add(
        {{"verb", std::string(VerbName(verb))}, {"code", std::to_string(code)}}, kRequestBuckets);
  }
  histogram->Observe(seconds);
}

void Metrics::CountDecodeError(Verb verb) {
  state_->decode_errors[static_cast<std::size_t>(verb)]->Increment();
}

void Metrics::SetParkedBinds(std::size_t count) { state_->parked.Set(static_cast<double>(count)); }

void Metrics::CountEvent(std::string_view result) {
  state_->events.Add({{"result", std::string(result)}}).Increment();
}

void Metrics::CountOpsAuth(std::string_view result) {
  state_->ops_auth.Add({{"result", std::string(result)}}).Increment();
}

void Metrics::SetTls(std::string_view listener, bool reload_successful, double expiry) {
  const prometheus::Labels labels{{"listener", std::string(listener)}};
  state_->tls_reload.Add(labels).Set(reload_successful ? 1 : 0);
  state_->tls_expiry.Add(labels).Set(expiry);
}

void Metrics::CountHttpEvent(std::string_view listener, HttpEvent event) {
  state_->http_events
      .Add({{"listener", std::string(listener)}, {"event", std::string(EventName(event))}})
      .Increment();
}

void Metrics::CountBind(std::string_view result) {
  state_->binds.Add({{"result", std::string(result)}}).Increment();
}

void Metrics::CountEviction(std::string_view reason) {
  state_->evictions.Add({{"reason", std::string(reason)}}).Increment();
}

void Metrics::CountEvictionInVain(std::string_view reason) {
  state_->evictions_in_vain.Add({{"reason", std::string(reason)}}).Increment();
}

void Metrics::CountWatchRestart(std::string_view resource, std::string_view reason) {
  state_->watch_restarts.Add({{"resource", std::string(resource)}, {"reason", std::string(reason)}})
      .Increment();
}

void Metrics::CountList(std::string_view resource, std::string_view kind) {
  state_->lists.Add({{"resource", std::string(resource)}, {"kind", std::string(kind)}}).Increment();
}

void Metrics::CountObjectProblem(std::string_view resource, std::string_view problem) {
  state_->object_problems
      .Add({{"resource", std::string(resource)}, {"problem", std::string(problem)}})
      .Increment();
}

void Metrics::ObserveGangWait(double seconds) { state_->gang_wait.Observe(seconds); }
void Metrics::SetSnapshotAge(double seconds) { state_->snapshot_age.Set(seconds); }
void Metrics::SetLeader(bool leader) { state_->leader.Set(leader ? 1 : 0); }
void Metrics::SetPolicyReloadSuccessful(bool successful) {
  state_->policy_reload.Set(successful ? 1 : 0);
}

void Metrics::ReplaceQueues(std::span<const QueueRow> rows) {
  auto named = LargestQueues(rows);
  ReplacedFamily used;
  ReplacedFamily quota;
  ReplacedFamily limit;
  ReplacedFamily borrowed;
  ReplacedFamily fair_share;
  ReplacedFamily flavor_used;
  ReplacedFamily flavor_quota;
  ReplacedFamily flavor_limit;
  std::map<std::pair<std::string_view, std::string_view>, QueueRow> others;  // flavor, resource
  std::map<std::pair<std::string_view, std::string_view>, double> promised_below;
  std::map<std::tuple<std::string_view, std::string_view, std::string_view>, double> quotas;
  for (const auto& row : rows) quotas[{row.queue, row.flavor, row.resource}] = row.quota;
  const auto add = [&](const QueueRow& row) {
    if (!row.flavor.empty()) {
      const Labels labels{{"queue", row.queue}, {"flavor", row.flavor}, {"resource", row.resource}};
      flavor_used.Add(labels, row.used);
      flavor_quota.Add(labels, row.quota);
      if (row.limit) flavor_limit.Add(labels, *row.limit);
      return;
    }
    const Labels labels{{"queue", row.queue}, {"resource", row.resource}};
    used.Add(labels, row.used);
    quota.Add(labels, row.quota);
    if (row.limit) limit.Add(labels, *row.limit);
    borrowed.Add(labels, row.borrowed);
    if (row.fair_share) fair_share.Add(labels, *row.fair_share);
  };
  for (const auto& row : rows) {
    if (named.contains(row.queue)) {
      add(row);
      continue;
    }
    // What it uses is counted for the queue above, too, which is part of the sum.
    if (!row.parent.empty() && !named.contains(row.parent)) {
      if (quotas[{row.parent, row.flavor, row.resource}] == 0) {
        promised_below[{row.flavor, row.resource}] += row.quota;
      }
      continue;
    }
    auto [it, first] = others.try_emplace({row.flavor, row.resource}, row);
    auto& other = it->second;
    if (first) {
      other.queue = kOtherQueue;
      continue;
    }
    other.used += row.used;
    other.quota += row.quota;
    other.borrowed += row.borrowed;
    if (row.fair_share) other.fair_share = other.fair_share.value_or(0) + *row.fair_share;
    // Together they are limited only if each of them is.
    other.limit =
        other.limit && row.limit ? std::optional(*other.limit + *row.limit) : std::nullopt;
  }
  for (auto& [key, row] : others) {
    if (const auto below = promised_below.find(key); below != promised_below.end()) {
      row.quota += below->second;
    }
  }
  for (const auto& [key, row] : others) add(row);
  const std::lock_guard lock(state_->mutex);
  state_->replaced[kQueueUsed] = std::move(used);
  state_->replaced[kQueueQuota] = std::move(quota);
  state_->replaced[kQueueLimit] = std::move(limit);
  state_->replaced[kQueueBorrowed] = std::move(borrowed);
  state_->replaced[kQueueFairShare] = std::move(fair_share);
  state_->replaced[kQueueFlavorUsed] = std::move(flavor_used);
  state_->replaced[kQueueFlavorQuota] = std::move(flavor_quota);
  state_->replaced[kQueueFlavorLimit] = std::move(flavor_limit);
  state_->named_queues = std::move(named);
}

void Metrics::ReplacePending(std::span<const PendingRow> rows) {
  const std::lock_guard lock(state_->mutex);
  std::map<std::pair<std::string, std::string>, double> sums;
  for (const auto& row : rows) {
    const bool named = state_->named_queues.contains(row.queue);
    sums[{named ? row.queue : std::string(kOtherQueue), row.reason}] += row.workloads;
  }
  ReplacedFamily family;
  for (const auto& [key, workloads] : sums) {
    family.Add({{"queue", key.first}, {"reason", key.second}}, workloads);
  }
  state_->replaced[kPendingWorkloads] = std::move(family);
}

void Metrics::ReplaceUsage(std::span<const UsageRow> rows) {
  ReplacedFamily queues;
  ReplacedFamily users;
  for (const auto& row : rows) {
    Labels labels{{"queue", row.queue}, {"resource", row.resource}};
    if (row.user.empty()) {
      queues.Add(std::move(labels), row.seconds);
    } else {
      labels.push_back({"user", row.user});
      users.Add(std::move(labels), row.seconds);
    }
  }
  const std::lock_guard lock(state_->mutex);
  state_->replaced[kQueueUsage] = std::move(queues);
  state_->replaced[kUserUsage] = std::move(users);
}

void Metrics::ReplaceGangs(std::span<const LabelledValue> by_phase) {
  state_->Replace(kGangs, "phase", by_phase);
}
void Metrics::ReplacePlans(std::span<const LabelledValue> by_state) {
  state_->Replace(kPlans, "state", by_state);
}
void Metrics::ReplaceCacheObjects(std::span<const LabelledValue> by_kind) {
  state_->Replace(kCacheObjects, "kind", by_kind);
}
void Metrics::ReplaceFragmentation(std::span<const LabelledValue> by_resource) {
  state_->Replace(kFragmentation, "resource", by_resource);
}

void Metrics::ReplaceDeviceNodes(std::span<const LabelledValue> by_state) {
  state_->Replace(kDeviceNodes, "state", by_state);
}

void Metrics::ReplaceDraIgnored(std::span<const LabelledValue> by_reason) {
  state_->Replace(kDraIgnored, "reason", by_reason);
}

void Metrics::ReplaceHardwareNodes(std::span<const LabelledValue> by_source) {
  state_->Replace(kHardwareNodes, "source", by_source);
}

void Metrics::ReplaceLargestGangs(std::span<const LargestGangRow> rows) {
  ReplacedFamily family;
  for (const auto& row : rows) {
    family.Add({{"level", row.level}, {"pod_gpus", std::to_string(row.pod_gpus)}}, row.pods);
  }
  const std::lock_guard lock(state_->mutex);
  state_->replaced[kLargestGang] = std::move(family);
}

namespace {

std::string_view TypeName(MetricType type) {
  switch (type) {
    case MetricType::Counter:
      return "counter";
    case MetricType::Gauge:
      return "gauge";
    case MetricType::Histogram:
      return "histogram";
    default:
      return "untyped";
  }
}

}  // namespace

std::string MetricsReference() {
  std::ostringstream out;
  out << "# Metrics\n\n"
         "Served on `/metrics` of `--ops-listen`. No label names a pod or a node. `queue` has at "
         "most "
      << kMaxQueueLabels
      << " values, the\nlargest queues unless stated otherwise; all others are summed up as "
         "`other`. "
         "Written by `MetricsReference()` in `server/ops/metrics.cc`: do not edit.\n\n"
         "STABLE metrics keep their name, labels and meaning; ALPHA ones may change with a note "
         "in the release.\n\n"
         "| metric | type | labels | stability | meaning |\n|---|---|---|---|---|\n";
  for (const auto& info : kTable) {
    out << "| `" << info.name << "` | " << TypeName(info.type) << " | " << info.labels << " | "
        << (info.stability == Stability::kStable ? "STABLE" : "ALPHA") << " | " << info.help
        << " |\n";
  }
  const auto list = [&](const std::vector<double>& bounds) {
    for (const double bound : bounds) out << (bound == bounds.front() ? "" : ", ") << bound;
    out << ".\n";
  };
  out << "\nBuckets of `berth_request_duration_seconds`, in seconds: ";
  list(kRequestBuckets);
  out << "\nBuckets of `berth_gang_wait_seconds`, in seconds: ";
  list(kGangWaitBuckets);
  return std::move(out).str();
}

}  // namespace berth::server
