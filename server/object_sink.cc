#include "server/object_sink.h"

#include <chrono>
#include <utility>
#include <vector>

namespace berth::server {

std::int64_t ObjectSink::SteadyMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void ObjectSink::Clear() {
  listed_ = false;
  BeginReplace();
  EndReplace();
}

void ObjectSink::EndReplace() {
  std::vector<std::string> gone;
  for (const std::string& key : known_) {
    if (!seen_.contains(key)) gone.push_back(key);
  }
  for (const std::string& key : gone) {
    known_.erase(key);
    remove_(key);
  }
  seen_.clear();
}

void ObjectSink::Upsert(simdjson::dom::element object) {
  OnAlive();
  const std::string key = upsert_(object);
  if (key.empty()) {
    logger_.Log(Severity::kWarning, "object could not be read", {{"resource", name_}});
    return;
  }
  seen_.insert(key);
  known_.insert(key);
}

void ObjectSink::Delete(simdjson::dom::element object) {
  OnAlive();
  for (const char* field : {"uid", "name"}) {
    std::string_view key;
    if (object["metadata"][field].get(key) == simdjson::SUCCESS &&
        known_.erase(std::string(key)) > 0) {
      remove_(std::string(key));
      return;
    }
  }
}

void ObjectSink::OnSynced() {
  listed_ = true;
  if (const auto synced = std::exchange(synced_, nullptr)) synced();
}

void ObjectSink::OnRestart(kube::RestartReason reason) {
  metrics_.CountWatchRestart(name_, kube::Name(reason));
  logger_.V(2, "watch restarts", {{"resource", name_}, {"reason", kube::Name(reason)}});
  if (reason == kube::RestartReason::kRefused && listed_.exchange(false)) {
    logger_.Log(Severity::kWarning, "watch is refused: what was known last is believed",
                {{"resource", name_}});
  }
  if (restart_) restart_(reason);
}

void ObjectSink::OnAlive() { alive_ms_ = SteadyMs(); }

}  // namespace berth::server
