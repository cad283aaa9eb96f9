#include "server/drivers/object_sink.h"

#include <simdjson.h>

#include <chrono>
#include <exception>
#include <utility>

namespace berth::server {
namespace {

constexpr std::int64_t kComplainEveryMs = 10'000;

}  // namespace

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

void ObjectSink::BeginReplace() { known_.BeginReplace(); }

void ObjectSink::EndReplace() {
  for (const std::string& key : known_.EndReplace()) remove_(key);
}

/// Users can create such objects at will: the log names one in ten seconds.
void ObjectSink::Complain(simdjson::dom::element object, const Upserted& upserted) {
  const bool unreadable = upserted.key.empty();
  metrics_.CountObjectProblem(name_, unreadable ? "unreadable" : "cut");
  const std::int64_t now = SteadyMs();
  if (now < complain_after_ms_) return;
  complain_after_ms_ = now + kComplainEveryMs;
  const auto text = [object](const char* field) {
    std::string_view value;
    const bool there = object["metadata"][field].get(value) == simdjson::SUCCESS;
    return there ? value : std::string_view();
  };
  logger_.Log(Severity::kWarning,
              unreadable ? "object could not be read"
                         : "object exceeds a size limit: some of it is left out",
              {{"resource", name_},
               {"namespace", text("namespace")},
               {"name", text("name")},
               {unreadable ? "error" : "left_out", upserted.problem}});
}

void ObjectSink::Upsert(simdjson::dom::element object) {
  OnAlive();
  Upserted upserted;
  try {
    upserted = upsert_(object);
  } catch (const std::exception& e) {
    // Only decoding errors end here: the engine's exceptions end the process (HostDriver::Enter).
    // The watch goes on, since a new one would get the same object again.
    upserted = {.problem = std::string("exception: ") + e.what()};
  }
  if (!upserted.problem.empty() || upserted.key.empty()) Complain(object, upserted);
  if (upserted.key.empty()) return;
  known_.Add(upserted.key);
}

void ObjectSink::Delete(simdjson::dom::element object) {
  OnAlive();
  for (const char* field : {"uid", "name"}) {
    std::string_view key;
    if (object["metadata"][field].get(key) == simdjson::SUCCESS &&
        known_.Remove(std::string(key))) {
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
    logger_.Log(Severity::kWarning,
                "the API server refuses the watch: the last known state is used",
                {{"resource", name_}});
  }
  if (restart_) restart_(reason);
}

void ObjectSink::OnList(kube::ListKind kind) {
  metrics_.CountList(name_, kube::Name(kind));
  logger_.V(2, "list", {{"resource", name_}, {"kind", kube::Name(kind)}});
}

void ObjectSink::OnAlive() { alive_ms_ = SteadyMs(); }

}  // namespace berth::server
