// The demo's world: an embedded cluster, the real service on loopback ports, kube-scheduler's
// model, and the controllers that create jobs, start the clock of running jobs and end them.
#pragma once

#include <atomic>
#include <expected>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <vector>

#include "server/demo/demo_audit.h"
#include "server/demo/demo_evictions.h"
#include "server/demo/demo_jobs.h"
#include "server/demo/scheduler_driver.h"
#include "server/drivers/decision_log.h"
#include "server/drivers/embedded_cluster.h"
#include "server/drivers/host_driver.h"
#include "server/http/http_server.h"

namespace berth::server {

/// The YAML of examples/clusters/three-racks.yaml.
extern const std::string_view kThreeRacks;

/// A job and its state. Times are milliseconds since the demo's start; -1: not yet.
struct JobState {
  DemoJob job;
  std::int64_t submitted = -1;
  std::int64_t started = -1;
  std::int64_t ended = -1;
  int bound = 0;
  int live = 0;                   ///< Its pods that exist.
  bool evicted = false;           ///< Some of its pods were, and its new ones are not created yet.
  int evictions = 0;              ///< How often it was evicted and began again.
  std::set<std::string> racks{};  ///< The racks where its members are, or were.

  bool waiting() const { return submitted >= 0 && started < 0; }
  bool running() const { return started >= 0 && ended < 0; }
};

/// The demo's cluster, and what the service writes.
struct WorldOptions {
  std::string cluster{};  ///< A file; empty: kThreeRacks.
  bool verbose = false;
  std::string decision_log{};  ///< With inputs; empty: none.
  int speed = 20;              ///< How fast kube-scheduler's time passes; see SchedulerDriver.
};

/// Owns everything that runs in the demo.
class DemoWorld {
 public:
  /// For people; `code` is the exit code of the process.
  struct Error {
    int code = 1;
    std::string message;
  };
  static std::expected<std::unique_ptr<DemoWorld>, Error> Create(const WorldOptions& options);
  ~DemoWorld();

  int gpus() const { return gpus_; }
  std::size_t nodes() const { return rack_of_.size(); }
  std::size_t racks() const;
  Auditor& auditor() { return auditor_; }
  const SchedulerDriver& scheduler() const { return *scheduler_; }

  /// Takes the stream and starts; now() counts from here.
  void Start(std::vector<DemoJob> jobs);
  /// One more job, created at its time, or at once if that is over.
  void Submit(DemoJob job);
  /// Milliseconds since Start.
  std::int64_t now() const;
  /// Submits jobs that are due, ends jobs whose run time is over. With `finish` false no job ends
  /// any more.
  void Tick(bool finish = true);
  /// Returns when only waiting jobs are left, or at the deadline.
  void Settle(std::chrono::milliseconds deadline);
  /// Stops the scheduler first, then the service; idempotent.
  void Stop();

  /// Every job that was submitted, in that order.
  std::vector<JobState> jobs() const;
  std::vector<JobEviction> evictions() const;
  /// A page of the service, over HTTP. Empty: the request failed.
  nlohmann::ordered_json Page(const std::string& path, const std::string& pod = {}) const;

 private:
  DemoWorld() = default;
  std::optional<Error> Wire(const WorldOptions& options);
  std::optional<Error> Listen();
  void Create(const DemoJob& job, int from, int to);
  void EndJobs();
  void OnPod(const kube::Pod& pod, bool gone);
  void Evicted(JobState& state, const std::string& workload);
  void BeginAgain(std::size_t job);

  struct Member {
    std::size_t job = 0;
    bool bound = false;
  };
  struct Due {
    std::int64_t at = 0;
    std::size_t job = 0;
    enum class What : std::uint8_t { kSubmit, kLateMembers } what = What::kSubmit;
    bool operator>(const Due& other) const {
      return std::tie(at, job) > std::tie(other.at, other.job);
    }
  };

  // In the order of construction: the host's writers notify the cluster, and the cluster notifies
  // us, until the host is gone.
  mutable std::mutex mutex_;  ///< Guards the next four.
  std::vector<JobState> jobs_;
  EvictionLog evictions_;
  std::map<std::string, Member> members_;  ///< By pod UID.
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
  std::chrono::steady_clock::time_point start_;
  std::map<std::string, std::string> rack_of_;  ///< By node; fixed once wired.
  int gpus_ = 0;
  bool stopped_ = false;
  std::unique_ptr<Logger> logger_;
  std::unique_ptr<Metrics> metrics_;
  std::unique_ptr<DecisionLog> decisions_;
  Auditor auditor_;
  std::unique_ptr<EmbeddedCluster> cluster_;
  std::unique_ptr<kube::RestClient> verbs_;
  std::unique_ptr<kube::RestClient> ops_;
  std::unique_ptr<SchedulerDriver> scheduler_;
  std::unique_ptr<HostDriver> host_;
  std::unique_ptr<HttpServer> verb_server_;
  std::unique_ptr<HttpServer> ops_server_;
};

}  // namespace berth::server
