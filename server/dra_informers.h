// Watches what DRA drivers publish, and tells the engine of a node's devices what the node itself
// does not: its Node objects then list them like any other. An API server that does not serve
// resource.k8s.io/v1 has none, which is no error.
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
#include "server/host.h"
#include "server/object_sink.h"

namespace berth::server {

class DraInformers {
 public:
  /// The references must outlive it. `on_synced` is called once: when all has been listed, or has
  /// refused to be.
  DraInformers(kube::RestClient& client, Host& host, Metrics& metrics, Logger& logger,
               std::function<void()> on_synced);
  ~DraInformers();
  DraInformers(const DraInformers&) = delete;
  DraInformers& operator=(const DraInformers&) = delete;

  /// A node as the API server has it: gets the devices that it does not list. REQUIRES: the host's
  /// lock.
  void Complete(kube::Node& node);
  void Forget(const std::string& node);  ///< It is gone. REQUIRES: the host's lock.

  void Start();
  void Stop();
  /// Since the quietest of its watches last showed life; see ObjectSink::SilentMs.
  std::int64_t StalestMs() const;

 private:
  template <typename Decode, typename Key, typename Delete>
  void Add(const std::string& plural, Decode decode, Key key, Delete remove);
  void Settle(const std::string& plural);
  void Tell(engine::Engine& engine, engine::TimePoint now, const kube::DraCounts::Nodes& nodes);

  kube::RestClient& client_;
  Host& host_;
  Metrics& metrics_;
  Logger& logger_;

  std::mutex mutex_;                 ///< Guards what follows.
  std::function<void()> on_synced_;  ///< Empty once called.
  std::set<std::string> unsettled_;  ///< First lists that are not in, by plural.

  kube::DraCounts counts_;                            ///< Under the host's lock, as the next.
  std::map<std::string, kube::ResourceList> filled_;  ///< What Complete wrote, by node.
  std::map<std::string, std::int64_t> ignored_;       ///< As the metric has it; empty: not yet.

  std::vector<std::unique_ptr<ObjectSink>> sinks_;
  std::vector<std::unique_ptr<kube::Reflector>> reflectors_;
  std::vector<std::jthread> threads_;
};

}  // namespace berth::server
