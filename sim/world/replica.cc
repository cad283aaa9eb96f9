#include "sim/world/replica.h"

#include <algorithm>

namespace berth::sim {
namespace {

constexpr Duration kPatch = 20;      ///< The label's way to the API server, at the most.
constexpr Duration kLookAgain = 20;  ///< While earlier news is on its way.

}  // namespace

kube::LeaseAnswer LeaseObject::Serve(const kube::LeaseRequest& request) {
  using Outcome = kube::LeaseAnswer::Kind;
  using Asked = kube::LeaseRequest::Kind;
  if (request.kind == Asked::kCreate ? lease_.has_value() : !lease_.has_value()) {
    return {.kind = lease_ ? Outcome::kConflict : Outcome::kNotFound};
  }
  if (request.kind == Asked::kUpdate && request.base.resource_version != lease_->resource_version) {
    return {.kind = Outcome::kConflict};
  }
  if (request.kind != Asked::kGet) {
    lease_ = kube::Lease{.record = request.record, .resource_version = std::to_string(++version_)};
  }
  return {.kind = Outcome::kLease, .lease = *lease_};
}

bool LeaseObject::Steal() {
  if (!lease_) return false;
  lease_->record.holder = "somebody-else";
  lease_->resource_version = std::to_string(++version_);
  return true;
}

bool LeaseObject::Delete() {
  const bool existed = lease_.has_value();
  lease_.reset();
  return existed;
}

Replica::Replica(Environment& env, std::string identity, LeaseObject& lease,
                 std::function<void()> announced)
    : env_(env),
      lease_(lease),
      announced_(std::move(announced)),
      election_({.identity = identity}),
      host_(env, std::move(identity), [this] { return Left(); }) {
  host_.on_synced = [this] { Campaign(); };
}

/// A clock of the process alone: only differences count.
kube::TimePoint Replica::local() const {
  return kube::TimePoint(std::chrono::milliseconds(host_.now()));
}

Duration Replica::Left() const {
  return std::chrono::floor<std::chrono::milliseconds>(election_.leading_until() - local()).count();
}

/// The Lease's thread.
void Replica::Campaign() {
  Settle();
  const double random = static_cast<double>(env_.network.Between(0, 999)) / 1'000;
  if (const auto request = election_.Next(local(), host_.now(), random)) Ask(*request);
  if (election_.due() == kube::TimePoint::max()) return;  // an answer is on its way
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(election_.due() - local()).count();
  const Duration takes = host_.clock().Takes(std::max<Duration>(wait, 1));
  env_.timeline.After(takes, life_.Guard([this, turn = ++turn_] {
    if (turn == turn_) Campaign();
  }));
}

void Replica::Ask(const kube::LeaseRequest& request) {
  const bool blocked = office_ && env_.weather.Is(FaultKind::kLeaseBlocked);
  const bool slow = env_.weather.Is(FaultKind::kApiSlow);
  if (blocked) env_.weather.Struck(FaultKind::kLeaseBlocked);
  const Duration there = env_.network.Between(1, slow ? 4'000 : 5);
  const Duration back = env_.network.Between(1, slow ? 4'000 : 5);
  const Duration timeout = std::max<Duration>(1, request.timeout.count());
  const bool answered = !blocked && there + back < timeout;
  const auto hear = [this](const kube::LeaseAnswer& answer) {
    election_.Answer(answer, local());
    Campaign();
  };
  if (!answered) {
    env_.timeline.After(timeout, life_.Guard([hear] { hear({.error = "timed out"}); }));
  }
  if (blocked && env_.network.Percent(50)) return;  // else only the answer is lost
  env_.timeline.After(there, [this, &env = env_, &lease = lease_, request, back, answered,
                              heard = life_.Guard(hear)] {
    const kube::LeaseAnswer answer = lease.Serve(request);
    if (answered) env.timeline.After(back, [heard, answer] { heard(answer); });
  });
}

/// The office follows the election: it is laid down the moment that the term ends, and taken for
/// each term anew.
void Replica::Settle() {
  const bool leads = election_.Leads(local());
  if (office_ && !leads) {
    env_.trace.Say("berth {}: leads no more", host_.instance());
    office_ = false;
    office_life_.Renew();
    host_.Resign();
  }
  if (!leads) return;
  if (!office_) TakeOffice();
  // Each renewal moves the term's end: only the last timer counts.
  env_.timeline.After(host_.clock().Takes(Left()), life_.Guard([this, turn = ++term_turn_] {
    if (turn == term_turn_) Settle();
  }));
}

/// The label is put on our pod. When our watch shows that, it has shown all that an earlier leader
/// wrote to pods.
void Replica::TakeOffice() {
  env_.trace.Say("berth {}: won the Lease", host_.instance());
  office_ = true;
  env_.timeline.After(env_.network.Between(1, kPatch), office_life_.Guard([this] {
    announced_();
    AwaitNews(env_.api.end(Kind::kPod));
  }));
}

void Replica::AwaitNews(std::size_t position) {
  if (host_.stream(Kind::kPod).seen() >= position) return host_.Lead();
  env_.timeline.After(kLookAgain, office_life_.Guard([this, position] { AwaitNews(position); }));
}

}  // namespace berth::sim
