// A model of kube-scheduler's loop as an extender sees it (v1.36): serial cycles of filter and
// prioritize over real HTTP, bind calls on threads of their own, the nominated node tried first and
// alone, refused pods inactive until they are updated or an assigned pod has an event.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "kube/rest_client.h"
#include "server/demo/demo_audit.h"
#include "server/drivers/embedded_cluster.h"

namespace berth::server {

/// The p-quantile of the samples, 0 <= p <= 1; 0 if there are none.
std::int64_t Quantile(std::vector<std::int64_t> samples, double p);

/// Wall times of one verb's calls, in microseconds.
struct VerbTimes {
  std::string verb;
  std::vector<std::int64_t> micros;
};

class SchedulerModel {
 public:
  using Millis = std::chrono::milliseconds;
  /// The references must outlive it. Backoff doubles from `backoff` to ten times that.
  SchedulerModel(EmbeddedCluster& cluster, kube::RestClient& verbs, Auditor& auditor,
                 Millis backoff);
  ~SchedulerModel();

  /// Registers what the pod's controller created, in the form that kube-scheduler would send. Call
  /// it before the pod is put into the cluster.
  void Know(const std::string& uid, nlohmann::json pod);
  /// The watch; see EmbeddedCluster::Watch.
  void OnPod(const kube::Pod& pod, bool gone);
  void Start();
  void Stop();

  /// No pod is being tried, and none will be before something happens. Binds may be parked.
  bool Idle() const;
  std::array<VerbTimes, 3> Times() const;
  /// Calls with HTTP errors, and a sample of their messages.
  std::vector<std::string> Failures() const;

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  enum class Place : std::uint8_t { kGated, kActive, kBackoff, kAsleep, kTrying, kBinding, kBound };
  struct Entry {
    kube::Pod pod;
    Place place = Place::kAsleep;
    int attempts = 0;
    TimePoint due{};           ///< For kBackoff.
    bool after_error = false;  ///< Its backoff is not shortened.
    bool moved = false;        ///< An event came during its attempt.
    std::string node;          ///< Assumed or bound.
  };
  struct Node {
    kube::ResourceList allocatable;
    kube::ResourceList requested;
    std::int64_t pods = 0;
    bool unschedulable = false;
  };
  struct Outcome {
    std::string node;     ///< Empty: refused.
    std::string message;  ///< The message of the condition.
    bool error = false;   ///< The call failed, and there is no verdict.
  };
  struct BindThread {
    std::jthread thread;
    bool done = false;
  };

  void Run(const std::stop_token& stop);
  std::string Next(const std::stop_token& stop);
  void Cycle(const std::string& uid);
  Outcome Schedule(const kube::Pod& pod);
  std::vector<std::string> Feasible(const kube::Pod& pod,
                                    std::map<std::string, int>& refused) const;
  bool Fits(const kube::Pod& pod, const std::string& name, const Node& node,
            std::string& why) const;
  std::vector<std::string> AskFilter(const kube::Pod& pod, const std::vector<std::string>& offered,
                                     std::map<std::string, int>& refused, Outcome& outcome);
  std::string AskPrioritize(const kube::Pod& pod, const std::vector<std::string>& nodes);
  void Assume(const std::string& uid, const std::string& node);
  void BindAsync(const kube::Pod& pod, const std::string& node);
  std::string AskBind(const kube::Pod& pod, const std::string& node);
  void Failed(const std::string& uid, const Outcome& outcome);
  void PatchCondition(const std::string& uid, const kube::PodScheduled& condition);
  std::optional<std::string> Post(std::size_t verb, std::string body);
  std::string ArgsFor(const kube::Pod& pod, const std::vector<std::string>& nodes) const;

  // REQUIRES mutex_ for all of these.
  void Activate(const std::string& uid, Entry& entry);
  void MoveAll();
  void Account(const Entry& entry, int sign);

  EmbeddedCluster& cluster_;
  kube::RestClient& verbs_;
  Auditor& auditor_;
  const Millis backoff_;

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::map<std::string, Node> nodes_;
  std::map<std::string, Entry> pods_;
  std::map<std::string, nlohmann::json> posted_;
  std::deque<std::string> active_;
  std::list<BindThread> binds_;
  std::array<VerbTimes, 3> times_;
  std::vector<std::string> failures_;
  bool trying_ = false;
  std::stop_source stop_calls_;
  std::jthread loop_;
};

}  // namespace berth::server
