// The controllers and kubelets of a replay: they create each job's pods when it arrives, let it run
// once all of them are bound, and end it.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "sim/trace/claims.h"
#include "sim/trace/recording.h"
#include "sim/world/environment.h"

namespace berth::sim {

/// Plays the jobs of one replay.
class Player {
 public:
  struct Options {
    bool gated = false;  ///< Pods are created with Berth's gate.
    std::string scheduler_name = "default-scheduler";
    bool one_at_a_time = false;  ///< No job is created before the previous one runs.
  };
  struct Outcome {
    TimePoint first_start = -1;  ///< When all its pods were bound for the first time; -1: never.
    TimePoint start = -1;        ///< The same, for the last time.
    TimePoint end = -1;
  };

  /// `jobs` and `env` must outlive it. Job times count from env.now().
  Player(Environment& env, const std::vector<RecordedJob>& jobs, Options options);

  const std::vector<Outcome>& outcomes() const { return outcomes_; }
  /// What has happened to the jobs, in order.
  const std::vector<JobEvent>& events() const { return events_; }
  std::size_t waiting() const { return arrived_ - running_ - ended_; }
  std::size_t running() const { return running_; }
  std::size_t ended() const { return ended_; }
  bool all_arrived() const { return arrived_ == outcomes_.size(); }
  /// When a job last started or ended, or a pod was bound.
  TimePoint last_change() const { return last_change_; }
  int evictions() const { return evictions_; }
  /// GPU time of work that was lost to evictions, in milli-GPU milliseconds.
  double lost() const { return lost_; }

 private:
  struct State {
    std::size_t bound = 0;
    std::uint64_t turn = 0;  ///< Incremented by each start; an end that was set for an earlier one
                             ///< is ignored.
  };

  void Arrive(std::size_t job);
  void CreateNext();
  void Create(std::size_t job, std::size_t pod);
  void OnPod(const Change& change);
  void Note(std::size_t job, JobEvent::Kind kind);
  void OnLost(std::size_t job, std::size_t index, const engine::PodRef& pod);
  void Start(std::size_t job);
  void End(std::size_t job);

  Environment& env_;
  const std::vector<RecordedJob>& jobs_;
  const Options options_;
  Life life_;
  std::vector<Outcome> outcomes_;
  std::vector<JobEvent> events_;
  std::vector<State> states_;
  std::map<std::string, std::pair<std::size_t, std::size_t>>
      owners_;                         ///< Pod's ns/name to job, pod.
  std::map<std::string, bool> bound_;  ///< UIDs of pods that were seen bound, until they are gone.
  std::deque<std::size_t> queue_;      ///< Arrived but not created yet (one_at_a_time).
  std::size_t arrived_ = 0;
  std::size_t running_ = 0;
  std::size_t ended_ = 0;
  TimePoint last_change_ = 0;
  int evictions_ = 0;
  double lost_ = 0;
};

}  // namespace berth::sim
