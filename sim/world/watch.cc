#include "sim/world/watch.h"

#include <algorithm>

namespace berth::sim {

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
      connection_(freezer) {
  env_.api.Subscribe(kind_, life_.alive(), [this] { Pull(); });
  env_.timeline.After(env_.network.Between(1, 200), connection_.Guard([this] { Connect(true); }));
}

void WatchStream::Break(Duration outage, bool expired) {
  connected_ = false;
  armed_ = false;
  pending_.clear();
  connection_.Renew();
  const bool list = expired || !synced_;
  env_.timeline.After(outage, connection_.Guard([this, list] { Connect(list); }));
}

void WatchStream::SlowDown(Duration delay, TimePoint until) {
  slow_by_ = delay;
  slow_until_ = until;
}

void WatchStream::Connect(bool list) {
  connected_ = true;
  last_due_ = env_.now();
  if (!list && delivered_ >= env_.api.begin(kind_)) {
    queued_ = delivered_;
    Pull();
    return;
  }
  // Objects are delivered as they arrive; deletions are known only at the end (kube/reflector.h).
  seen_.clear();
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
  if (!sink_.stale || !env_.weather.Is(FaultKind::kStaleList) || env_.api.begin(kind_) > 0) {
    return end;
  }
  env_.weather.Struck(FaultKind::kStaleList);
  const auto behind = static_cast<std::size_t>(env_.network.Between(1, 40));
  return std::max(delivered_, end - std::min(end, behind));
}

void WatchStream::Pull() {
  if (!connected_) return;
  while (queued_ < env_.api.end(kind_)) Queue(What::kEvent, env_.api.at(kind_, queued_++));
}

void WatchStream::Queue(What what, Change change) {
  Duration delay = what == What::kEvent ? env_.network.Between(1, 20) : env_.network.Between(0, 1);
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

void WatchStream::Deliver() {
  const Item item = std::move(pending_.front());
  pending_.pop_front();
  if (item.what == What::kEvent) {
    ++delivered_;
    Take(item.what, item.change);
    if (env_.now() < duplicate_until_) Take(item.what, item.change);
  } else if (item.what == What::kListed) {
    seen_.insert(item.change.key);
    Take(item.what, item.change);
  } else {
    EndList();
  }
  Arm();
}

void WatchStream::EndList() {
  if (bytes_ != nullptr) {
    if (std::string error = bytes_->EndList(); !error.empty()) env_.Garble(std::move(error));
  }
  // The list does not contain later changes: continue from there in the journal.
  delivered_ =
      queued_ - static_cast<std::size_t>(std::ranges::count(pending_, What::kEvent, &Item::what));
  std::vector<std::string> gone;
  for (const std::string& key : known_) {
    if (!seen_.contains(key)) gone.push_back(key);
  }
  std::ranges::sort(gone);
  for (const std::string& key : gone) {
    known_.erase(key);
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
    known_.insert(change.key);
    sink_.upsert(change);
  } else if (known_.erase(change.key) > 0) {
    sink_.remove(change.key, change);
  }
}

}  // namespace berth::sim
