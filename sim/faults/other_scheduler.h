// Another scheduler in the same cluster, such as a vendor's operator or a second scheduler: it
// counts what is bound, does not know Berth's plans, and binds its own pods wherever there is room.
#pragma once

#include "sim/checker/usage.h"
#include "sim/world/environment.h"

namespace berth::sim {

/// Binds the pods that name kOtherScheduler.
class OtherScheduler {
 public:
  /// `env` must outlive it.
  explicit OtherScheduler(Environment& env);

  /// No attempt is scheduled.
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
