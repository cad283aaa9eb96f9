// Decodes the objects of one reflector and passes them on; generates the deletes that a relist
// implies.
#pragma once

#include <simdjson.h>

#include <atomic>
#include <functional>
#include <string>

#include "kube/known_keys.h"
#include "kube/reflector.h"
#include "server/logging.h"
#include "server/ops/metrics.h"

namespace berth::server {

/// The outcome for one object.
struct Upserted {
  std::string key{};      ///< Its UID or its name; empty: the object could not be read.
  std::string problem{};  ///< Why it could not be read, or what was left out of it; empty: no
                          ///< problem.
};

class ObjectSink final : public kube::ReflectorSink {
 public:
  using Upserter = std::function<Upserted(simdjson::dom::element)>;
  using Deleter = std::function<void(const std::string& key)>;

  /// `name` is for logs and metrics; the references must outlive the sink.
  ObjectSink(std::string name, Metrics& metrics, Logger& logger, Upserter upsert, Deleter remove)
      : name_(std::move(name)),
        metrics_(metrics),
        logger_(logger),
        upsert_(std::move(upsert)),
        remove_(std::move(remove)) {}

  /// `synced` is called once: when the first replace has ended. Set it before the reflector runs.
  void OnFirstSync(std::function<void()> synced) { synced_ = std::move(synced); }
  /// `restart` is called for each restart, besides the metric and the log line.
  void OnEachRestart(std::function<void(kube::RestartReason)> restart) {
    restart_ = std::move(restart);
  }
  /// Removes all objects that it has. No reflector may be running.
  void Clear();

  void BeginReplace() override;
  void EndReplace() override;
  void Upsert(simdjson::dom::element object) override;
  void Delete(simdjson::dom::element object) override;
  void OnSynced() override;
  void OnRestart(kube::RestartReason reason) override;
  void OnList(kube::ListKind kind) override;
  void OnAlive() override;

  const std::string& name() const { return name_; }
  /// When the server last showed life, by the steady clock.
  std::int64_t alive_ms() const { return alive_ms_; }
  /// Milliseconds since then; 0 while there is no list, since the kind is not served or access is
  /// denied.
  std::int64_t SilentMs() const { return listed_ ? SteadyMs() - alive_ms_ : 0; }
  static std::int64_t SteadyMs();

 private:
  void Complain(simdjson::dom::element object, const Upserted& upserted);

  const std::string name_;
  Metrics& metrics_;
  Logger& logger_;
  const Upserter upsert_;
  const Deleter remove_;
  std::function<void()> synced_;  ///< Empty once called.
  std::function<void(kube::RestartReason)> restart_;
  kube::KnownKeys known_;
  std::int64_t complain_after_ms_ = 0;
  std::atomic<std::int64_t> alive_ms_ = SteadyMs();
  std::atomic<bool> listed_ = false;
};

}  // namespace berth::server
