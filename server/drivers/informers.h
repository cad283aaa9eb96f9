// From the API server's watches to the engine: one reflector and one thread per resource. The
// resources of other projects, which may not be installed, are in dialect_informers.h, those of DRA
// in dra_informers.h.
#pragma once

#include <atomic>
#include <expected>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kube/decode.h"
#include "kube/reflector.h"
#include "server/drivers/dialect_informers.h"
#include "server/drivers/dra_informers.h"
#include "server/drivers/host_driver.h"
#include "server/drivers/object_sink.h"

namespace berth::server {

/// Owns the watches of all resources.
class Informers {
 public:
  /// The references must outlive it. `on_synced` is called once, when all lists have been
  /// delivered.
  Informers(kube::RestClient& client, HostDriver& host, Metrics& metrics, Logger& logger,
            std::function<void()> on_synced);
  ~Informers();
  Informers(const Informers&) = delete;
  Informers& operator=(const Informers&) = delete;

  using PolicySink = std::function<void(const kube::ConfigMap&)>;
  /// `gone` is called when the policy is deleted.
  void WatchPolicy(const std::string& ns, const std::string& name, PolicySink sink,
                   std::function<void()> gone);

  /// Another function that gets every pod, just before the engine does, under the host's lock.
  void WatchPods(std::function<void(const kube::Pod&)> seen,
                 std::function<void(const std::string& uid)> gone) {
    pod_seen_ = std::move(seen);
    pod_gone_ = std::move(gone);
  }

  /// Begins to watch. Do all the set-up before.
  void Start();
  /// Milliseconds since the quietest watch last showed life, among those that Berth needs: /readyz
  /// uses it.
  std::int64_t StalestMs() const;
  /// The same including dialects and DRA, where they are served: the metric uses it.
  std::int64_t StalestOfAllMs() const;
  bool synced() const { return waiting_ == 0; }
  void Stop();

 private:
  template <typename Object>
  using Decode = std::expected<Object, kube::DecodeError> (*)(simdjson::dom::element);
  /// What happens before the engine is told of an object. Either may be empty.
  template <typename Object>
  struct Before {
    std::function<void(Object&)> upsert{};
    std::function<void(const std::string& key)> remove{};
  };

  template <typename Object>
  void Watch(const std::string& name, const std::string& path, Decode<Object> decode,
             Before<Object> before);
  void Add(kube::ReflectorConfig config, std::unique_ptr<ObjectSink> sink);
  void OnFirstSync();

  kube::RestClient& client_;
  HostDriver& host_;
  Metrics& metrics_;
  Logger& logger_;
  const std::function<void()> on_synced_;
  std::function<void(const kube::Pod&)> pod_seen_;
  std::function<void(const std::string&)> pod_gone_;
  std::vector<std::unique_ptr<ObjectSink>> sinks_;
  std::vector<std::unique_ptr<kube::Reflector>> reflectors_;
  std::atomic<int> waiting_ = 2;  ///< One for dialects_, one for dra_.
  std::vector<std::jthread> threads_;
  DialectInformers dialects_;
  DraInformers dra_;
};

}  // namespace berth::server
