// Drives host::Leadership in real time, with two threads: one for the Lease only, so that nothing
// delays a renewal, and one for labels and for the duties at a change of leader.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

#include "host/leadership.h"
#include "kube/rest_client.h"
#include "server/drivers/tenure.h"
#include "server/logging.h"

namespace berth::server {

using host::LeadershipOptions;

/// One replica's part in the election. Thread-safe.
class Leadership {
 public:
  /// The duties at a change of leader. Called on one thread, one after the other. `lead` may take
  /// its time. When it is called, no write of an earlier term is under way and, where there is a
  /// pod to label, the informer has seen everything that an earlier leader wrote.
  struct Duties {
    std::function<void()> lead;
    std::function<void()> follow;
    /// Whether this replica is fit to lead. While it is not, it neither asks for the Lease nor
    /// renews it, so that another replica takes over. Empty: always fit. Called often, from any
    /// thread.
    std::function<bool()> fit{};
  };

  /// The references must outlive it. From here on `tenure` holds only while this replica leads.
  Leadership(LeadershipOptions options, kube::RestClient& client, Tenure& tenure, Logger& logger,
             Duties duties);
  ~Leadership();
  Leadership(const Leadership&) = delete;
  Leadership& operator=(const Leadership&) = delete;

  /// Begins to campaign. Call once, and not after Leave. REQUIRES: all first lists have been
  /// processed.
  void Start();

  /// For the pod informer, from its first list on.
  void See(const kube::Pod& pod);
  void SeeDeleted(const std::string& uid);

  // --- Orderly shutdown, in two steps: between them the owner ends what it still does as the
  // leader.
  /// No duty is called any more, and no write is permitted any more; the Lease stays ours.
  void Leave();
  /// Waits for writes under way, empties the Lease and takes the label off, each for seconds at
  /// most. If a write does not end, the Lease is left to expire, since the write may still take
  /// effect.
  void ReleaseLease();

  /// `{"identity":...,"leading":...,"holder":...}`, for display.
  std::string StatusJson() const;

 private:
  using Lock = std::unique_lock<std::mutex>;
  using Order = host::LeadershipOrder;

  void Campaign(const std::stop_token& stop);
  void Ask(Lock& lock, const kube::LeaseRequest& request);
  void Report();
  bool Fit();
  void Serve(const std::stop_token& stop);
  void Obey(Lock& lock, const Order& order);
  void Patch(Lock& lock, const host::PatchLabel& order);
  /// Carries out orders about terms, and hands the others to their threads.
  void Sort();
  /// Waits for a change, or until `due`, for at most a second, since waits use another clock than
  /// terms.
  void Pause(Lock& lock, const std::stop_token& stop, kube::TimePoint due);
  /// Sends a patch of a pod. Returns the HTTP status of a final answer, or an error if a retry
  /// makes sense. REQUIRES: no lock held.
  std::expected<int, std::string> Send(const kube::Request& patch);

  const LeadershipOptions options_;
  kube::RestClient& client_;
  Tenure& tenure_;
  Logger& logger_;
  const Duties duties_;

  mutable std::mutex mutex_;  ///< Guards what follows. Never held over a call or a duty.
  std::condition_variable_any changed_;
  host::Leadership leadership_;
  std::optional<kube::LeaseRequest> ask_;  ///< For the thread of the Lease.
  std::deque<Order> orders_;               ///< For the other thread.
  bool left_ = false;                      ///< Leave was called.
  bool fit_ = true;                        ///< As it was when last asked.
  kube::TimePoint term_began_{};
  std::string reported_holder_;
  std::string reported_error_;
  std::stop_source call_;  ///< Cuts off a Lease request.

  std::jthread campaign_;
  std::jthread serve_;
};

}  // namespace berth::server
