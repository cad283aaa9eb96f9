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
#include <tuple>
#include <utility>
#include <vector>

#include "server/http/http_server.h"
#include "server/ops/metric_table.h"

namespace berth::server {
namespace {

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

  prometheus::MetricFamily Collect(MetricId id) const {
    const auto& info = InfoOf(id);
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

/// The gauges of queues, and of their flavors, until they replace the former ones.
class QueueGauges {
 public:
  void Add(const QueueRow& row) {
    if (!row.flavor.empty()) return AddFlavor(row);
    const Labels labels{{"queue", row.queue}, {"resource", row.resource}};
    families_[kQueueUsed].Add(labels, row.used);
    families_[kQueueQuota].Add(labels, row.quota);
    if (row.limit) families_[kQueueLimit].Add(labels, *row.limit);
    families_[kQueueBorrowed].Add(labels, row.borrowed);
    if (row.fair_share) families_[kQueueFairShare].Add(labels, *row.fair_share);
  }

  void MoveTo(std::map<MetricId, ReplacedFamily>& replaced) && {
    for (auto& [id, family] : families_) replaced[id] = std::move(family);
  }

 private:
  void AddFlavor(const QueueRow& row) {
    const Labels labels{{"queue", row.queue}, {"flavor", row.flavor}, {"resource", row.resource}};
    families_[kQueueFlavorUsed].Add(labels, row.used);
    families_[kQueueFlavorQuota].Add(labels, row.quota);
    if (row.limit) families_[kQueueFlavorLimit].Add(labels, *row.limit);
  }

  /// All of them, so that a family without rows replaces the former one, too.
  std::map<MetricId, ReplacedFamily> families_{{kQueueUsed, {}},        {kQueueQuota, {}},
                                               {kQueueLimit, {}},       {kQueueBorrowed, {}},
                                               {kQueueFairShare, {}},   {kQueueFlavorUsed, {}},
                                               {kQueueFlavorQuota, {}}, {kQueueFlavorLimit, {}}};
};

/// Adds a queue without a label of its own to the sum of such queues.
void AddTo(QueueRow& sum, const QueueRow& row) {
  sum.used += row.used;
  sum.quota += row.quota;
  sum.borrowed += row.borrowed;
  if (row.fair_share) sum.fair_share = sum.fair_share.value_or(0) + *row.fair_share;
  // Together they are limited only if each of them is.
  sum.limit = sum.limit && row.limit ? std::optional(*sum.limit + *row.limit) : std::nullopt;
}

/// The sums of the queues that are not `named`, by flavor and resource.
std::vector<QueueRow> SumsOfOthers(std::span<const QueueRow> rows,
                                   const std::set<std::string, std::less<>>& named) {
  std::map<std::pair<std::string_view, std::string_view>, QueueRow> sums;
  std::map<std::pair<std::string_view, std::string_view>, double> promised_below;
  std::map<std::tuple<std::string_view, std::string_view, std::string_view>, double> quotas;
  for (const auto& row : rows) quotas[{row.queue, row.flavor, row.resource}] = row.quota;
  for (const auto& row : rows) {
    if (named.contains(row.queue)) continue;
    // What it uses is counted for the queue above, too, which is part of the sum.
    if (!row.parent.empty() && !named.contains(row.parent)) {
      if (quotas[{row.parent, row.flavor, row.resource}] == 0) {
        promised_below[{row.flavor, row.resource}] += row.quota;
      }
      continue;
    }
    auto [it, first] = sums.try_emplace({row.flavor, row.resource}, row);
    if (first) {
      it->second.queue = kOtherQueue;
    } else {
      AddTo(it->second, row);
    }
  }
  std::vector<QueueRow> others;
  for (auto& [key, row] : sums) {
    if (const auto below = promised_below.find(key); below != promised_below.end()) {
      row.quota += below->second;
    }
    others.push_back(std::move(row));
  }
  return others;
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
auto& Register(prometheus::Registry& registry, MetricId id, Builder builder) {
  const auto& info = InfoOf(id);
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
      ok[verb] = &requests.Add({{"verb", name}, {"code", "200"}}, RequestBuckets());
      decode_errors[verb] = &decoding.Add({{"verb", name}});
    }
  }

  Counters& counters(MetricId id) { return Register(registry, id, prometheus::BuildCounter()); }
  Gauges& gauges(MetricId id) { return Register(registry, id, prometheus::BuildGauge()); }
  Histograms& histograms(MetricId id) {
    return Register(registry, id, prometheus::BuildHistogram());
  }

  /// Replaces the family by one row for each value, labelled `name`.
  void Replace(MetricId id, const std::string& name, std::span<const LabelledValue> values) {
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
  prometheus::Histogram& gang_wait = histograms(kGangWait).Add({}, GangWaitBuckets());
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
  std::map<MetricId, ReplacedFamily> replaced;
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
  const auto add = [&](MetricId id, double value) {
    prometheus::ClientMetric metric;
    (InfoOf(id).type == prometheus::MetricType::Counter ? metric.counter.value
                                                        : metric.gauge.value) = value;
    families.push_back(
        {std::string(InfoOf(id).name), std::string(InfoOf(id).help), InfoOf(id).type, {metric}});
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
        {{"verb", std::string(VerbName(verb))}, {"code", std::to_string(code)}}, RequestBuckets());
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
  QueueGauges gauges;
  for (const auto& row : rows) {
    if (named.contains(row.queue)) gauges.Add(row);
  }
  for (const auto& row : SumsOfOthers(rows, named)) gauges.Add(row);
  const std::lock_guard lock(state_->mutex);
  std::move(gauges).MoveTo(state_->replaced);
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

}  // namespace berth::server
