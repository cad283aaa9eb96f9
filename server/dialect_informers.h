// Watches the PodGroups and LocalQueues of other projects where the API server serves them. Which
// it does is asked again every few seconds, so that a CRD may come and go at any time: one that is
// not installed has no objects, which is no error.
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
#include "server/host.h"
#include "server/object_sink.h"

namespace berth::server {

class DialectInformers {
 public:
  /// The references must outlive it. `on_synced` is called once: when all that was served at the
  /// start has been listed, or has refused to be.
  DialectInformers(kube::RestClient& client, Host& host, Metrics& metrics, Logger& logger,
                   std::function<void()> on_synced,
                   kube::Duration every = std::chrono::seconds(10));
  ~DialectInformers();
  DialectInformers(const DialectInformers&) = delete;
  DialectInformers& operator=(const DialectInformers&) = delete;

  void Start();
  void Stop();
  /// Since the quietest of its watches last showed life; see ObjectSink::SilentMs.
  std::int64_t StalestMs() const;

 private:
  struct Watch;
  struct Kind {
    std::unique_ptr<ObjectSink> sink;  ///< Over all watches of the kind.
    std::unique_ptr<Watch> watch;      ///< Null: not served, or of no use.
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
  Host& host_;
  Metrics& metrics_;
  Logger& logger_;
  const kube::Duration every_;  ///< Between two looks at what is served.

  std::mutex mutex_;                                   ///< Guards what follows.
  std::function<void()> on_synced_;                    ///< Empty once called.
  std::array<bool, kube::kDialectKinds> unsettled_{};  ///< First lists that are not in.
  bool discovered_ = false;

  /// By kind; only the thread of Run touches them, but for the sinks' clocks.
  std::array<Kind, kube::kDialectKinds> kinds_;
  std::jthread thread_;
};

}  // namespace berth::server
