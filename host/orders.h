// What a host wants done, as plain values, and how it is told of the outcome. Drivers (server/,
// sim/) carry the orders out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "cluster/plan_claim.h"
#include "engine/engine.h"
#include "kube/decode.h"
#include "kube/requests.h"

namespace berth::host {

using engine::TimePoint;        ///< Milliseconds, by the clock of this process only.
using Duration = std::int64_t;  ///< Milliseconds.

/// Identifies one order, and its outcome. Unique within a host, over all its terms; never 0.
using Id = std::uint64_t;

/// Set status.nominatedNodeName and the annotation berth.dev/plan in one patch.
struct Nominate {
  Id id = 0;
  engine::PodRef pod{};
  std::string node{};        ///< Empty: clears the nomination.
  std::string annotation{};  ///< Empty: the annotation stays as it is.
  int attempt = 1;           ///< Attempt number of the whole release; 1 is the first.
};

/// Remove our scheduling gate.
struct RemoveGate {
  Id id = 0;
  engine::PodRef pod{};
  int attempt = 1;
};

/// Note on a pod for which workload it is evicted (cluster::kEvictedForAnnotation), or when it is
/// to be (cluster::kEvictionTimeAnnotation).
struct MarkVictim {
  Id id = 0;
  engine::PodRef pod{};
  std::string_view annotation = cluster::kEvictedForAnnotation;
  std::string mark{};  ///< Its value. Empty: the annotation is removed.
  /// Also set the condition DisruptionTarget, so that a Job's podFailurePolicy can tell it from a
  /// failure. (The Eviction API sets it by itself.)
  bool sets_condition = false;
  int attempt = 1;
};

/// Evict the pod through the Eviction API, which honours PodDisruptionBudgets, or delete it.
struct Evict {
  Id id = 0;
  engine::PodRef pod{};
  bool dry_run = false;
  bool by_delete = false;
  int attempt = 1;
};

/// See whether there is that object.
struct FindObject {
  Id id = 0;
  std::string ns{};
  kube::NeededObject object{};
  int attempt = 1;
};

/// Read the Job or JobSet of that name, or a part of a list: the Jobs that are labelled as
/// belonging to a JobSet; or, without any name, what Berth has suspended of that kind, of which
/// only the metadata is told.
struct ReadJobs {
  Id id = 0;
  kube::JobKind kind = kube::JobKind::kJob;
  std::string ns{};
  std::string name{};
  std::string of_set{};  ///< The name of a JobSet of the namespace, instead of `name`.
  std::string from{};    ///< JobList::next of the last part of the list.
  int attempt = 1;
};

/// Suspend the Job or JobSet with our label (cluster::kSuspendedLabel), or resume it without. Not
/// done if it has changed since it was read.
struct SuspendJob {
  Id id = 0;
  kube::JobRef job{};
  bool suspend = true;
  int attempt = 1;
};

/// Read the pod of that name from the API server, not from a cache.
struct ReadPod {
  Id id = 0;
  engine::PodRef pod{};
  int attempt = 1;
};

/// Post the Binding of a bind call, with its annotations.
struct PostBinding {
  Id id = 0;  ///< The id of the bind call.
  engine::PodRef pod{};
  std::string node{};
  std::map<std::string, std::string> annotations{};
};

/// The end of a bind call. nullopt: 503; empty: bound; otherwise the error text.
struct AnswerBind {
  Id id = 0;
  std::optional<std::string> error{};
};

/// The end of a preempt call. nullopt: 503.
struct AnswerPreempt {
  Id id = 0;
  std::optional<engine::VictimMap> kept{};
};

/// An engine that is not used any more, to be destroyed without the lock: it is large. No outcome.
struct Discard {
  std::shared_ptr<const engine::Engine> engine;
};

/// Orders of the engine's own have no outcome.
using Order = std::variant<Nominate, RemoveGate, MarkVictim, Evict, FindObject, ReadJobs,
                           SuspendJob, ReadPod, PostBinding, AnswerBind, AnswerPreempt, Discard,
                           engine::EmitEvent, engine::NodeNotice, engine::Decision>;

/// The outcome of an order that writes or reads, after all retries of the API client.
struct Result {
  kube::WriteOutcome outcome = kube::WriteOutcome::kUnknown;
  std::string message{};           ///< From the server or the transport; empty on success.
  std::optional<kube::Pod> pod{};  ///< Of a successful read.
  kube::JobList jobs{};            ///< The same.
  bool forbidden = false;          ///< Berth does not have the right: 401 or 403.
  bool tried = true;               ///< False: the driver had no room for it. Not counted as a try.
};

/// Whether the answer is final: it is done, or the pod is gone.
inline bool IsSettled(const Result& result) {
  return result.outcome == kube::WriteOutcome::kDone ||
         result.outcome == kube::WriteOutcome::kNotFound;
}

/// Whether the object is gone. A conflict: another one has its name.
inline bool IsGone(const Result& result) {
  return result.outcome == kube::WriteOutcome::kNotFound ||
         result.outcome == kube::WriteOutcome::kConflict;
}

/// Marks a victim before its eviction.
inline MarkVictim MarkOrder(Id id, const engine::EvictPod& eviction, bool sets_condition) {
  return {.id = id,
          .pod = eviction.pod,
          .mark = cluster::EncodeEvictionMark(engine::MarkOf(eviction)),
          .sets_condition = sets_condition};
}

/// Where the parts of a host put their orders.
class Outbox {
 public:
  /// Unique in this outbox; never 0.
  Id NewId() { return ++last_; }
  void Put(Order order) { orders_.push_back(std::move(order)); }
  /// All orders since the last call, in their order.
  std::vector<Order> Take() { return std::exchange(orders_, {}); }

 private:
  Id last_ = 0;
  std::vector<Order> orders_;
};

/// The delay before the next try after `attempt` failed ones: half a second, doubled each time, at
/// most 30 s.
inline Duration RetryDelay(int attempt) {
  constexpr Duration kFirst = 500;
  constexpr Duration kMost = 30'000;
  return std::min(kMost, kFirst << std::min(attempt - 1, 6));
}

/// The earlier of two times, each of which may be absent.
inline std::optional<TimePoint> Earlier(std::optional<TimePoint> a, std::optional<TimePoint> b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

}  // namespace berth::host
