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
#include "kube/list_watch.h"
#include "kube/rest_client.h"
#include "kube/watch_event.h"

namespace berth::kube {

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
  /// See above.
  virtual void BeginReplace() = 0;
  virtual void EndReplace() = 0;
  /// A new or changed object. The same state may come more than once.
  virtual void Upsert(simdjson::dom::element object) = 0;
  /// The object's last state. It may be unknown to the sink.
  virtual void Delete(simdjson::dom::element object) = 0;
  /// A replace has been delivered completely: called after each EndReplace().
  virtual void OnSynced() {}
  /// A watch has ended, and another one, or a list, follows.
  virtual void OnRestart(RestartReason) {}
  /// All objects are listed: for the first time, or because a watch could not go on.
  virtual void OnList(ListKind) {}
  /// The server has shown that it is alive, by an event or a bookmark.
  virtual void OnAlive() {}
};

/// What to list and watch, and how.
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
  void Run(const std::stop_token& stop);

  const ReflectorConfig& config() const { return config_; }

 private:
  struct WatchState;
  struct Page;

  void Watch(const ListWatch::Step& step, const std::stop_token& stop);
  bool OnLine(std::string_view line, WatchState& state);
  void OnEvent(const WatchEvent& event);
  Request WatchRequest(const ListWatch::Step& step) const;

  void List(const ListWatch::Step& step, const std::stop_token& stop);
  bool FetchPage(const Page& page, const std::stop_token& stop, std::string& next,
                 std::string& version, std::optional<ApiStatus>& refusal);
  void Select(Request& request) const;

  bool Parse(std::string_view json, simdjson::dom::element& out);
  bool WaitBackoff(const std::stop_token& stop);

  RestClient& client_;
  const ReflectorConfig config_;
  ReflectorSink& sink_;
  const Timing timing_;
  Backoff backoff_;
  ListWatch state_;

  simdjson::dom::parser parser_;
  std::string padded_;  ///< The text that parser_ last parsed.
};

}  // namespace berth::kube
