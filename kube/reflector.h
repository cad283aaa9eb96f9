// Mirrors one resource of the API server into a sink, by LIST and WATCH as client-go does it, and
// keeps doing so through expired versions, throttling, dead connections and garbage.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "kube/api_status.h"
#include "kube/backoff.h"
#include "kube/rest_client.h"
#include "kube/watch_event.h"

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

/// How all objects were asked for. A closed set: metric labels.
enum class ListKind : std::uint8_t {
  kStream,      ///< A watch that begins with the existing objects: from the server's cache.
  kCached,      ///< A list at least as new as the last version seen: from the server's cache.
  kConsistent,  ///< A list of the newest version, in pages: servers before 1.31 read it from etcd.
};

/// The metric label: `stream`, `cached`, `consistent`.
std::string_view Name(ListKind kind);

/// Receives what a Reflector sees, always on the thread of Reflector::Run(). An element is valid
/// during the call only. A call may block, which makes the server send more slowly.
///
/// Between BeginReplace() and EndReplace() comes every object that exists, possibly mixed with
/// events; the sink records what it saw, and at EndReplace() deletes the objects that it still has
/// and did not see (the reflector keeps no copy). Objects may be used as they come. A replace that
/// fails half-way is followed by another BeginReplace(), which clears the record.
class ReflectorSink {
 public:
  virtual ~ReflectorSink() = default;
  virtual void BeginReplace() = 0;
  virtual void EndReplace() = 0;
  /// A new or changed object. The same state may come more than once.
  virtual void Upsert(simdjson::dom::element object) = 0;
  /// The object's last state. It may be unknown to the sink.
  virtual void Delete(simdjson::dom::element object) = 0;
  /// A replace has been delivered completely: called after each EndReplace().
  virtual void OnSynced() {}
  virtual void OnRestart(RestartReason) {}
  /// All objects are listed: for the first time, or because a watch could not go on.
  virtual void OnList(ListKind) {}
  /// The server has shown that it is alive, by an event or a bookmark.
  virtual void OnAlive() {}
};

struct ReflectorConfig {
  std::string name;            ///< For metrics: `pods`.
  std::string path;            ///< `/api/v1/pods`
  std::string field_selector;  ///< Pods: `status.phase!=Succeeded`.
  std::string label_selector;
  int page_limit = 500;
  bool use_watch_list = true;
  /// The longest silence tolerated; the server sends a bookmark about every minute.
  Duration idle_timeout{150'000};
  /// Watches ask for a random time in [min_watch, 2 * min_watch).
  Duration min_watch{300'000};
  BackoffPolicy backoff;
};

/// One resource's reflector. Its owner gives it a thread.
class Reflector {
 public:
  /// `client` and `sink` must outlive it.
  Reflector(RestClient& client, ReflectorConfig config, ReflectorSink& sink,
            Timing timing = Timing::Real());

  /// Lists and watches until stopped, which takes effect at once even in a silent stream.
  void Run(std::stop_token stop);

  const ReflectorConfig& config() const { return config_; }

 private:
  /// What to do after a watch or a list.
  enum class Next : std::uint8_t {
    kRewatch,       ///< Rewatch from the last seen version, at once.
    kRewatchLater,  ///< The same after a backoff, without a bound on the number of times.
    kRetryWatch,    ///< The same a few times; then a relist, since the version may be at fault.
    kRelist,        ///< Relist after a backoff.
    kListInstead,   ///< The watch list did not work: use a list, at once.
    kStop,
  };
  struct WatchState;
  struct Page;

  Next SyncAndWatch(std::stop_token stop);
  Next WatchOnce(bool initial, const std::stop_token& stop);
  Next AfterWatch(const WatchState& state, const std::expected<Response, TransportError>& result);
  Next AfterTransportError(const TransportError& error);
  Next AfterStatus(const ApiStatus& status, bool initial);
  bool OnLine(std::string_view line, WatchState& state);
  void OnEvent(const WatchEvent& event, WatchState& state);
  Request WatchRequest(bool initial) const;

  bool List(const std::stop_token& stop);
  bool ListPages(const std::string& version, int& limit, const std::stop_token& stop,
                 bool& try_again);
  bool FetchPage(const Page& page, const std::stop_token& stop, std::string& next,
                 std::string& version, ApiStatus& refusal);

  bool Parse(std::string_view json, simdjson::dom::element& out);
  std::string RelistVersion() const;
  Next Restart(RestartReason reason, Next next);
  bool WaitBackoff(const std::stop_token& stop);

  RestClient& client_;
  const ReflectorConfig config_;
  ReflectorSink& sink_;
  const Timing timing_;
  Backoff backoff_;

  simdjson::dom::parser parser_;
  std::string padded_;      ///< The text that parser_ last parsed.
  std::string version_;     ///< The last version seen; opaque. Empty: none yet.
  bool expired_ = false;    ///< The server no longer has version_: ask for the newest.
  bool watch_list_;         ///< Still believed to be supported.
  int failures_ = 0;        ///< Watches that failed in a row without an event.
  Duration retry_after_{};  ///< The least time that the server asked us to wait.
};

}  // namespace berth::kube
