// Another scheduler in the same cluster, as vendors' operators and second schedulers are: it counts
// what is bound, knows nothing of plans, and binds its own pods wherever there is room.
#pragma once

#include "sim/world/environment.h"
#include "sim/world/usage.h"

namespace berth::sim {

class OtherScheduler {
 public:
  /// `env` must outlive it.
  explicit OtherScheduler(Environment& env);

  /// It is not about to try.
  bool Quiet() const { return !armed_; }

 private:
  void Arm();
  void Try();
  bool Fits(const kube::Pod& pod, const kube::Node& node) const;

  Environment& env_;
  Usage usage_;
  Life life_;
  bool armed_ = false;
};

}  // namespace berth::sim
