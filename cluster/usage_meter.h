// What queues and users have used: the devices that their bound pods hold, times the time for which
// they hold them. Deterministic, in integers, and without a clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace berth::cluster {

/// Device-milliseconds by resource: one device for one second is 1000. From 0 to 2^62, where
/// counting ends.
using Usage = std::map<std::string, std::int64_t, std::less<>>;
inline constexpr std::int64_t kMostUsage = std::int64_t{1} << 62U;
inline constexpr std::int64_t kMostPast = std::int64_t{1} << 40U;
/// Adds `more` to `sum`, which stays within its bounds.
void AddUsage(Usage& sum, const Usage& more);

/// What one queue, or one user of it, has used.
struct UsageEntry {
  std::string queue;
  std::string user{};  ///< Empty: of the queue and the queues below it. Else of the queue itself.
  /// Of a queue: it has a label of its own in metrics. That never changes, so that no sum of the
  /// others ever falls.
  bool named = true;
  Usage used{};
  /// Of a queue: what it held on average, see UsageMeter::Past. Thousandths of devices, from 0 to
  /// kMostPast.
  Usage past{};
  bool operator==(const UsageEntry&) const = default;
};

/// All that has been counted until a moment.
struct UsageRecord {
  std::int64_t until = 0;            ///< Milliseconds since the epoch; 0: nothing was counted yet.
  std::vector<UsageEntry> queues{};  ///< By name.
  std::vector<UsageEntry> users{};   ///< By queue and name.
  Usage other_queues{};              ///< Of queues that have no entry any more.
  Usage other_users{};               ///< Of users that have none.
};

/// Keeps at most `most` of the entries. The ones with the least use become part of `other`.
void LimitEntries(std::vector<UsageEntry>& entries, std::size_t most, Usage& other);

/// A change takes time logarithmic in the number of accounts. Times, in milliseconds, must not go
/// back; where one does, nothing is counted for it.
class UsageMeter {
 public:
  static constexpr std::size_t kNamedQueues = 100;
  static constexpr std::size_t kMostQueues = 2'000;  ///< Beyond the policy's.
  static constexpr std::size_t kMostUsers = 1'000;

  /// What one queue or user holds now, and has used.
  class Account {
   public:
    /// What is held of `resource` changes by `milli` thousandths of devices at `now`. `from`, no
    /// later than that: since when they count already.
    void Hold(std::string_view resource, std::int64_t milli, std::int64_t from, std::int64_t now);
    bool idle() const;  ///< Nothing is held.

   private:
    friend UsageMeter;
    struct Line {
      __int128 total = 0;      ///< Thousandths of device-milliseconds, until `at`.
      std::int64_t holds = 0;  ///< Thousandths of devices.
      std::int64_t past = 0;   ///< What it held on average until `at`, in 2^-16 thousandths.
      std::int64_t at = 0;
      void Advance(std::int64_t now, std::int64_t half_life);
      void Add(std::int64_t milli, std::int64_t from, std::int64_t to);
    };
    std::map<std::string, Line, std::less<>> lines_;
    std::int64_t half_life_ = 0;  ///< Of `past`. Users have none.
    bool named_ = true;

    void Rest(std::int64_t now);
    Usage Until(std::int64_t now) const;
    Usage Past(std::int64_t now) const;
  };

  /// Goes on from `record` at `at`; nothing is held yet.
  UsageMeter(const UsageRecord& record, std::int64_t at);
  UsageMeter(const UsageMeter&) = delete;
  UsageMeter& operator=(const UsageMeter&) = delete;

  /// The account of a queue, made if there is none. Valid until the next Prune.
  Account& OfQueue(std::string_view queue);
  /// The account of a user of a queue. If there are kMostUsers already, the idle account with the
  /// least use becomes part of the others; if none is idle, it is the account of the others. Valid
  /// while it is not idle.
  Account& OfUser(std::string_view queue, std::string_view user, std::int64_t now);
  /// From now on what a queue held that long ago counts half in its average. 0, as at first: what
  /// it holds is its average.
  void SetHalfLife(std::int64_t milliseconds, std::int64_t now);
  /// What the queue held on average until `now`, where a moment that lies a half-life back counts
  /// half of the present one (an exponentially weighted moving average). Thousandths of devices.
  std::int64_t Past(std::string_view queue, std::string_view resource, std::int64_t now) const;
  /// No queue holds anything from now on: all accounts of queues are idle.
  void RestQueues(std::int64_t now);
  /// Forgets idle queues that used least, if there are too many.
  void Prune(std::int64_t now);

  /// All that has been counted until `now`.
  UsageRecord Record(std::int64_t now) const;

 private:
  using Users = std::map<std::pair<std::string, std::string>, Account>;

  static void Restore(Account& account, const UsageEntry& entry, std::int64_t at);

  std::int64_t half_life_ = 0;
  std::map<std::string, Account, std::less<>> queues_;
  std::size_t named_ = 0;  ///< Of the queues.
  Users users_;            ///< By queue and user.
  Account other_users_;    ///< Of users who have no account.
  Usage past_queues_;      ///< Of queues that have none any more.
  Usage past_users_;       ///< The same of users.
};

}  // namespace berth::cluster
