// The table behind metrics.h: names, types, labels and help of every metric. Internal to
// server/ops/metrics*.cc.
#pragma once

#include <prometheus/metric_type.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace berth::server {

/// STABLE: name, labels and meaning stay. ALPHA: may still change with a release note.
enum class Stability : std::uint8_t { kStable, kAlpha };

/// A row of the table.
struct MetricInfo {
  std::string_view name;
  prometheus::MetricType type;
  std::string_view labels;  ///< For people: `verb, code`.
  Stability stability;
  std::string_view help;
};

enum MetricId : std::uint8_t {
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

const MetricInfo& InfoOf(MetricId id);
/// Upper bounds of the buckets of the two histograms, in seconds.
const std::vector<double>& RequestBuckets();
const std::vector<double>& GangWaitBuckets();

}  // namespace berth::server
