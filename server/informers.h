// From the API server's watches to the engine: one reflector and one thread per resource. The host
// starts deciding when every first list has been processed.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kube/reflector.h"
#include "server/host.h"

namespace berth::server {

class Informers {
 public:
  /// The references must outlive it. `on_policy` gets each version of the watched ConfigMap; an
  /// empty `policy_namespace` watches none.
  Informers(kube::RestClient& client, Host& host, Metrics& metrics, Logger& logger);
  ~Informers();
  Informers(const Informers&) = delete;
  Informers& operator=(const Informers&) = delete;

  using PolicySink = std::function<void(const kube::ConfigMap&)>;
  void WatchPolicy(const std::string& ns, const std::string& name, PolicySink sink);

  /// Begins to watch; calls Host::Start once all is in.
  void Start();
  /// Milliseconds since the quietest watch last showed life; what /readyz and the metric go by.
  std::int64_t StalestMs() const;
  bool synced() const { return waiting_ == 0; }
  void Stop();

 private:
  class Sink;
  void Add(kube::ReflectorConfig config, std::unique_ptr<Sink> sink);
  void OnFirstSync();

  kube::RestClient& client_;
  Host& host_;
  Metrics& metrics_;
  Logger& logger_;
  std::vector<std::unique_ptr<Sink>> sinks_;
  std::vector<std::unique_ptr<kube::Reflector>> reflectors_;
  std::atomic<int> waiting_ = 0;
  std::vector<std::jthread> threads_;
};

}  // namespace berth::server
