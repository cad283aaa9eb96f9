// Decodes the objects of one reflector and hands them on; makes up the deletes that a relist
// implies.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <unordered_set>

#include "kube/reflector.h"
#include "server/logging.h"
#include "server/metrics.h"

namespace berth::server {

/// What became of an object.
struct Upserted {
  std::string key{};      ///< Its UID or its name; empty: it could not be read.
  std::string problem{};  ///< Why not; else what was left out of it, or empty.
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

  /// `synced` is called once: when the first replace is done. Set it before the reflector runs.
  void OnFirstSync(std::function<void()> synced) { synced_ = std::move(synced); }
  /// Besides the metric and the log line.
  void OnEachRestart(std::function<void(kube::RestartReason)> restart) {
    restart_ = std::move(restart);
  }
  /// Removes all that it has. No reflector may be running.
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
  /// When it last heard of the server, by the steady clock.
  std::int64_t alive_ms() const { return alive_ms_; }
  /// Milliseconds since then; 0 while it has no list: not served, or not to us.
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
  std::unordered_set<std::string> known_;
  bool replacing_ = false;
  std::unordered_set<std::string> seen_;  ///< Since BeginReplace; empty while not replacing.
  std::int64_t complain_after_ms_ = 0;
  std::atomic<std::int64_t> alive_ms_ = SteadyMs();
  std::atomic<bool> listed_ = false;
};

}  // namespace berth::server
