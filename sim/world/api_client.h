// Berth's calls to the API server in virtual time. It corresponds to server/drivers/kube_api.h and
// kube::Writer, which make them with threads. As there, host/requests.h defines what is sent and
// what answers mean, and kube/attempts.h when to try again. Failures on the way come from faults.h.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "host/requests.h"
#include "kube/attempts.h"
#include "sim/world/environment.h"

namespace berth::sim {

using kube::WriteOutcome;

/// The client of one process. Its calls take time, and fail as the active faults say.
class ApiClient {
 public:
  using Done = std::function<void(const host::Result&)>;
  /// Whether the write is still needed; asked right before each attempt, but not for a read.
  using Wanted = std::function<bool()>;

  /// `left` returns for how much longer writes are permitted: no write is attempted, and no retry
  /// waited for, beyond that. Empty: no limit. The references must outlive it.
  ApiClient(Environment& env, Freezer& freezer, std::function<Duration()> left = {})
      : env_(env), freezer_(freezer), left_(std::move(left)), life_(&freezer) {}

  /// Makes the request of the order. A Binding's conflict is settled by reading the pod. `done` is
  /// called only while this client lives; a request that was sent reaches the server in any case.
  void CarryOut(const host::ApiOrder& order, Wanted wanted, Done done);
  /// Ends all calls at once for the sender. A request that was sent still reaches the server.
  void CutOff();
  /// Whether no call is under way.
  bool idle() const { return calls_.empty(); }
  /// When the last write ended without an answer, of the world's clock.
  std::optional<TimePoint> unknown_at() const { return unknown_at_; }
  /// Freezes the process for `time` when it has decided to send its next write but not sent it yet.
  void FreezeBeforeSending(Duration time) { freeze_for_ = time; }

 private:
  struct Call;
  /// `timeout`: of all attempts; the order's own, if that is shorter.
  void Send(const host::ApiOrder& order, kube::Duration timeout, Wanted wanted, Done done);
  void Attempt(const std::shared_ptr<Call>& call);
  void Transmit(const std::shared_ptr<Call>& call, TimePoint not_after);
  void Answered(const std::shared_ptr<Call>& call, const Reply& reply);
  void Retry(const std::shared_ptr<Call>& call);
  void End(const std::shared_ptr<Call>& call, WriteOutcome outcome);
  kube::TimePoint now() const;

  Environment& env_;
  Freezer& freezer_;
  const std::function<Duration()> left_;
  Duration freeze_for_ = 0;
  Life life_;
  std::map<std::uint64_t, std::shared_ptr<Call>> calls_;  ///< Calls under way, in the order in
                                                          ///< which they began.
  std::uint64_t last_call_ = 0;
  std::optional<TimePoint> unknown_at_;
};

}  // namespace berth::sim
