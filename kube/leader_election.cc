#include "kube/leader_election.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace berth::kube {
namespace {

using AnswerKind = LeaseAnswer::Kind;
using RequestKind = LeaseRequest::Kind;

/// client-go's JitterFactor: a candidate waits for 1 to 2.2 retry periods.
constexpr double kJitter = 1.2;
/// Requests that an orderly release may take: each conflict costs a read and another write.
constexpr int kReleaseCalls = 4;
constexpr Duration kReleaseTimeout{2'000};

}  // namespace

LeaderElection::LeaderElection(ElectionOptions options) : options_(std::move(options)) {}

TimePoint LeaderElection::due() const {
  return in_flight_ || (releasing_ && releases_left_ == 0) ? TimePoint::max() : due_;
}

std::optional<LeaseRequest> LeaderElection::Next(TimePoint now, Millis wall, double random) {
  if (now < due()) return std::nullopt;
  random_ = random;
  if (leading_until_ != TimePoint{} && !Leads(now)) {
    leading_until_ = {};
    step_ = Step::kLook;
  }
  if (releasing_) --releases_left_;
  LeaseRequest request;
  if (step_ == Step::kWrite) {
    request = releasing_ ? WriteRelease(wall) : Write(now, wall);
  }
  // Half the deadline, so that one lost request is not the end of a term.
  request.timeout = releasing_ ? kReleaseTimeout : options_.renew_deadline / 2;
  if (Leads(now)) {
    request.timeout = std::min(request.timeout, std::chrono::ceil<Duration>(leading_until_ - now));
  }
  sent_ = request.kind;
  sent_at_ = now;
  in_flight_ = true;
  return request;
}

LeaseRequest LeaderElection::Write(TimePoint now, Millis wall) {
  const bool stays = Leads(now) || Ours();
  LeaseRecord record{.holder = options_.identity,
                     .duration_seconds = static_cast<std::int32_t>(
                         std::chrono::ceil<std::chrono::seconds>(options_.lease_duration).count()),
                     .acquire_time = wall,
                     .renew_time = wall,
                     .transitions = 0};
  if (!observed_) return {.kind = RequestKind::kCreate, .record = std::move(record)};
  const LeaseRecord& old = observed_->record;
  constexpr auto kMost = std::numeric_limits<std::int32_t>::max();
  record.transitions = stays || old.transitions == kMost ? old.transitions : old.transitions + 1;
  if (stays) record.acquire_time = old.acquire_time;
  return {.kind = RequestKind::kUpdate, .record = std::move(record), .base = *observed_};
}

LeaseRequest LeaderElection::WriteRelease(Millis wall) {
  return {.kind = RequestKind::kUpdate,
          .record = {.holder = {},
                     .duration_seconds = 1,
                     .acquire_time = wall,
                     .renew_time = wall,
                     .transitions = observed_->record.transitions},
          .base = *observed_};
}

void LeaderElection::Answer(LeaseAnswer answer, TimePoint now) {
  in_flight_ = false;
  error_ = answer.kind == AnswerKind::kFailed ? std::move(answer.error) : std::string();
  if (answer.kind != AnswerKind::kConflict) conflicts_ = 0;
  if (answer.kind == AnswerKind::kFailed) {
    // A write may have taken effect: the Lease must be read before the next write.
    step_ = Step::kLook;
    return Retry(now);
  }
  if (sent_ == RequestKind::kGet) return Looked(answer, now);
  if (answer.kind == AnswerKind::kLease) {
    Observe(std::move(answer.lease), now);
    return Wrote(now);
  }
  // Written by another client, or deleted: read it at once, unless that happens again and again.
  step_ = Step::kLook;
  if (++conflicts_ <= 2) {
    due_ = now;
  } else {
    Retry(now);
  }
}

void LeaderElection::Looked(const LeaseAnswer& answer, TimePoint now) {
  if (answer.kind == AnswerKind::kLease) {
    Observe(answer.lease, now);
    if (!Ours()) leading_until_ = {};
  } else {
    NoteAbsence(now);
  }
  if (releasing_) {
    step_ = Step::kWrite;
    due_ = now;
    if (!Ours()) releases_left_ = 0;
    return;
  }
  if (MayTake(now)) {
    step_ = Step::kWrite;
    due_ = now;
    return;
  }
  step_ = Step::kLook;
  Retry(now);
}

/// Our write was accepted: a term begins, or goes on, unless the Lease is too new. The term counts
/// from the time when the write was sent, since others may have seen it as early as that.
void LeaderElection::Wrote(TimePoint now) {
  if (releasing_) {
    // Released; or it was a renewal that was under way, and the release is still to be written.
    if (!Ours()) releases_left_ = 0;
    step_ = Step::kWrite;
    due_ = now;
    return;
  }
  if (!appeared_at_ || sent_at_ >= *appeared_at_ + probe_period()) {
    leading_until_ = sent_at_ + options_.renew_deadline;
    others_until_ = sent_at_ + options_.lease_duration;
  }
  step_ = Step::kWrite;
  due_ = std::max(now, sent_at_ + options_.retry_period);
}

/// Only a change of the record is a sign of life: labels may change without the holder.
void LeaderElection::Observe(Lease lease, TimePoint now) {
  if (absent_at_) appeared_at_ = now;
  absent_at_.reset();
  const LeaseRecord& record = lease.record;
  const bool changed = !observed_ || observed_->record != record;
  if (changed && record.holder.empty()) {
    others_until_ = now;  // Released: the former leader has stopped.
  } else if (changed && record.holder != options_.identity) {
    others_until_ = now + std::chrono::seconds(record.duration_seconds);
  }
  observed_ = std::move(lease);
}

/// The Lease may have been deleted under an unseen leader, which may lead for a lease_duration.
void LeaderElection::NoteAbsence(TimePoint now) {
  const bool run_goes_on = absent_at_ && now - *absent_at_ <= probe_period();
  if (!run_goes_on) others_until_ = std::max(others_until_, now + options_.lease_duration);
  observed_.reset();
  absent_at_ = sent_at_;
}

void LeaderElection::Retry(TimePoint now) {
  if (releasing_ || std::exchange(poked_, false)) {
    due_ = now;
    return;
  }
  if (Leads(now)) {
    due_ = now + options_.retry_period;
    return;
  }
  // A missing Lease is read without jitter, or the run of its reads would break.
  const double factor = absent_at_ ? 1.0 : 1.0 + kJitter * random_;
  due_ = now + Duration(static_cast<Duration::rep>(
                   static_cast<double>(options_.retry_period.count()) * factor));
  if (others_until_ > now) due_ = std::min(due_, others_until_);
}

void LeaderElection::Poke(TimePoint now) {
  if (releasing_ || Leads(now)) return;
  poked_ = in_flight_;  // The result of a read under way may be older than the hint.
  due_ = std::min(due_, now);
}

void LeaderElection::Release(TimePoint now) {
  if (releasing_) return;
  leading_until_ = {};
  releasing_ = true;
  // A request under way may still make the Lease ours: then it must be read.
  releases_left_ = in_flight_ || Ours() ? kReleaseCalls : 0;
  due_ = now;
}

}  // namespace berth::kube
