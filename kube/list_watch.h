// How one resource of the API server is kept in sync, as client-go's Reflector does it: whether to
// list or to watch next, from which version, and whether to back off first. A state machine without
// I/O, clock and threads: kube/reflector.h drives it with HTTP, sim/world/watch.h in virtual time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kube/api_status.h"
#include "kube/backoff.h"

namespace berth::kube {

/// Why a watch (or the list before it) had to be started again. A closed set: metric labels.
enum class RestartReason : std::uint8_t {
  kClosed,                ///< The server ended it after its time; nothing is wrong.
  kShortWatch,            ///< Closed within a second without a single event.
  kExpired,               ///< 410, or a resource version that the server does not have.
  kThrottled,             ///< 429.
  kServerError,           ///< 5xx.
  kConnection,            ///< Refused, reset, TLS.
  kSilent,                ///< Neither event nor bookmark for the idle timeout.
  kMalformed,             ///< Not what a watch or a list looks like, or too long.
  kRefused,               ///< Any other 4xx.
  kWatchListUnsupported,  ///< The server cannot stream lists.
};

/// The metric label: `closed`, `short_watch`, `expired`, ...
std::string_view Name(RestartReason reason);
/// What an answer that is not 2xx, or an ERROR event, means for a watch.
RestartReason ReasonOf(const ApiStatus& status);

/// How all objects were asked for. A closed set: metric labels.
enum class ListKind : std::uint8_t {
  kStream,      ///< A watch that begins with the existing objects: from the server's cache.
  kCached,      ///< A list at least as new as the last version seen: from the server's cache.
  kConsistent,  ///< A list of the newest version, in pages: servers before 1.31 read it from etcd.
};

/// The metric label: `stream`, `cached`, `consistent`.
std::string_view Name(ListKind kind);

class ListWatch {
 public:
  enum class Ask : std::uint8_t {
    kStream,  ///< A watch that begins with all existing objects, not older than `version`.
    kList,    ///< A list not older than `version`.
    kWatch,   ///< A watch of what happened after `version`.
  };
  /// The next request.
  struct Step {
    Ask ask = Ask::kStream;
    std::string version{};   ///< Opaque. Empty: the newest.
    int page_limit = 0;      ///< Of a list; 0: it comes in one piece.
    bool backs_off = false;  ///< Wait before it.

    ListKind list_kind() const {
      if (ask == Ask::kStream) return ListKind::kStream;
      return version.empty() ? ListKind::kConsistent : ListKind::kCached;
    }
  };

  /// `use_watch_list`: the server may be able to stream lists. `page_limit`: objects in a page.
  ListWatch(bool use_watch_list, int page_limit);

  /// What to ask for now. Does not change until the request has ended.
  Step Next() const;

  // --- While the request is under way.
  /// Objects that exist are still being delivered, by kStream.
  bool in_initial_events() const { return ask_ == Ask::kStream && !synced_; }
  /// All objects as of this version have been delivered. Ends a request of kind kList.
  void OnSynced(std::string_view version);
  /// An event, or a bookmark, of this version has been delivered.
  void OnEvent(std::string_view version);

  // --- The request has ended.
  struct WatchEnd {
    /// The connection failed, or what it delivered made no sense. Absent: the server ended it.
    std::optional<RestartReason> failure{};
    /// The server's answer was not 2xx, or it sent an ERROR event.
    std::optional<ApiStatus> refusal{};
    bool brief = false;  ///< It took less than a second.
  };
  /// A request of kind kStream or kWatch. Returns the reason to tell.
  RestartReason OnWatchEnd(const WatchEnd& end);
  /// A list whose pages could not all be had. `refusal`: the server's last answer; null: there was
  /// none. `continued`: some pages were there already.
  void OnListFailed(const ApiStatus* refusal, bool continued);

  /// The server asks to be left alone for a while.
  void Heed(const ApiStatus& status) {
    if (status.retry_after) retry_after_ = *status.retry_after;
  }
  /// The least time to back off; 0: the server has not asked for any. Call once for each back-off.
  Duration TakeRetryAfter();

 private:
  /// What to do after a watch.
  enum class After : std::uint8_t {
    kRewatch,       ///< Watch again from the last version seen, at once.
    kRewatchLater,  ///< The same after a back-off, without a bound on the number of times.
    kRetryWatch,    ///< The same a few times; then list, since the version may be at fault.
    kRelist,        ///< List or stream again, after a back-off.
    kListInstead,   ///< The stream did not work: list, at once.
  };

  RestartReason ReasonFor(const WatchEnd& end, After& after);
  After AfterRefusal(const ApiStatus& status);
  void Watch(bool backs_off);
  void Relist();
  void List();

  const int page_limit_;
  bool watch_list_;  ///< Still believed to be supported.

  Ask ask_;
  bool backs_off_ = false;
  bool synced_ = false;        ///< Of kStream: its initial events have come.
  int events_ = 0;             ///< Of this request.
  int list_tries_ = 0;         ///< Lists in a row that were refused for their version.
  bool in_one_piece_ = false;  ///< Pages are compacted away faster than they are read.

  std::string version_;     ///< The last version seen. Empty: none yet.
  bool expired_ = false;    ///< The server no longer has version_: ask for the newest.
  int failures_ = 0;        ///< Watches that failed in a row without an event.
  Duration retry_after_{};  ///< See TakeRetryAfter.
};

}  // namespace berth::kube
