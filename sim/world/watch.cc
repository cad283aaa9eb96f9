#include "sim/world/watch.h"

#include <algorithm>
#include <chrono>

namespace berth::sim {
namespace {

/// Virtual time, and the mean of each back-off: delays are drawn elsewhere.
kube::Timing VirtualTiming(const Timeline& timeline) {
  return {.now = [&timeline] { return kube::TimePoint(std::chrono::milliseconds(timeline.now())); },
          .random = [] { return 0.5; },
          .wait = {}};
}

}  // namespace

/// kube-scheduler watches pods with status.phase!=Succeeded,status.phase!=Failed: a pod that ends
/// leaves the selection, which looks like a deletion. Berth watches all pods.
bool WatchStream::Selected(const Change& change) const {
  return change.pod == nullptr || sink_.ended ||
         (change.pod->phase != kube::PodPhase::kSucceeded &&
          change.pod->phase != kube::PodPhase::kFailed);
}

WatchStream::WatchStream(Environment& env, Kind kind, Sink sink, const Freezer* freezer)
    : env_(env),
      kind_(kind),
      sink_(std::move(sink)),
      bytes_(env.fidelity == Fidelity::kWire ? std::make_unique<WatchBytes>(kind) : nullptr),
      connection_(freezer),
      backoff_(kube::BackoffPolicy{}, VirtualTiming(env.timeline)) {
  env_.api.Subscribe(kind_, life_.alive(), [this] { Pull(); });
  env_.timeline.After(env_.Latency(env_.network, 1, 200), connection_.Guard([this] { Connect(); }));
}

void WatchStream::Break(Duration outage, bool expired) {
  expired_ |= expired;
  if (connected_) state_.OnWatchEnd({.failure = kube::RestartReason::kConnection});
  ConnectAfter(outage);
}

/// Connects when the back-off is over, and not before `outage` is.
void WatchStream::ConnectAfter(Duration outage) {
  connected_ = false;
  armed_ = false;
  pending_.clear();
  connection_.Renew();
  const Duration wait = state_.Next().backs_off ? backoff_.Next().count() : 0;
  env_.timeline.After(std::max(outage, wait), connection_.Guard([this] { Connect(); }));
}

void WatchStream::SlowDown(Duration delay, TimePoint until) {
  slow_by_ = delay;
  slow_until_ = until;
}

void WatchStream::Connect() {
  const kube::ListWatch::Step step = state_.Next();
  connected_ = true;
  last_due_ = env_.now();
  if (step.ask != kube::ListWatch::Ask::kWatch) return StreamAll();
  if (!Has(step.version)) {
    kube::ApiStatus gone;
    gone.code = 410;
    gone.reason = "Expired";
    state_.OnWatchEnd({.refusal = std::move(gone)});
    return ConnectAfter(0);
  }
  queued_ = delivered_;
  Pull();
}

/// Whether the server can continue from the version: it forgets the oldest part of its journal.
bool WatchStream::Has(const std::string& version) const {
  return !expired_ && std::stoull(version) >= env_.api.begin(kind_);
}

/// All objects, then what changes. Objects are delivered as they arrive; which ones are gone is
/// known only at the end (kube/reflector.h).
void WatchStream::StreamAll() {
  expired_ = false;
  known_.BeginReplace();
  if (bytes_ != nullptr) bytes_->BeginList();
  queued_ = ListedAt();
  listed_ = queued_;
  for (Change& object : env_.api.List(kind_, queued_)) {
    if (Selected(object)) Queue(What::kListed, std::move(object));
  }
  Queue(What::kListEnd, {});
  Pull();
}

/// The position that a list shows: the present, or one that lies behind it, but not behind what was
/// delivered before.
std::size_t WatchStream::ListedAt() const {
  const std::size_t end = env_.api.end(kind_);
  if (!sink_.stale || !env_.faults.Has(FaultKind::kStaleList) || env_.api.begin(kind_) > 0) {
    return end;
  }
  env_.faults.TookEffect(FaultKind::kStaleList);
  const auto behind = static_cast<std::size_t>(env_.network.Between(1, 40));
  return std::max(delivered_, end - std::min(end, behind));
}

void WatchStream::Pull() {
  if (!connected_) return;
  while (queued_ < env_.api.end(kind_)) Queue(What::kEvent, env_.api.at(kind_, queued_++));
}

void WatchStream::Queue(What what, Change change) {
  Duration delay =
      what == What::kEvent ? env_.Latency(env_.network, 1, 20) : env_.Latency(env_.network, 0, 1);
  if (what == What::kEvent && env_.now() < slow_until_) {
    delay += std::min(slow_by_, slow_until_ - env_.now());
  }
  last_due_ = std::max(last_due_, env_.now() + delay);
  pending_.push_back({last_due_, what, std::move(change)});
  Arm();
}

void WatchStream::Arm() {
  if (armed_ || pending_.empty()) return;
  armed_ = true;
  env_.timeline.At(pending_.front().due, connection_.Guard([this] {
    armed_ = false;
    Deliver();
  }));
}

/// Without delays, what happened at once also arrives at once: nobody acts on a part of it.
void WatchStream::Deliver() {
  do DeliverNext();
  while (env_.fidelity == Fidelity::kInstant && !pending_.empty());
  Arm();
}

void WatchStream::DeliverNext() {
  const Item item = std::move(pending_.front());
  pending_.pop_front();
  if (item.what == What::kEvent) {
    state_.OnEvent(std::to_string(++delivered_));
    Take(item.what, item.change);
    if (env_.now() < duplicate_until_) Take(item.what, item.change);
  } else if (item.what == What::kListed) {
    Take(item.what, item.change);
  } else {
    EndList();
  }
}

void WatchStream::EndList() {
  if (bytes_ != nullptr) {
    if (std::string error = bytes_->EndList(); !error.empty()) env_.Garble(std::move(error));
  }
  // The list does not contain later changes: continue from there in the journal.
  delivered_ =
      queued_ - static_cast<std::size_t>(std::ranges::count(pending_, What::kEvent, &Item::what));
  state_.OnSynced(std::to_string(delivered_));
  for (const std::string& key : known_.EndReplace()) {
    sink_.remove(key, {.key = key, .deleted = true});
  }
  if (!std::exchange(synced_, true) && sink_.synced) sink_.synced();
}

void WatchStream::Take(What what, const Change& sent) {
  Change change = sent;
  change.deleted |= !Selected(sent);
  if (bytes_ != nullptr) {
    auto arrived = what == What::kEvent ? bytes_->Event(change) : bytes_->Item(change);
    if (!arrived) return env_.Garble(std::move(arrived.error()));
    change = *std::move(arrived);
  }
  if (!change.deleted) {
    known_.Add(change.key);
    sink_.upsert(change);
  } else if (known_.Remove(change.key)) {
    sink_.remove(change.key, change);
  }
}

}  // namespace berth::sim
