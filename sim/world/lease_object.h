// The Lease, as the API server holds it.
#pragma once

#include <optional>

#include "kube/lease.h"
#include "sim/world/environment.h"

namespace berth::sim {

/// Updates use optimistic concurrency; it has no clock of its own.
class LeaseObject {
 public:
  kube::LeaseAnswer Serve(const kube::LeaseRequest& request);
  /// The same at fidelity `wire`: in the bytes that production writes and reads.
  kube::LeaseAnswer ServeInBytes(const kube::LeaseRequest& request, Environment& env);
  /// Another client overwrites the holder, or deletes the Lease. False: there is no Lease.
  bool Steal();
  bool Delete();

 private:
  std::optional<kube::Lease> lease_;
  int version_ = 0;
};

}  // namespace berth::sim
