#include "sim/world/processes.h"

namespace berth::sim {

Processes::Processes(Environment& env, SchedulerOptions scheduler, Duration http_timeout)
    : env_(env), options_(std::move(scheduler)), wire_(env, http_timeout), checker_(env) {
  env_.api.on_bound = [this](const kube::Pod& pod) { checker_.OnBound(pod); };
  wire_.on_bind = [this](const std::string& uid) { checker_.OnBindCall(uid); };
}

void Processes::StartBerth() {
  env_.trace.Say("berth starts");
  checker_.OnBerthStarted();
  berth_ = std::make_unique<BerthHost>(env_, fmt::format("b{}", ++berths_));
  berth_->on_preempt = [this](const std::string& uid, const engine::VictimMap& kept) {
    checker_.OnPreemptAnswer(berth_->engine().store(), uid, kept);
  };
  wire_.Listen(berth_.get());
}

void Processes::KillBerth() {
  if (berth_ == nullptr) return;
  env_.trace.Say("berth crashes");
  berth_.reset();
  wire_.Listen(nullptr);
}

void Processes::StartScheduler() {
  wire_.HangUp();
  scheduler_ = std::make_unique<Scheduler>(env_, options_, wire_);
  scheduler_->on_preemption = [this](const kube::Pod& pod, const std::string& node,
                                     const std::vector<const kube::Pod*>& victims) {
    checker_.OnPreemption(pod, node, victims);
  };
}

bool Processes::RunUntil(TimePoint end) {
  env_.timeline.At(end, [] {});  // so that the clock gets there
  while (!env_.timeline.empty() && env_.timeline.next() <= end) {
    env_.timeline.Step();
    checker_.AfterStep(berth_.get());
    if (!checker_.violation().empty()) return false;
  }
  return true;
}

}  // namespace berth::sim
