// What queues and users have used goes on over restarts and changes of the leader: it is kept in a
// ConfigMap of our own.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "host/timeouts.h"
#include "kube/rest_client.h"
#include "server/drivers/host_driver.h"
#include "server/drivers/tenure.h"
#include "server/logging.h"

namespace berth::server {

/// Keeps it in ConfigMap `berth-usage`, key `usage.json`. The metrics show what is kept, not what
/// was counted since: so they do not fall when the process dies. Thread-safe.
class UsageKeeper {
 public:
  struct Pace {
    std::chrono::milliseconds between_writes = host::kBetweenUsageWrites;
    std::chrono::milliseconds before_retry{5'000};  ///< Of a read that failed.
  };

  /// The references must outlive it.
  UsageKeeper(HostDriver& host, kube::RestClient& client, Tenure& tenure, std::string ns,
              Metrics& metrics, Logger& logger, Pace pace);
  ~UsageKeeper();
  UsageKeeper(const UsageKeeper&) = delete;
  UsageKeeper& operator=(const UsageKeeper&) = delete;

  /// This process decides from now on. On a thread of its own what was counted so far is read, then
  /// the engine begins to count, and what it has counted is written every minute.
  void Begin();
  /// Until the next Begin nothing is read or written any more. What has been counted is written
  /// now, if this process may still write: takes a few seconds at most. Metrics show nothing.
  void End();

 private:
  void Run(const std::stop_token& stop);
  bool Read(const std::stop_token& stop);
  void WriteIn(std::uint64_t term);
  void Write();
  void Report(const std::string& error);

  HostDriver& host_;
  kube::RestClient& client_;
  Tenure& tenure_;
  const std::string ns_;
  Metrics& metrics_;
  Logger& logger_;
  const Pace pace_;
  std::mutex writing_;  ///< One at a time, so that no older text overtakes a newer one.
  std::optional<cluster::UsageRecord> written_;  ///< Guarded by it.
  std::mutex mutex_;                             ///< Guards what follows.
  std::condition_variable_any changed_;
  std::uint64_t term_ = 0;
  bool active_ = false;           ///< Between Begin and End.
  std::uint64_t counted_in_ = 0;  ///< The term in which the engine has begun to count.
  std::string reported_;          ///< The last error in the log; empty: it was overcome.
  std::jthread thread_;
};

}  // namespace berth::server
