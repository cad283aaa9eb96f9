// A candidate's part in an election over one Lease, by client-go's rules (tools/leaderelection).
// Pure: no I/O, no clock, no threads. Its driver passes in the time and the server's answers, and
// is told what to send next and until when this candidate leads; the simulator drives the same
// object in virtual time.
//
// Clocks of different machines are never compared. A candidate that saw the record change at T (its
// own clock) does not try to lead before T + the record's duration; a leader leads until
// `renew_deadline` after it *sent* the write that was last accepted. The second period ends before
// the first can end, by `lease_duration` - `renew_deadline`, which is the time that a request under
// way has left to arrive.
//
// Stricter than client-go in three points, each of which lets two candidates lead at once there: a
// Lease that does not exist (it may have been deleted), one that suddenly names us, and one that we
// lost by not renewing are all left alone until the last leader, ourselves included, must have
// stopped.
//
// A missing Lease says nothing about who leads: it may be created and deleted between two reads.
// Two rules together exclude that. Its absence counts from the first of a run of answered reads
// that lie no further apart than the probe period (two retry periods); a longer gap starts the
// count again. And no term begins or is extended by a Lease that appeared less than a probe period
// ago: by then every candidate whose run goes on has read it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kube/backoff.h"
#include "kube/lease.h"

namespace berth::kube {

/// Who campaigns, and how long a term lasts; the initial values are client-go's.
struct ElectionOptions {
  std::string identity;  ///< Unique to this process, also over restarts.
  /// lease_duration > renew_deadline > 1.2 * retry_period; whole seconds for the first.
  Duration lease_duration{15'000};
  Duration renew_deadline{10'000};
  Duration retry_period{2'000};
};

/// Not thread-safe. Times are those of one clock that never jumps and does not stop while the
/// process does.
class LeaderElection {
 public:
  explicit LeaderElection(ElectionOptions options);

  /// What to send now; nullopt: nothing before due(), or before the answer to the last request.
  /// `wall` goes into the record, for display. `random` in [0, 1) spreads the candidates.
  std::optional<LeaseRequest> Next(TimePoint now, Millis wall, double random);
  /// The answer to Next's request; kFailed also if none came in time.
  void Answer(LeaseAnswer answer, TimePoint now);
  /// When to call Next. TimePoint::max(): not before Answer, or, once released, never.
  TimePoint due() const;

  /// Leads before this time, and not from it on. TimePoint{}: does not lead.
  TimePoint leading_until() const { return leading_until_; }
  bool Leads(TimePoint now) const { return now < leading_until_; }

  /// A hint that the Lease may be free now: read it at once.
  void Poke(TimePoint now);
  /// Stops leading at once, and for good: Next empties the Lease if it is ours, so that another
  /// candidate can take it without waiting. REQUIRES: nothing is done any more that only a leader
  /// may do.
  void Release(TimePoint now);
  bool releasing() const { return releasing_; }
  /// After Release: nothing is left to send.
  bool released() const { return releasing_ && !in_flight_ && releases_left_ == 0; }

  /// The last record seen; nullopt: nothing seen yet, or there is no Lease.
  const std::optional<Lease>& observed() const { return observed_; }
  /// Why the last request failed; empty: it did not fail.
  const std::string& error() const { return error_; }

 private:
  enum class Step : std::uint8_t { kLook, kWrite };

  LeaseRequest Write(TimePoint now, Millis wall);
  LeaseRequest WriteRelease(Millis wall);
  void Looked(const LeaseAnswer& answer, TimePoint now);
  void Wrote(TimePoint now);
  void Observe(Lease lease, TimePoint now);
  void NoteAbsence(TimePoint now);
  Duration probe_period() const { return 2 * options_.retry_period; }
  void Retry(TimePoint now);
  bool MayTake(TimePoint now) const { return Leads(now) || now >= others_until_; }
  bool Ours() const { return observed_ && observed_->record.holder == options_.identity; }

  const ElectionOptions options_;
  std::optional<Lease> observed_;
  std::string error_;
  /// Until then the last leader, including this process in a former term, may believe that it
  /// leads.
  TimePoint others_until_{};
  /// When the read was sent that last found no Lease; nullopt: a Lease was seen since, or there was
  /// no read yet.
  std::optional<TimePoint> absent_at_;
  /// When a Lease was first seen after there was none; nullopt: one was there from the first read
  /// on.
  std::optional<TimePoint> appeared_at_;
  TimePoint leading_until_{};
  TimePoint due_{};
  Step step_ = Step::kLook;
  bool in_flight_ = false;
  LeaseRequest::Kind sent_ = LeaseRequest::Kind::kGet;
  TimePoint sent_at_{};
  double random_ = 0;
  int conflicts_ = 0;  ///< In a row.
  bool poked_ = false;
  bool releasing_ = false;
  int releases_left_ = 0;
};

}  // namespace berth::kube
