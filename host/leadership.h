// One replica's part in leader election, without I/O, clock or threads: it campaigns for the Lease,
// takes over when it has won it, and follows again when it has lost it. A term is the time for
// which the Lease is ours. Within a term this replica
//   announces itself: the label that the Service selects goes on its pod, together with a token.
//     Once our own watch has shown the token, it has shown every earlier write to a pod, too;
//   waits for the end of writes that an earlier term of this very process made;
//   leads, until the term ends; then it follows, and may take over again in another term.
// Drivers: server/drivers/leadership.h with threads, sim/world/replica.h in virtual time.
#pragma once

#include <cstdint>
#include <deque>
#include <expected>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "host/leader_label.h"
#include "kube/leader_election.h"

namespace berth::host {

/// Which Lease is campaigned for, and which pod gets the label.
struct LeadershipOptions {
  std::string lease_ns;
  std::string lease_name = "berth";
  kube::ElectionOptions election;
  /// The pod that this process runs in, which gets the label. Empty: none.
  std::string pod_ns = {};
  std::string pod_name = {};
};

// --- The orders of a Leadership, in the order in which to carry them out.

/// Send this request, and call Answered. One at a time.
struct AskLease {
  kube::LeaseRequest request;
};
/// Put the label on a pod, or take it off, and call Patched. One at a time.
struct PatchLabel {
  kube::PodRef pod;
  bool set = false;
  kube::Request request;
};
/// From now until `until`, this process may act as the leader.
struct BeginTerm {
  kube::TimePoint until;
};
/// The same term goes on until `until`.
struct ExtendTerm {
  kube::TimePoint until;
};
/// This process may not act as the leader any more; cut off what is under way.
struct EndTerm {};
/// Call WritesEnded when no write of an earlier term is under way.
struct AwaitWrites {};
/// Begin to decide, and call Led.
struct Lead {};
/// Stop deciding, and call Followed.
struct Follow {};
using LeadershipOrder =
    std::variant<AskLease, PatchLabel, BeginTerm, ExtendTerm, EndTerm, AwaitWrites, Lead, Follow>;

/// How long an orderly shutdown waits for the end of writes under way. If they take longer, the
/// Lease is left to expire.
inline constexpr kube::Duration kWritePatience{3'000};
/// How long it waits for the Lease to be given up.
inline constexpr kube::Duration kReleasePatience{6'000};

/// Not thread-safe. After each call take the orders. Times are of one clock that never jumps and
/// does not stop while the process does; `wall` goes into the Lease, for people.
class Leadership {
 public:
  explicit Leadership(LeadershipOptions options);

  // --- What happens.
  /// The state of a pod as the informer delivers it, from its first list on.
  void See(const kube::Pod& pod, kube::TimePoint now);
  /// False: that pod does not matter here.
  bool SeeDeleted(std::string_view uid, kube::TimePoint now);
  /// AskLease was carried out.
  void Answered(kube::LeaseAnswer answer, kube::TimePoint now);
  /// The HTTP status of the answer; an error where no answer came, or one that is worth a retry.
  void Patched(std::expected<int, std::string> status, kube::TimePoint now);
  /// AwaitWrites: no write of an earlier term is under way.
  void WritesEnded(kube::TimePoint now);
  /// The term had ended before ExtendTerm could be carried out.
  void Lapsed(kube::TimePoint now);
  /// Lead, and Follow, were carried out.
  void Led(kube::TimePoint now);
  void Followed(kube::TimePoint now);
  /// Whether this replica is fit to lead. While it is not, it neither asks for the Lease nor renews
  /// it, so that another replica takes over.
  void SetFit(bool fit) { fit_ = fit; }
  /// Does what is due. `random` in [0, 1) spreads the candidates.
  void Advance(kube::TimePoint now, kube::Millis wall, double random);
  /// The part of Advance that does not concern the Lease: call it also while a Lease request is
  /// under way.
  void Settle(kube::TimePoint now);

  // --- Orderly shutdown.
  /// No term begins or goes on any more, and only Lease requests are ordered.
  void Leave();
  /// Gives up the Lease, if it is ours. REQUIRES: Leave was called, and no write is under way, or
  /// may still take effect.
  void Release(kube::TimePoint now) { election_.Release(now); }
  bool released() const { return election_.released(); }
  /// Patches that take the label off our pod.
  std::vector<PatchLabel> LabelsLeft() const { return PatchesFor(/*leading=*/false); }

  // --- What is to be done.
  std::vector<LeadershipOrder> TakeOrders() { return std::exchange(orders_, {}); }
  /// When to call Advance, and when to call Settle; TimePoint::max(): not before something happens.
  kube::TimePoint due() const;
  kube::TimePoint settle_due() const;

  // --- Reads.
  /// For how long a write may still take effect that has ended without an answer: the time between
  /// the end of a term and the begin of another replica's.
  kube::Duration LatestEffect() const;
  /// Lead was carried out, and its term has not ended.
  bool leading() const { return stage_ == Stage::kLeading; }
  /// True from the begin of a term until Followed has been called for it.
  bool on_duty() const { return stage_ != Stage::kFollows; }
  bool awaits_writes() const { return stage_ == Stage::kAwaitsWrites; }
  const kube::LeaderElection& election() const { return election_; }
  /// Why the label could not be put on our pod, so that we lead without it. Empty: no such error.
  const std::string& label_error() const { return label_error_; }

 private:
  enum class Stage : std::uint8_t {
    kFollows,
    kAnnounces,
    kAwaitsWrites,
    kBegins,  ///< Lead was ordered.
    kLeading,
    kEnds,  ///< Follow was ordered.
  };

  void EndIt();
  void Proceed(kube::TimePoint now);
  void Announce(kube::TimePoint now);
  void TendLabels(kube::TimePoint now);
  void NextPatch();
  std::vector<PatchLabel> PatchesFor(bool leading) const;
  bool MayAsk() const;
  std::int64_t MostRefusals() const;
  std::string Token() const;

  const LeadershipOptions options_;
  kube::LeaderElection election_;
  LeaderLabel label_;
  std::vector<LeadershipOrder> orders_;
  Stage stage_ = Stage::kFollows;
  bool fit_ = true;
  bool left_ = false;                      ///< Leave was called.
  std::optional<kube::TimePoint> term_{};  ///< When it ends; nullopt: none.
  int takeovers_ = 0;                      ///< Terms in which we took over.
  std::deque<PatchLabel> patches_;         ///< To be ordered, one after the other.
  bool patching_ = false;                  ///< A patch is under way.
  bool announcing_ = false;                ///< The patch under way announces us.
  bool announced_ = false;                 ///< The API server has accepted the announcement.
  int refused_ = 0;                        ///< How often the API server has refused the
                                           ///< announcement.
  std::string label_error_;
  kube::TimePoint announce_at_{};
  kube::TimePoint tend_at_{};
};

}  // namespace berth::host
