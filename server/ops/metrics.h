// Every metric that Berth exports: one table of names, labels and help (metric_table.cc), and typed
// methods to feed it. docs/metrics.md is generated from that table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace berth::server {

enum class Verb : std::uint8_t { kFilter, kPrioritize, kBind, kPreempt };
/// `filter`, `prioritize`, `bind`, `preempt`.
std::string_view VerbName(Verb verb);

/// What happened at an HTTP listener; see HttpEvent in http_server.h.
enum class HttpEvent : std::uint8_t;

/// The labels of berth_build_info.
struct BuildInfo {
  std::string version;
  std::string commit;
  std::string compiler;
};

/// Rows of the gauges that are replaced as a whole, so that what no longer exists in the cluster
/// disappears from /metrics, too.
struct QueueRow {
  std::string queue;
  std::string resource;
  double used = 0;
  double quota = 0;
  std::optional<double> limit{};  ///< None: the queue has no limit.
  double borrowed = 0;
  std::optional<double> fair_share{};  ///< None: the resource is no device.
  std::string parent{};  ///< The queue above it, whose `used` includes it; empty: none.
  std::string flavor{};  ///< Only on its nodes: without `borrowed` and `fair_share`. Empty: on all.
};
struct PendingRow {
  std::string queue;
  std::string reason;
  double workloads = 0;
};
struct LargestGangRow {
  std::string level;
  int pod_gpus = 0;
  double pods = 0;
};
/// Device-seconds. Queues without a label of their own are `other`, and so are users.
struct UsageRow {
  std::string queue;
  std::string user{};  ///< Empty: of the queue, with those below it.
  std::string resource;
  double seconds = 0;
};
/// A value by one label: phase, state, kind or resource.
struct LabelledValue {
  std::string label;
  double value = 0;
};

/// Queues beyond this many, the largest kept by quota + use, are summed up as `other`.
inline constexpr std::size_t kMaxQueueLabels = 100;

/// Thread-safe. Counting takes tens of nanoseconds; the cost of replacing depends on the number of
/// rows.
class Metrics {
 public:
  explicit Metrics(const BuildInfo& build);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  /// The page that Prometheus scrapes.
  std::string Serialize() const;

  /// `code`: the HTTP status of the answer.
  void ObserveRequest(Verb verb, int code, double seconds);
  void CountDecodeError(Verb verb);
  /// Bind calls that wait at a barrier now.
  void SetParkedBinds(std::size_t count);
  /// `result` is written, aggregated, limited, failed or dropped.
  void CountEvent(std::string_view result);
  /// `result` is allowed, unauthorized, forbidden or error.
  void CountOpsAuth(std::string_view result);
  /// `listener` is `verbs` or `ops`: whether the certificate files last read are in force, and when
  /// the certificate in force expires, in seconds since the epoch.
  void SetTls(std::string_view listener, bool reload_successful, double expiry);
  /// `listener` is `verbs` or `ops`. Call it from HttpServerOptions::on_event.
  void CountHttpEvent(std::string_view listener, HttpEvent event);

  /// `result`, `reason` and `resource` are from small fixed lists: each value is a time series.
  void CountBind(std::string_view result);
  void CountEviction(std::string_view reason);
  void CountEvictionInVain(std::string_view reason);
  void CountWatchRestart(std::string_view resource, std::string_view reason);
  /// `kind` as kube::ListKind names it.
  void CountList(std::string_view resource, std::string_view kind);
  /// `problem` is unreadable or cut.
  void CountObjectProblem(std::string_view resource, std::string_view problem);
  /// From the first member of a gang to the commit of its minimum.
  void ObserveGangWait(double seconds);

  void SetSnapshotAge(double seconds);
  void SetLeader(bool leader);
  void SetPolicyReloadSuccessful(bool successful);

  void ReplaceQueues(std::span<const QueueRow> rows);
  /// Queue labels are those of the last ReplaceQueues().
  void ReplacePending(std::span<const PendingRow> rows);
  /// Queue labels are not those of ReplaceQueues(): who has one keeps it, so that no sum ever
  /// falls.
  void ReplaceUsage(std::span<const UsageRow> rows);
  void ReplaceGangs(std::span<const LabelledValue> by_phase);
  void ReplacePlans(std::span<const LabelledValue> by_state);
  void ReplaceCacheObjects(std::span<const LabelledValue> by_kind);
  void ReplaceFragmentation(std::span<const LabelledValue> by_resource);
  void ReplaceDeviceNodes(std::span<const LabelledValue> by_state);
  void ReplaceDraIgnored(std::span<const LabelledValue> by_reason);
  void ReplaceHardwareNodes(std::span<const LabelledValue> by_source);
  void ReplaceLargestGangs(std::span<const LargestGangRow> rows);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The text of docs/metrics.md.
std::string MetricsReference();

}  // namespace berth::server
