// One of two Berths: a host, and its part in the election that says whether it may decide. The
// election is kube/leader_election.h itself; what server/leadership.cc does around it with threads
// is done here in virtual time, and must follow it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "kube/leader_election.h"
#include "sim/world/berth_host.h"

namespace berth::sim {

/// The Lease, as the API server holds it: optimistic concurrency, no clock of its own.
class LeaseObject {
 public:
  kube::LeaseAnswer Serve(const kube::LeaseRequest& request);
  /// Somebody overwrites it with another holder, or deletes it. False: there is none.
  bool Steal();
  bool Delete();

 private:
  std::optional<kube::Lease> lease_;
  int version_ = 0;
};

class Replica {
 public:
  /// `announced`: the label that the Service selects is on this replica from now on. The references
  /// must outlive it.
  Replica(Environment& env, std::string identity, LeaseObject& lease,
          std::function<void()> announced);
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  BerthHost& host() { return host_; }
  const BerthHost& host() const { return host_; }

 private:
  void Campaign();
  void Ask(const kube::LeaseRequest& request);
  void Settle();
  void TakeOffice();
  void AwaitNews(std::size_t position);
  kube::TimePoint local() const;
  Duration Left() const;

  Environment& env_;
  LeaseObject& lease_;
  const std::function<void()> announced_;
  kube::LeaderElection election_;
  Life life_;
  Life office_life_;             ///< Of what a term has asked for.
  std::uint64_t turn_ = 0;       ///< Of the campaign's timer.
  std::uint64_t term_turn_ = 0;  ///< Of the timer for the term's end.
  bool office_ = false;
  BerthHost host_;  ///< Last: it asks whether we lead.
};

}  // namespace berth::sim
