// Records everything that goes into an engine, one JSON line per call: field `input` names the
// call, `time_ms` is the time it was given. recorder.cc and fields.h define the contents of the
// lines; player.h makes the calls again.
#pragma once

#include <functional>
#include <string>

#include "engine/input_listener.h"

namespace berth::replay {

class Recorder final : public engine::InputListener {
 public:
  /// Receives lines without their newline.
  using Sink = std::function<void(std::string line)>;
  explicit Recorder(Sink sink) : sink_(std::move(sink)) {}

  void OnBegin(const config::PolicyConfiguration& policy, const engine::Options& options) override;
  void OnNode(const kube::Node& node, engine::TimePoint now) override;
  void OnNodeDeleted(std::string_view name, engine::TimePoint now) override;
  void OnPod(const kube::Pod& pod, engine::TimePoint now) override;
  void OnPodDeleted(std::string_view uid, engine::TimePoint now) override;
  void OnNamespace(const kube::Namespace& ns) override;
  void OnNamespaceDeleted(std::string_view name) override;
  void OnDisruptionBudget(const kube::PodDisruptionBudget& budget) override;
  void OnDisruptionBudgetDeleted(std::string_view uid) override;
  void OnDialectObject(const kube::DialectObject& object, engine::TimePoint now) override;
  void OnDialectObjectDeleted(std::string_view uid, engine::TimePoint now) override;
  void OnPolicy(const config::PolicyConfiguration& policy, engine::TimePoint now) override;
  void OnBeginUsage(const cluster::UsageRecord& record, engine::TimePoint now) override;
  void OnStart(engine::TimePoint now) override;
  void OnFilter(const engine::FilterQuery& query, const kube::Pod* request_pod,
                engine::TimePoint now) override;
  void OnBind(const engine::BindQuery& query, engine::TimePoint now) override;
  void OnBindFinished(std::string_view uid, engine::BindOutcome outcome, std::string_view error,
                      engine::TimePoint now) override;
  void OnBindSettled(std::string_view uid, engine::TimePoint now) override;
  void OnBindAbandoned(engine::TicketId ticket) override;
  void OnEvictionAnswered(std::string_view workload, std::string_view plan, std::string_view uid,
                          bool dry_run, bool accepted, engine::TimePoint now) override;
  void OnPreempt(std::string_view uid, const engine::VictimMap& candidates,
                 engine::TimePoint now) override;
  void OnStep(engine::TimePoint now) override;

 private:
  Sink sink_;
};

}  // namespace berth::replay
