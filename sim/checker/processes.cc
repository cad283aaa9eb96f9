#include "sim/checker/processes.h"

#include <algorithm>

namespace berth::sim {

Processes::Processes(Environment& env, SchedulerOptions scheduler, Duration http_timeout,
                     int replicas)
    : env_(env),
      options_(std::move(scheduler)),
      wire_(env, http_timeout),
      checker_(env),
      replicas_(replicas > 1 ? static_cast<std::size_t>(replicas) : 0) {
  env_.api.on_bound = [this](const kube::Pod& pod) { checker_.OnBound(pod); };
  env_.api.on_evicted = [this](const kube::Pod& pod) { checker_.OnEviction(pod); };
}

HostDriver* Processes::berth() const {
  for (const auto& replica : replicas_) {
    if (replica != nullptr && replica->host().ready()) return &replica->host();
  }
  return berth_.get();
}

HostDriver* Processes::AnyBerth(std::uint64_t choice) const {
  if (choice / 16 % 2 != 0 || replicas_.empty()) return berth();
  const auto& replica = replicas_[choice / 64 % replicas_.size()];
  return replica == nullptr ? nullptr : &replica->host();
}

void Processes::Watch(HostDriver& host) {
  host.OnBind(
      [this, &host](const std::string& uid) { checker_.OnBindCall(host.engine().store(), uid); });
  host.on_unknown = [this](const std::string& uid, const std::string& node) {
    checker_.OnBindingUnknown(uid, node);
  };
  host.on_read = [this](const std::string& uid) { checker_.OnBindingRead(uid); };
  host.on_preempt = [this, &host](const std::string& uid, const engine::VictimMap& kept) {
    checker_.OnPreemptAnswer(host.engine(), uid, kept);
  };
}

void Processes::StartReplica(std::unique_ptr<Replica>& slot) {
  slot = std::make_unique<Replica>(env_, fmt::format("b{}", ++berths_), lease_, [this, &slot] {
    checker_.OnBerthStarted();
    wire_.Listen(&slot->host());
  });
  Watch(slot->host());
}

void Processes::StartBerth() {
  env_.log.Say("berth starts");
  checker_.OnBerthStarted();
  for (auto& replica : replicas_) {
    if (replica == nullptr) StartReplica(replica);
  }
  if (!replicas_.empty()) return;
  if (berth_ != nullptr) wire_.Gone(berth_.get());
  berth_ = std::make_unique<HostDriver>(env_, fmt::format("b{}", ++berths_));
  Watch(*berth_);
  wire_.Listen(berth_.get());
}

void Processes::KillBerth() {
  HostDriver* const leader = berth();
  if (leader == nullptr) return;
  env_.log.Say("berth crashes");
  wire_.Gone(leader);
  if (leader == berth_.get()) return berth_.reset();
  std::ranges::find_if(replicas_, [leader](const auto& replica) {
    return replica != nullptr && &replica->host() == leader;
  })->reset();
}

bool Processes::StopBerth(std::function<void()> gone) {
  const HostDriver* const leader = berth();
  const auto slot = std::ranges::find_if(replicas_, [leader](const auto& replica) {
    return replica != nullptr && &replica->host() == leader;
  });
  if (slot == replicas_.end()) return false;
  (*slot)->Leave([this, slot, gone = std::move(gone)] {
    env_.timeline.After(0, [this, slot, gone] {
      wire_.Gone(&(*slot)->host());
      slot->reset();
      gone();
    });
  });
  return true;
}

/// At most one process may decide at a time.
void Processes::CheckLeaders() {
  const auto deciding = std::ranges::count_if(
      replicas_, [](const auto& replica) { return replica != nullptr && replica->host().ready(); });
  if (deciding > 1) checker_.Stop(fmt::format("leaders: {} replicas decide at once", deciding));
}

void Processes::StartScheduler() {
  wire_.HangUp();
  scheduler_ = std::make_unique<Scheduler>(env_, options_, wire_, env_.api);
  scheduler_->on_preemption = [this](const kube::Pod& pod, const std::string& node,
                                     const std::vector<const kube::Pod*>& victims) {
    checker_.OnPreemption(pod, node, victims);
  };
}

bool Processes::RunUntil(TimePoint end) {
  env_.timeline.At(end, [] {});  // makes the clock reach `end`
  while (!env_.timeline.empty() && env_.timeline.next() <= end) {
    env_.timeline.Step();
    CheckLeaders();
    checker_.AfterStep(berth());
    if (!checker_.violation().empty()) return false;
  }
  return true;
}

}  // namespace berth::sim
