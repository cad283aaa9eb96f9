// Everything that goes into an engine, for callers that want to replay it (engine/replay/).
#pragma once

#include <cstdint>
#include <string_view>

#include "cluster/model.h"
#include "engine/queries.h"

namespace berth::engine {

using cluster::TimePoint;  ///< Milliseconds since the Unix epoch, as the host sees it.

enum class BindOutcome : std::uint8_t { kBound, kRefused, kUnknown };
struct Options;

/// Receives every call that can change what an engine decides, just before the call takes effect.
/// Another engine that is given the same calls makes the same decisions (invariant I8). The
/// listener is called by the caller of the engine, so it runs under the host's lock.
class InputListener {
 public:
  InputListener() = default;
  InputListener(const InputListener&) = delete;
  InputListener& operator=(const InputListener&) = delete;
  virtual ~InputListener() = default;

  /// A new engine was made.
  virtual void OnBegin(const config::PolicyConfiguration& policy, const Options& options) = 0;

  // The other calls are as in Engine.
  virtual void OnNode(const kube::Node& node, TimePoint now) = 0;
  virtual void OnNodeDeleted(std::string_view name, TimePoint now) = 0;
  virtual void OnPod(const kube::Pod& pod, TimePoint now) = 0;
  virtual void OnPodDeleted(std::string_view uid, TimePoint now) = 0;
  virtual void OnNamespace(const kube::Namespace& ns) = 0;
  virtual void OnNamespaceDeleted(std::string_view name) = 0;
  virtual void OnDisruptionBudget(const kube::PodDisruptionBudget& budget) = 0;
  virtual void OnDisruptionBudgetDeleted(std::string_view uid) = 0;
  virtual void OnDialectObject(const kube::DialectObject& object, TimePoint now) = 0;
  virtual void OnDialectObjectDeleted(std::string_view uid, TimePoint now) = 0;
  virtual void OnPolicy(const config::PolicyConfiguration& policy, TimePoint now) = 0;
  virtual void OnBeginUsage(const cluster::UsageRecord& record, TimePoint now) = 0;
  virtual void OnStart(TimePoint now) = 0;
  /// `request_pod`: the result of the query's `request_pod` where it matters, otherwise null.
  virtual void OnFilter(const FilterQuery& query, const kube::Pod* request_pod, TimePoint now) = 0;
  virtual void OnBind(const BindQuery& query, TimePoint now) = 0;
  virtual void OnBindFinished(std::string_view uid, BindOutcome outcome, std::string_view error,
                              TimePoint now) = 0;
  virtual void OnBindSettled(std::string_view uid, TimePoint now) = 0;
  virtual void OnBindAbandoned(TicketId ticket) = 0;
  virtual void OnPreempt(std::string_view uid, const VictimMap& candidates, TimePoint now) = 0;
  virtual void OnEvictionAnswered(std::string_view workload, std::string_view id,
                                  std::string_view uid, bool dry_run, bool accepted,
                                  TimePoint now) = 0;
  virtual void OnStep(TimePoint now) = 0;
};

}  // namespace berth::engine
