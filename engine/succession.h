// One engine takes the place of another: it knows the same cluster but none of the plans and
// decisions, like a new process that has just processed its first lists. A large cluster is told to
// it in parts, so that no event waits for all of it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "engine/engine.h"
#include "engine/input_listener.h"

namespace berth::engine {

/// As the listener of the old engine it passes on what happens to the cluster between two parts:
/// until the end the old engine is the one that knows all of it.
class Succession final : public InputListener {
 public:
  /// `options` needs another Options::instance. `from` must outlive this.
  Succession(const Engine& from, Options options);

  /// Tells the next part; Options::pass_budget says how large it is. True: some is left.
  bool GoOn(TimePoint now);
  /// REQUIRES: GoOn has returned false.
  std::unique_ptr<Engine> Take() { return std::move(heir_); }

  void OnNode(const kube::Node& node, TimePoint now) override;
  void OnNodeDeleted(std::string_view name, TimePoint now) override;
  void OnPod(const kube::Pod& pod, TimePoint now) override;
  void OnPodDeleted(std::string_view uid, TimePoint now) override;
  void OnNamespace(const kube::Namespace& ns) override;
  void OnNamespaceDeleted(std::string_view name) override;
  void OnDisruptionBudget(const kube::PodDisruptionBudget& budget) override;
  void OnDisruptionBudgetDeleted(std::string_view uid) override;
  void OnDialectObject(const kube::DialectObject& object, TimePoint now) override;
  void OnDialectObjectDeleted(std::string_view uid, TimePoint now) override;
  void OnPolicy(const config::PolicyConfiguration& policy, TimePoint now) override;

  // What concerns decisions is not passed on.
  void OnBegin(const config::PolicyConfiguration& /*policy*/, const Options& /*options*/) override {
  }
  void OnBeginUsage(const cluster::UsageRecord& /*record*/, TimePoint /*now*/) override {}
  void OnStart(TimePoint /*now*/) override {}
  void OnFilter(const FilterQuery& /*query*/, const kube::Pod* /*request_pod*/,
                TimePoint /*now*/) override {}
  void OnBind(const BindQuery& /*query*/, TimePoint /*now*/) override {}
  void OnBindFinished(std::string_view /*uid*/, BindOutcome /*outcome*/, std::string_view /*error*/,
                      TimePoint /*now*/) override {}
  void OnBindSettled(std::string_view /*uid*/, TimePoint /*now*/) override {}
  void OnBindAbandoned(TicketId /*ticket*/) override {}
  void OnEvictionAnswered(std::string_view /*workload*/, std::string_view /*id*/,
                          std::string_view /*uid*/, bool /*dry_run*/, bool /*accepted*/,
                          TimePoint /*now*/) override {}
  void OnPreempt(std::string_view /*uid*/, const VictimMap& /*candidates*/,
                 TimePoint /*now*/) override {}
  void OnStep(TimePoint /*now*/) override {}

 private:
  bool TellNodes(std::size_t& most, TimePoint now);
  bool TellPods(std::size_t& most, TimePoint now);

  const Engine& from_;
  const std::size_t most_;  ///< Objects in one part.
  std::unique_ptr<Engine> heir_;
  // How far it has come. What is new behind that was passed on.
  std::optional<std::string> namespace_;
  std::optional<std::string> budget_;
  std::optional<std::string> dialect_object_;
  std::size_t nodes_ = 0;      ///< Nodes with an index below it have been told.
  std::size_t pods_left_ = 0;  ///< Pods with a place below it are left.
  std::optional<cluster::Store::EndedPods::key_type> ended_;
};

}  // namespace berth::engine
