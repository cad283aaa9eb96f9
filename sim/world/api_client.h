// Berth's writes to the API server as kube::Writer makes them (kube/writer.h), in virtual time:
// attempts with a time-out each, retries with backoff inside a deadline, and an outcome that says
// whether the write may have been done. What is sent and what answers mean is kube/requests.h's, as
// there; what goes wrong on the way is the weather's.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "engine/engine.h"
#include "kube/requests.h"
#include "sim/world/environment.h"

namespace berth::sim {

using kube::WriteOutcome;

struct WriteResult {
  WriteOutcome outcome = WriteOutcome::kUnknown;
  Reply reply{};
};

class ApiClient {
 public:
  using Done = std::function<void(const WriteResult&)>;

  /// `left`: for how long writes are permitted from now on; none is attempted, nor waited for,
  /// beyond that. Empty: for ever.
  explicit ApiClient(Environment& env, std::function<Duration()> left = {})
      : env_(env), left_(std::move(left)) {}

  // Answers come only while this client lives; what was sent arrives all the same.

  /// With Berth's plan as an annotation, where there is one.
  void Nominate(const engine::PodRef& pod, const std::string& node, const std::string& plan,
                Duration timeout, Done done);
  void RemoveGate(const engine::PodRef& pod, const std::string& gate, Duration timeout, Done done);
  /// The pod of that name, whatever its UID.
  void Read(const engine::PodRef& pod, Duration timeout, Done done);
  /// After a conflict the pod is read: on `node` already is kDone.
  void Bind(const engine::PodRef& pod, const std::string& node,
            const std::map<std::string, std::string>& annotations, Duration timeout, Done done);

 private:
  using Operation = std::function<Reply(ApiServer&)>;
  struct Call;
  /// Sends `request`: at fidelity `wire` its bytes, else `operation`, which does the same.
  void Send(const std::optional<kube::Request>& request, Operation operation, Duration timeout,
            Done done);
  void Attempt(const std::shared_ptr<Call>& call);
  void Answered(const std::shared_ptr<Call>& call, const Reply& reply);
  void Retry(const std::shared_ptr<Call>& call);

  Environment& env_;
  const std::function<Duration()> left_;
  Life life_;
};

}  // namespace berth::sim
