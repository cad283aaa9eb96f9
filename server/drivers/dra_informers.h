// Watches what DRA drivers publish, and tells the engine of devices that a node does not list
// itself: its Node objects then list them like any other. An API server that does not serve
// resource.k8s.io/v1 has none; that is not an error.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "kube/dra_counts.h"
#include "kube/reflector.h"
#include "server/drivers/host_driver.h"
#include "server/drivers/object_sink.h"

namespace berth::server {

/// Owned by Informers.
class DraInformers {
 public:
  /// The references must outlive it. `on_synced` is called once: when everything has been listed,
  /// or its list was refused.
  DraInformers(kube::RestClient& client, HostDriver& host, Metrics& metrics, Logger& logger,
               std::function<void()> on_synced);
  ~DraInformers();
  DraInformers(const DraInformers&) = delete;
  DraInformers& operator=(const DraInformers&) = delete;

  /// Adds to a node, as the API server has it, the devices that it does not list. REQUIRES: the
  /// host's lock.
  void Complete(kube::Node& node);
  void Forget(const std::string& node);  ///< The node is gone. REQUIRES: the host's lock.

  void Start();
  void Stop();
  /// Milliseconds since the quietest of its watches last showed life; see ObjectSink::SilentMs.
  std::int64_t StalestMs() const;

 private:
  template <typename Decode, typename Key, typename Delete>
  void Add(const std::string& plural, Decode decode, Key key, Delete remove);
  void Settle(const std::string& plural);
  void Tell(engine::Engine& engine, engine::TimePoint now, const kube::DraCounts::Nodes& nodes);

  kube::RestClient& client_;
  HostDriver& host_;
  Metrics& metrics_;
  Logger& logger_;

  std::mutex mutex_;                 ///< Guards what follows.
  std::function<void()> on_synced_;  ///< Empty once called.
  std::set<std::string> unsettled_;  ///< The kinds, by plural, whose first list is outstanding.

  kube::DraCounts counts_;                            ///< Guarded by the host's lock, as the next
                                                      ///< one.
  std::map<std::string, kube::ResourceList> filled_;  ///< What Complete wrote, by node.
  std::map<std::string, std::int64_t> ignored_;       ///< As the metric has it; empty: not set yet.

  std::vector<std::unique_ptr<ObjectSink>> sinks_;
  std::vector<std::unique_ptr<kube::Reflector>> reflectors_;
  std::vector<std::jthread> threads_;
};

}  // namespace berth::server
