#include "sim/experiments/queue_model.h"

#include <algorithm>
#include <map>
#include <queue>
#include <set>
#include <tuple>

namespace berth::sim {
namespace {

constexpr std::int64_t kSecond = 1000;
constexpr std::int64_t kFirstBackoff = 1 * kSecond;
constexpr std::int64_t kMostBackoff = 10 * kSecond;
constexpr std::int64_t kFlushAfter = 300 * kSecond;
constexpr std::int64_t kFlushEvery = 30 * kSecond;

enum class QueueEvent : std::uint8_t { kEnd, kArrival, kFlush };

/// One run: a queue of (time, sequence, event) and kube-scheduler's three queues.
class World {
 public:
  World(const std::vector<OpenbNode>& nodes, const std::vector<QueuedJob>& jobs,
        const QueueModelOptions& options)
      : jobs_(jobs), options_(options), cluster_(nodes, {}, options.packing), pods_(jobs.size()) {}

  QueueResult Run() {
    for (std::size_t i = 0; i < jobs_.size(); ++i)
      Schedule(jobs_[i].arrival, QueueEvent::kArrival, i);
    while (!events_.empty()) {
      now_ = std::get<0>(events_.top());
      // Handle all events of this moment before the scheduler runs.
      while (!events_.empty() && std::get<0>(events_.top()) == now_) {
        const auto [time, sequence, event, job] = events_.top();
        events_.pop();
        Handle(event, job);
      }
      ScheduleAll();
    }
    return Summary();
  }

 private:
  struct Pod {
    PackingCluster::PodId id = 0;
    std::uint64_t stamp = 0;  ///< Order for PrioritySort: time never runs back, so a counter is
                              ///< enough.
    std::int64_t failed = 0;
    int attempts = 0;
    std::int64_t start = -1;
    std::int64_t end = -1;
    bool never = false;
  };

  void Schedule(std::int64_t time, QueueEvent event, std::size_t job) {
    events_.emplace(time, ++sequence_, event, job);
  }

  void Handle(QueueEvent event, std::size_t job) {
    switch (event) {
      case QueueEvent::kArrival:
        Arrive(job);
        break;
      case QueueEvent::kEnd:
        cluster_.Remove(pods_[job].id);
        pods_[job].end = now_;
        MoveAll(now_ + 1);
        break;
      case QueueEvent::kFlush:
        flush_due_ = false;
        MoveAll(now_ - kFlushAfter + 1);
        DueFlush();
        break;
    }
  }

  void Arrive(std::size_t job) {
    Pod& pod = pods_[job];
    pod.id = cluster_.Submit(jobs_[job].pod);
    if (!cluster_.FitsEmpty(pod.id)) {
      pod.never = true;
      cluster_.Remove(pod.id);
      return;
    }
    pod.stamp = ++stamps_;
    Activate(job);
  }

  void Activate(std::size_t job) { active_.emplace(pods_[job].stamp, job); }

  /// An event may have made room: pods whose attempt failed before `before` are tried again.
  void MoveAll(std::int64_t before) {
    std::erase_if(unschedulable_, [&](std::size_t job) {
      const Pod& pod = pods_[job];
      if (pod.failed >= before) return false;
      const std::int64_t backoff =
          pod.attempts > 4 ? kMostBackoff
                           : std::min(kMostBackoff, kFirstBackoff << (pod.attempts - 1));
      // The backoff ends at the end of the second in which its time lies.
      const std::int64_t due = ((pod.failed + backoff) / kSecond + 1) * kSecond;
      if (due > now_) {
        backoff_.emplace(due, pod.stamp, job);
      } else {
        Activate(job);
      }
      return true;
    });
  }

  void DueFlush() {
    if (flush_due_ || unschedulable_.empty()) return;
    flush_due_ = true;
    Schedule((now_ / kFlushEvery + 1) * kFlushEvery, QueueEvent::kFlush, 0);
  }

  void ScheduleAll() {
    while (!active_.empty() || !backoff_.empty()) {
      const bool idle = active_.empty();
      const std::size_t job = idle ? std::get<2>(*backoff_.begin()) : active_.begin()->second;
      ++attempts_;
      const bool placed = cluster_.TryPlace(pods_[job].id);
      if (!placed && options_.strict_fifo) return;  // the head blocks all jobs behind it
      if (idle) {
        backoff_.erase(backoff_.begin());
      } else {
        active_.erase(active_.begin());
      }
      if (placed) {
        pods_[job].start = now_;
        Schedule(now_ + jobs_[job].service, QueueEvent::kEnd, job);
      } else {
        Fail(job);
      }
    }
    if (!options_.strict_fifo) DueFlush();
  }

  void Fail(std::size_t job) {
    Pod& pod = pods_[job];
    ++pod.attempts;
    pod.failed = now_;
    pod.stamp = ++stamps_;
    unschedulable_.insert(job);
  }

  QueueResult Summary() const {
    QueueResult result{.jobs = {}, .ran = {}, .never = {}, .attempts = attempts_};
    std::int64_t last = 0;
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      const Pod& pod = pods_[i];
      if (pod.never) {
        result.never.push_back(i);
        continue;
      }
      result.ran.push_back(i);
      result.jobs.push_back(
          {.wait = pod.start - jobs_[i].arrival, .jct = pod.end - jobs_[i].arrival});
      last = std::max(last, pod.end);
      result.busy += jobs_[i].pod.total_gpu_milli() * jobs_[i].service;
    }
    if (!jobs_.empty()) result.makespan = last - jobs_.front().arrival;
    return result;
  }

  using Entry = std::tuple<std::int64_t, std::uint64_t, QueueEvent, std::size_t>;

  const std::vector<QueuedJob>& jobs_;
  const QueueModelOptions& options_;
  PackingCluster cluster_;
  std::vector<Pod> pods_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> events_;
  std::uint64_t sequence_ = 0;
  std::int64_t now_ = 0;
  std::uint64_t stamps_ = 0;
  std::map<std::uint64_t, std::size_t> active_;  ///< By stamp.
  /// By the end of the backoff, then by stamp. Empty between two moments.
  std::set<std::tuple<std::int64_t, std::uint64_t, std::size_t>> backoff_;
  std::set<std::size_t> unschedulable_;
  bool flush_due_ = false;
  std::int64_t attempts_ = 0;
};

}  // namespace

QueueResult RunQueue(const std::vector<OpenbNode>& nodes, const std::vector<QueuedJob>& jobs,
                     const QueueModelOptions& options) {
  return World(nodes, jobs, options).Run();
}

}  // namespace berth::sim
