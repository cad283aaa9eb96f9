// One of several replicas of Berth in virtual time: production's host, and host::Leadership,
// production's part in leader election.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "host/leadership.h"
#include "sim/world/host_driver.h"
#include "sim/world/lease_object.h"

namespace berth::sim {

/// A process of Berth that takes part in leader election.
class Replica {
 public:
  /// `announced` is called when the label that the Service selects is on this replica. The
  /// references must outlive it.
  Replica(Environment& env, std::string identity, LeaseObject& lease,
          std::function<void()> announced);
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  /// An orderly shutdown, as of server/serve.cc. When the process has ended, `gone` is called.
  void Leave(std::function<void()> gone);

  HostDriver& host() { return host_; }
  const HostDriver& host() const { return host_; }

 private:
  void Advance();
  void Carry();
  void Do(const host::AskLease& order);
  void Do(const host::PatchLabel& order);
  void Do(const host::BeginTerm& order);
  void Do(const host::ExtendTerm& order);
  void Do(const host::EndTerm& order);
  void Do(const host::AwaitWrites& order);
  void Do(const host::Lead& order);
  void Do(const host::Follow& order);
  void Patch(const nlohmann::json& metadata);
  void AwaitEndOfWrites(TimePoint until);
  void AwaitRelease(TimePoint until);
  void TakeLabelsOff();
  void AwaitNews(std::size_t position, const kube::Pod& pod);
  kube::TimePoint local() const;
  Duration Left() const;

  Environment& env_;
  LeaseObject& lease_;
  const std::function<void()> announced_;
  host::Leadership leadership_;
  std::function<void()> gone_;
  kube::TimePoint term_{};  ///< End of the term.
  kube::Pod pod_;           ///< The pod that this process runs in, as the API server has it.
  std::uint64_t turn_ = 0;  ///< Number of the timer: only the latest one counts.
  HostDriver host_;         ///< It asks this object whether it leads.
  Life life_;
};

}  // namespace berth::sim
