// This replica's part in leading: campaigns for the Lease, takes office when it is won, leaves it
// when it is lost or laid down. Two threads: one for the Lease alone, so that nothing delays a
// renewal, one for what a change of office takes.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

#include "kube/leader_election.h"
#include "kube/rest_client.h"
#include "server/leader_label.h"
#include "server/logging.h"
#include "server/tenure.h"

namespace berth::server {

struct LeadershipOptions {
  std::string lease_ns;
  std::string lease_name = "berth";
  kube::ElectionOptions election;
  /// The pod that this process runs in, which gets the label. Empty: none.
  std::string pod_ns = {};
  std::string pod_name = {};
};

class Leadership {
 public:
  /// What changes with the office. Called on one thread, in turns. `lead` may take its time, and
  /// finds that no write of an earlier term is under way and, where there is a pod to label, that
  /// the informer has seen whatever an earlier leader wrote.
  struct Duties {
    std::function<void()> lead;
    std::function<void()> follow;
    /// Whether this replica is in a state to lead. While it is not, it neither asks for the Lease
    /// nor renews it, so that another replica takes over. Empty: always. Any thread, often.
    std::function<bool()> fit{};
  };

  /// The references must outlive it. From here on `tenure` holds only while this replica leads.
  Leadership(LeadershipOptions options, kube::RestClient& client, Tenure& tenure, Logger& logger,
             Duties duties);
  ~Leadership();
  Leadership(const Leadership&) = delete;
  Leadership& operator=(const Leadership&) = delete;

  /// Begins to campaign. Every first list has been processed. Once; nothing after LeaveOffice.
  void Start();

  /// For the pod informer, from its first list on.
  void See(const kube::Pod& pod);
  void SeeDeleted(const std::string& uid);

  // --- An orderly end, in two steps: between them the owner ends what it still does as the leader.
  /// No duty is called any more, and nothing more is permitted; the Lease stays ours.
  void LeaveOffice();
  /// Waits for writes under way, empties the Lease and takes the label off, each for seconds at the
  /// most. Where a write does not end, the Lease is left to expire: its effect may be still to
  /// come.
  void Release();

  /// `{"identity":...,"leading":...,"holder":...}`, for people.
  std::string StatusJson() const;

 private:
  using Lock = std::unique_lock<std::mutex>;

  // The Lease's thread.
  void Campaign(const std::stop_token& stop);
  void Ask(Lock& lock, const kube::LeaseRequest& request);
  void Settle();
  void Report();
  bool Fit();
  // The office's thread.
  void Serve(const std::stop_token& stop);
  bool TakeOffice(Lock& lock, const std::stop_token& stop);
  bool AnnounceOnPod(Lock& lock, const std::stop_token& stop);
  void TendLabel(Lock& lock);
  /// Waits for a change, or for `most`; a second at the longest, since waits go by another clock
  /// than terms do. False: stopped.
  bool Pause(Lock& lock, const std::stop_token& stop, kube::Duration most);
  /// Sends a patch of a pod. REQUIRES: no lock held.
  std::expected<int, std::string> Send(const kube::Request& patch);

  const LeadershipOptions options_;
  kube::RestClient& client_;
  Tenure& tenure_;
  Logger& logger_;
  const Duties duties_;

  mutable std::mutex mutex_;  ///< Guards what follows. Never held over a call or a duty.
  std::condition_variable_any changed_;
  kube::LeaderElection election_;
  LeaderLabel label_;
  bool term_ = false;     ///< The election gave us a term, and `tenure_` holds it.
  bool office_ = false;   ///< From before `lead` is called until `follow` has returned.
  bool fit_ = true;       ///< As last asked.
  bool leading_ = false;  ///< `lead` has returned, `follow` is not called yet.
  bool over_ = false;     ///< LeaveOffice was called.
  int offices_ = 0;       ///< Taken so far.
  kube::TimePoint next_tending_{};
  std::string reported_holder_;
  std::string reported_error_;
  std::stop_source call_;  ///< Cuts off a call about the Lease.

  std::jthread campaign_;
  std::jthread serve_;
};

}  // namespace berth::server
