// A few threads that run jobs in order per key: writes to one pod never overtake each other.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

namespace berth::server {

/// Thread-safe.
class WorkQueue {
 public:
  /// At most `max_jobs` wait per thread; beyond that Push returns false.
  WorkQueue(std::size_t threads, std::size_t max_jobs);
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  /// Runs `job` on the thread of its key, after the jobs before it. False: too many wait.
  bool Push(std::string_view key, std::function<void()> job);
  /// The number of jobs that wait or run.
  std::size_t pending() const;

 private:
  struct Lane {
    mutable std::mutex mutex;
    std::condition_variable_any ready;
    std::deque<std::function<void()>> jobs;
    bool running = false;
    std::jthread thread;
  };
  static void Run(const std::stop_token& stop, Lane& lane);

  std::size_t max_jobs_;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace berth::server
