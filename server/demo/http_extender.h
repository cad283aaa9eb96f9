// The extender's verbs over HTTP, for the model of kube-scheduler: a call runs on one of the
// threads of this class, and its answer is read on the thread of the scheduler.
#pragma once

#include <array>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "kube/rest_client.h"
#include "sim/world/environment.h"
#include "sim/world/extender.h"
#include "sim/world/verb_bytes.h"

namespace berth::server {

/// Wall times of one verb's calls, in microseconds.
struct VerbTimes {
  std::string verb;
  std::vector<std::int64_t> micros;
};

class HttpExtender final : public sim::Extender {
 public:
  /// Runs the event on the scheduler's thread. Is called from any thread.
  using Post = std::function<void(sim::Event)>;

  /// The references must outlive it.
  HttpExtender(sim::Environment& env, kube::RestClient& verbs, Post post);
  ~HttpExtender() override { Stop(); }

  // --- On the scheduler's thread.
  void Filter(const kube::Pod& pod, const std::vector<std::string>& offered,
              Done<sim::FilterReply> done) override;
  void TryFilter(const kube::Pod& pod, const std::vector<std::string>& offered,
                 Done<sim::FilterReply> done) override {
    Filter(pod, offered, std::move(done));
  }
  void Prioritize(const kube::Pod& pod, const std::vector<std::string>& offered,
                  Done<std::map<std::string, std::int64_t>> done) override;
  void Bind(const engine::PodRef& pod, const std::string& node, Done<std::string> done) override;
  void Preempt(const kube::Pod& pod, const engine::VictimMap& candidates,
               Done<engine::VictimMap> done) override;
  /// Called right before a call of bind; may be empty.
  std::function<void(const std::string& uid)> on_bind;

  /// Ends the calls under way and waits for their threads. Only when the scheduler's thread has
  /// ended; idempotent.
  void Stop();

  // --- On any thread.
  /// Of the calls that were answered, by verb: filter, prioritize, bind, preempt.
  std::array<VerbTimes, 4> Times() const;
  /// Calls without an answer, and answers that kube-scheduler could not use: the first of them.
  std::vector<std::string> Failures() const;

 private:
  enum Verb : std::size_t { kFilter, kPrioritize, kBind, kPreempt };
  using Answer = std::expected<std::string, std::string>;
  template <typename Result, typename Read>
  void Start(Verb verb, std::string body, Read read, Done<Result> done);
  void Work();
  Answer Ask(Verb verb, std::string body);
  void Failed(Verb verb, const std::string& why);

  sim::Environment& env_;
  kube::RestClient& verbs_;
  const Post post_;
  sim::VerbBytes bytes_;
  std::stop_source stop_;
  mutable std::mutex mutex_;  ///< Guards the next five.
  std::deque<sim::Event> calls_;
  std::size_t idle_ = 0;               ///< How many of the workers have no call.
  std::vector<std::jthread> workers_;  ///< As many as there ever were calls at the same time.
  std::array<VerbTimes, 4> times_;
  std::vector<std::string> failures_;
  std::condition_variable_any called_;
};

}  // namespace berth::server
