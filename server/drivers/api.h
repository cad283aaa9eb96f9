// The writes that a host orders. Two classes implement it: for a real API server (kube_api.h) and
// for a cluster held in memory (embedded_cluster.h).
#pragma once

#include <functional>

#include "engine/actions.h"
#include "host/orders.h"

namespace berth::server {

/// Calls block. Called from several threads, but never concurrently for writes to the same pod.
class Api {
 public:
  /// Whether the write must still be made; asked right before each attempt.
  using Wanted = std::function<bool()>;

  Api() = default;
  Api(const Api&) = delete;
  Api& operator=(const Api&) = delete;
  virtual ~Api() = default;

  /// Called from the bind call's own thread.
  virtual host::Result Bind(const host::PostBinding& binding, const Wanted& wanted) = 0;
  /// Nominate, RemoveGate, Mark and Evict are called on the threads of a WorkQueue.
  virtual host::Result Nominate(const host::Nominate& nomination, const Wanted& wanted) = 0;
  virtual host::Result RemoveGate(const host::RemoveGate& removal, const Wanted& wanted) = 0;
  virtual host::Result Mark(const host::MarkVictim& mark, const Wanted& wanted) = 0;
  virtual host::Result Evict(const host::Evict& eviction, const Wanted& wanted) = 0;
  /// Whether there is the object (kDone, kNotFound).
  virtual host::Result Find(const host::FindObject& /*order*/) {
    return {.outcome = kube::WriteOutcome::kDone};
  }
  /// Jobs, where there are any.
  virtual host::Result ReadJobs(const host::ReadJobs& /*order*/) {
    return {.outcome = kube::WriteOutcome::kNotFound};
  }
  virtual host::Result SuspendJob(const host::SuspendJob& /*order*/, const Wanted& /*wanted*/) {
    return {.outcome = kube::WriteOutcome::kNotFound};
  }
  /// Reads the pod from the source of truth; kNotFound: it is gone.
  virtual host::Result ReadPod(const engine::PodRef& pod) = 0;
  /// Writes an Event, or drops it: a failure is only logged and counted.
  virtual void Event(const engine::EmitEvent& event) = 0;
};

}  // namespace berth::server
