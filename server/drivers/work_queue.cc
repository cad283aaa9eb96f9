#include "server/drivers/work_queue.h"

namespace berth::server {

WorkQueue::WorkQueue(std::size_t threads, std::size_t max_jobs) : max_jobs_(max_jobs) {
  for (std::size_t i = 0; i < threads; ++i) lanes_.push_back(std::make_unique<Lane>());
  for (auto& lane : lanes_) {
    lane->thread = std::jthread([&lane = *lane](const std::stop_token& stop) { Run(stop, lane); });
  }
}

WorkQueue::~WorkQueue() {
  for (auto& lane : lanes_) lane->thread.request_stop();
}

bool WorkQueue::Push(std::string_view key, std::function<void()> job) {
  Lane& lane = *lanes_[std::hash<std::string_view>{}(key) % lanes_.size()];
  {
    const std::scoped_lock lock(lane.mutex);
    if (lane.jobs.size() >= max_jobs_) return false;
    lane.jobs.push_back(std::move(job));
  }
  lane.ready.notify_one();
  return true;
}

std::size_t WorkQueue::pending() const {
  std::size_t count = 0;
  for (const auto& lane : lanes_) {
    const std::scoped_lock lock(lane->mutex);
    count += lane->jobs.size() + (lane->running ? 1 : 0);
  }
  return count;
}

void WorkQueue::Run(const std::stop_token& stop, Lane& lane) {
  while (true) {
    std::function<void()> job;
    {
      std::unique_lock lock(lane.mutex);
      if (!lane.ready.wait(lock, stop, [&lane] { return !lane.jobs.empty(); })) return;
      job = std::move(lane.jobs.front());
      lane.jobs.pop_front();
      lane.running = true;
    }
    job();
    const std::scoped_lock lock(lane.mutex);
    lane.running = false;
  }
}

}  // namespace berth::server
