// Watches the PodGroups and LocalQueues of other projects where the API server serves them. Which
// kinds it serves is asked again every few seconds, so that a CRD may come and go at any time. A
// kind that is not installed has no objects; that is not an error.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "kube/dialect_objects.h"
#include "kube/rest_client.h"
#include "server/drivers/host_driver.h"
#include "server/drivers/object_sink.h"

namespace berth::server {

/// Owned by Informers.
class DialectInformers {
 public:
  /// The references must outlive it. `on_synced` is called once: when everything served at the
  /// start has been listed, or its list was refused.
  DialectInformers(kube::RestClient& client, HostDriver& host, Metrics& metrics, Logger& logger,
                   std::function<void()> on_synced,
                   kube::Duration every = std::chrono::seconds(10));
  ~DialectInformers();
  DialectInformers(const DialectInformers&) = delete;
  DialectInformers& operator=(const DialectInformers&) = delete;

  void Start();
  void Stop();
  /// Milliseconds since the quietest of its watches last showed life; see ObjectSink::SilentMs.
  std::int64_t StalestMs() const;

 private:
  struct Watch;
  struct Kind {
    std::unique_ptr<ObjectSink> sink;  ///< Over all watches of the kind.
    std::unique_ptr<Watch> watch;      ///< Null: not served, or not needed.
  };

  std::unique_ptr<ObjectSink> MakeSink(const kube::DialectResource& resource);
  void Run(const std::stop_token& stop);
  bool Discover(const std::stop_token& stop);
  std::expected<std::string, std::string> ServedVersion(const kube::DialectResource& resource,
                                                        const std::stop_token& stop);
  bool Wanted(kube::DialectKind kind) const;
  void Follow(const kube::DialectResource& resource, const std::string& version);
  void Settle(kube::DialectKind kind);
  void TellSynced();

  kube::RestClient& client_;
  HostDriver& host_;
  Metrics& metrics_;
  Logger& logger_;
  const kube::Duration every_;  ///< Between two checks of what is served.

  std::mutex mutex_;                                   ///< Guards what follows.
  std::function<void()> on_synced_;                    ///< Empty once called.
  std::array<bool, kube::kDialectKinds> unsettled_{};  ///< The kinds whose first list is
                                                       ///< outstanding.
  bool discovered_ = false;

  /// By kind. Only the thread of Run uses them, except for the sinks' clocks.
  std::array<Kind, kube::kDialectKinds> kinds_;
  std::jthread thread_;
};

}  // namespace berth::server
