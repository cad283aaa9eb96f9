#include "server/ops/metric_table.h"

#include <array>
#include <sstream>
#include <utility>

#include "server/ops/metrics.h"

namespace berth::server {
namespace {

using prometheus::MetricType;

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

const MetricInfo& InfoOf(MetricId id) { return kTable[id]; }
const std::vector<double>& RequestBuckets() { return kRequestBuckets; }
const std::vector<double>& GangWaitBuckets() { return kGangWaitBuckets; }

std::string MetricsReference() {
  std::ostringstream out;
  out << "# Metrics\n\n"
         "Served on `/metrics` of `--ops-listen`. No label names a pod or a node. `queue` has at "
         "most "
      << kMaxQueueLabels
      << " values, the\nlargest queues unless stated otherwise; all others are summed up as "
         "`other`. "
         "Written by `MetricsReference()` in `server/ops/metric_table.cc`: do not edit.\n\n"
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
