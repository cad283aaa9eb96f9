// A cluster held in memory that implements Api: for `berth serve --snapshot` and `berth demo`.
// Objects come from a `kubectl get ... -o yaml|json` file; bindings and releases change them here,
// and the host is told of every change as by an informer.
#pragma once

#include <simdjson.h>

#include <expected>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "kube/dialect_objects.h"
#include "kube/read_file.h"
#include "server/drivers/api.h"

namespace berth::server {

class HostDriver;

/// Thread-safe after Connect.
class EmbeddedCluster final : public Api {
 public:
  /// Reads a List of Nodes, Pods, Namespaces and the dialects' groups and queues, or several
  /// documents. Other kinds are skipped.
  static std::expected<std::unique_ptr<EmbeddedCluster>, kube::FileError> Load(
      const std::string& path);
  /// The same from text; `name` is for messages.
  static std::expected<std::unique_ptr<EmbeddedCluster>, std::string> Parse(
      std::string_view text, const std::string& name);

  /// Is called with every change of a pod, in order and one at a time, after the host. Must not
  /// call back. `gone`: the pod was deleted.
  using Watcher = std::function<void(const kube::Pod& pod, bool gone)>;
  /// Before Connect only.
  void Watch(Watcher watcher) { watchers_.push_back(std::move(watcher)); }

  /// Is called with every Event of Berth, from any thread. Before Connect only.
  void WatchEvents(std::function<void(const engine::EmitEvent&)> watcher) {
    on_event_ = std::move(watcher);
  }

  /// Tells `host` of all objects, and from now on of changes. `host` must outlive its use.
  void Connect(HostDriver& host);

  /// Adds or changes a pod, as its controller or the scheduler would.
  void PutPod(kube::Pod pod);
  /// Returns false if it changes nothing; then nobody is told.
  using Change = std::function<bool(kube::Pod&)>;
  /// Changes a pod in place under the lock; false: no such pod.
  bool ChangePod(std::string_view uid, const Change& change);
  /// Unknown UIDs are ignored.
  void DeletePod(const std::string& uid);
  std::vector<kube::Pod> Pods() const;
  std::vector<kube::Node> Nodes() const;
  /// Drops pods that `unwanted` picks. Before Connect only.
  void DropPods(const std::function<bool(const kube::Pod&)>& unwanted);

  /// As if no pod had a PodDisruptionBudget, every object that pods need existed, and there were no
  /// Jobs.
  host::Result CarryOut(const host::ApiOrder& order, const Wanted& wanted) override;
  void Event(const engine::EmitEvent& event) override;

 private:
  std::string Take(const std::string& kind, std::string_view json);
  std::string TakeDialectObject(std::string_view json, simdjson::dom::parser& parser);
  host::Result Do(const host::PostBinding& binding);
  host::Result Do(const host::Nominate& nomination);
  host::Result Do(const host::RemoveGate& removal);
  host::Result Do(const host::MarkVictim& mark);
  host::Result Do(const host::Evict& eviction);
  host::Result Do(const host::ReadPod& read) const;
  host::Result ChangeWaiting(const engine::PodRef& ref, const Change& change);
  void Tell(const kube::Pod& pod, bool gone);

  /// Held over a change and its delivery, so that nobody sees two changes in the wrong order. Taken
  /// before `mutex_`.
  std::mutex feed_mutex_;
  std::vector<Watcher> watchers_;
  std::function<void(const engine::EmitEvent&)> on_event_;
  mutable std::mutex mutex_;  ///< Guards the objects.
  std::map<std::string, kube::Node> nodes_;
  std::map<std::string, kube::Namespace> namespaces_;
  std::vector<kube::DialectObject> dialect_objects_;
  std::map<std::string, kube::Pod> pods_;  ///< By UID.
  HostDriver* host_ = nullptr;
};

}  // namespace berth::server
