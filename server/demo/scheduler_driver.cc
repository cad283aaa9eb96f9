#include "server/demo/scheduler_driver.h"

#include <utility>

#include "server/drivers/host_driver.h"

namespace berth::server {
namespace {

/// How long the thread waits if there is nothing to wait for.
constexpr std::chrono::hours kForever{1};

}  // namespace

SchedulerDriver::SchedulerDriver(EmbeddedCluster& cluster, kube::RestClient& verbs,
                                 Auditor& auditor, int speed)
    : cluster_(cluster),
      speed_(speed),
      epoch_(SystemClock()),
      env_(/*seed=*/1, epoch_, /*log_lines=*/0),
      extender_(env_, verbs, [this](sim::Event event) { Post(std::move(event)); }),
      scheduler_(env_, {}, extender_, *this) {
  for (kube::Node& node : cluster.Nodes()) env_.api.PutNode(std::move(node));
  extender_.on_bind = [&auditor](const std::string& uid) { auditor.OnBindCall(uid); };
}

void SchedulerDriver::Start() {
  start_ = Clock::now();
  thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
}

void SchedulerDriver::Stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
  extender_.Stop();
}

// --- The thread ----------------------------------------------------------------------------------

sim::TimePoint SchedulerDriver::now() const {
  const auto passed = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start_);
  return epoch_ + passed.count() * speed_ / 1000;
}

/// The first moment at which now() is not before `when`, or one microsecond later.
SchedulerDriver::Clock::time_point SchedulerDriver::TimeOf(sim::TimePoint when) const {
  return start_ + std::chrono::microseconds((when - epoch_) * 1000 / speed_ + 1);
}

void SchedulerDriver::Post(sim::Event event) {
  const std::scoped_lock lock(mutex_);
  posted_.push_back(std::move(event));
  changed_.notify_all();
}

/// What is posted becomes an event of this moment. It is looked for before every event: the thread
/// must not decide by what it saw before a write of its own had to wait.
void SchedulerDriver::Run(const std::stop_token& stop) {
  sim::Timeline& timeline = env_.timeline;
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    for (sim::Event& event : posted_) timeline.At(now(), std::move(event));
    posted_.clear();
    if (!timeline.empty() && timeline.next() <= now()) {
      idle_ = false;
      lock.unlock();
      timeline.Step();
      lock.lock();
      continue;
    }
    idle_ = scheduler_.Idle();
    const auto due = timeline.empty() ? Clock::now() + kForever : TimeOf(timeline.next());
    changed_.wait_until(lock, stop, due, [this] { return !posted_.empty(); });
  }
}

bool SchedulerDriver::Idle() const {
  const std::scoped_lock lock(mutex_);
  return idle_ && posted_.empty();
}

// --- The cluster ---------------------------------------------------------------------------------

void SchedulerDriver::OnPod(const kube::Pod& pod, bool gone) {
  Post([this, pod, gone] {
    if (gone) {
      env_.api.RemovePod(sim::RefOf(pod));
    } else {
      env_.api.PutPod(pod);
    }
  });
}

/// The pod is gone at once: there is no kubelet that would end it.
sim::Reply SchedulerDriver::DeletePod(const engine::PodRef& ref) {
  cluster_.DeletePod(ref.uid);
  return {};
}

sim::Reply SchedulerDriver::Bind(const engine::PodRef& ref, const std::string& node,
                                 const std::map<std::string, std::string>& annotations) {
  host::Result result = cluster_.CarryOut(
      host::PostBinding{.pod = ref, .node = node, .annotations = annotations}, [] { return true; });
  if (result.outcome == kube::WriteOutcome::kDone) return {};
  return {.status = 409, .message = std::move(result.message)};
}

sim::Reply SchedulerDriver::Patch(const engine::PodRef& ref,
                                  const std::function<bool(kube::Pod&)>& change) {
  if (!cluster_.ChangePod(ref.uid, change)) return {.status = 404, .message = "pod not found"};
  return {};
}

}  // namespace berth::server
