// Berth's writes to the API server as kube::Writer makes them (kube/writer.h), in virtual time:
// attempts with a time-out each, retries with backoff inside a deadline, and an outcome that says
// whether the write may have been done. What goes wrong on the way is the weather's.
#pragma once

#include <functional>

#include "engine/engine.h"
#include "sim/world/environment.h"

namespace berth::sim {

enum class WriteOutcome : std::uint8_t { kDone, kConflict, kNotFound, kRefused, kUnknown };

struct WriteResult {
  WriteOutcome outcome = WriteOutcome::kUnknown;
  Reply reply{};
};

class ApiClient {
 public:
  using Operation = std::function<Reply(ApiServer&)>;
  using Done = std::function<void(const WriteResult&)>;

  explicit ApiClient(Environment& env) : env_(env) {}

  /// Answers come only while this client lives; what was sent arrives all the same.
  void Write(Operation operation, Duration timeout, Done done);
  void Read(const engine::PodRef& pod, Duration timeout, Done done);
  /// After a conflict the pod is read: on `node` already is kDone.
  void Bind(const engine::PodRef& pod, const std::string& node,
            const std::map<std::string, std::string>& annotations, Duration timeout, Done done);

 private:
  struct Call;
  void Send(Operation operation, Duration timeout, bool is_read, Done done);
  void Attempt(const std::shared_ptr<Call>& call);
  void Answered(const std::shared_ptr<Call>& call, const Reply& reply);
  void Retry(const std::shared_ptr<Call>& call);

  Environment& env_;
  Life life_;
};

}  // namespace berth::sim
