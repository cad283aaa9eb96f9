// What a host orders of the API server. Two classes implement it: for a real API server
// (kube_api.h) and for a cluster held in memory (embedded_cluster.h).
#pragma once

#include <functional>

#include "engine/actions.h"
#include "host/requests.h"

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

  /// Bindings come from their bind calls' own threads, other orders from those of a WorkQueue.
  virtual host::Result CarryOut(const host::ApiOrder& order, const Wanted& wanted) = 0;
  /// Writes an Event, or drops it: a failure is only logged and counted.
  virtual void Event(const engine::EmitEvent& event) = 0;
};

}  // namespace berth::server
