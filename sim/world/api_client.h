// Berth's calls to the API server in virtual time. It corresponds to kube::Writer, which makes them
// with threads. As there, kube/requests.h defines what is sent and what answers mean, and
// kube/attempts.h when to try again. Failures on the way come from faults.h.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "engine/engine.h"
#include "host/orders.h"
#include "kube/attempts.h"
#include "sim/world/environment.h"

namespace berth::sim {

using kube::WriteOutcome;

/// How a call ended, and the last answer to it.
struct WriteResult {
  WriteOutcome outcome = WriteOutcome::kUnknown;
  Reply reply{};
};

/// The client of one process. Its calls take time, and fail as the active faults say.
class ApiClient {
 public:
  using Done = std::function<void(const WriteResult&)>;
  /// Whether the write is still needed; asked right before each attempt.
  using Wanted = std::function<bool()>;

  /// `left` returns for how much longer writes are permitted: no write is attempted, and no retry
  /// waited for, beyond that. Empty: no limit. The references must outlive it.
  ApiClient(Environment& env, Freezer& freezer, std::function<Duration()> left = {})
      : env_(env), freezer_(freezer), left_(std::move(left)), life_(&freezer) {}

  // Answers arrive only while this client lives. A request that was sent reaches the server in any
  // case.

  /// Writes Berth's plan as an annotation as well, if `plan` is not empty.
  void Nominate(const engine::PodRef& pod, const std::string& node, const std::string& plan,
                Duration timeout, Wanted wanted, Done done);
  void RemoveGate(const engine::PodRef& pod, const std::string& gate, Duration timeout,
                  Wanted wanted, Done done);
  void Mark(const host::MarkVictim& order, Duration timeout, Wanted wanted, Done done);
  void Evict(const host::Evict& order, Duration timeout, Wanted wanted, Done done);
  void Find(const host::FindObject& order, Duration timeout, Done done);
  void ReadJobs(const host::ReadJobs& order, Duration timeout, Done done);
  void SuspendJob(const host::SuspendJob& order, Duration timeout, Wanted wanted, Done done);
  /// Reads the pod of that name, whatever its UID.
  void Read(const engine::PodRef& pod, Duration timeout, Done done);
  /// After a conflict the pod is read: if it is already on `node`, the outcome is kDone.
  void Bind(const engine::PodRef& pod, const std::string& node,
            const std::map<std::string, std::string>& annotations, Duration timeout, Wanted wanted,
            Done done);
  /// Ends all calls at once for the sender. A request that was sent still reaches the server.
  void CutOff();
  /// Freezes the process for `time` when it has decided to send its next write but not sent it yet.
  void FreezeBeforeSending(Duration time) { freeze_for_ = time; }

 private:
  using Operation = std::function<Reply(ApiServer&)>;
  struct Call;
  using MakeRequest = std::function<std::optional<kube::Request>()>;
  /// Sends a request about `pod`: at fidelity `wire` what `make` returns, as bytes; otherwise by
  /// calling `operation`, which has the same effect, and no body is written.
  void Send(const engine::PodRef& pod, bool is_read, const MakeRequest& make, Operation operation,
            Duration timeout, Wanted wanted, Done done);
  void Attempt(const std::shared_ptr<Call>& call);
  void Transmit(const std::shared_ptr<Call>& call, TimePoint not_after);
  void Answered(const std::shared_ptr<Call>& call, const Reply& reply);
  void Retry(const std::shared_ptr<Call>& call);
  void End(const std::shared_ptr<Call>& call, const WriteResult& result);
  kube::TimePoint now() const;

  Environment& env_;
  Freezer& freezer_;
  const std::function<Duration()> left_;
  Duration freeze_for_ = 0;
  Life life_;
  std::map<std::uint64_t, std::shared_ptr<Call>> calls_;  ///< Calls under way, in the order in
                                                          ///< which they began.
  std::uint64_t last_call_ = 0;
};

}  // namespace berth::sim
