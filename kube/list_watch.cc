#include "kube/list_watch.h"

#include <algorithm>
#include <utility>

namespace berth::kube {
namespace {

/// client-go retries a failing watch without a limit; a list costs more but recovers from more
/// errors.
constexpr int kMaxFailures = 5;
/// At the known version, at the newest, without pages.
constexpr int kListTries = 3;

bool IsExpired(const ApiStatus& status) {
  return status.code == 410 || status.reason == "Expired" || status.reason == "Gone";
}

/// We know a version that this server has not seen yet, for instance after a failover.
bool IsTooLargeVersion(const ApiStatus& status) {
  return std::ranges::find(status.causes, "ResourceVersionTooLarge") != status.causes.end() ||
         status.message.find("Too large resource version") != std::string::npos;
}

/// The server cannot stream lists: it is too old, the feature is off, or its etcd does not support
/// it.
bool LacksWatchList(const ApiStatus& status) {
  return status.code == 400 || status.code == 422 || status.reason == "Invalid" ||
         status.message.find("RequestWatchProgress") != std::string::npos;
}

}  // namespace

std::string_view Name(RestartReason reason) {
  switch (reason) {
    case RestartReason::kClosed:
      return "closed";
    case RestartReason::kShortWatch:
      return "short_watch";
    case RestartReason::kExpired:
      return "expired";
    case RestartReason::kThrottled:
      return "throttled";
    case RestartReason::kServerError:
      return "server_error";
    case RestartReason::kConnection:
      return "connection";
    case RestartReason::kSilent:
      return "silent";
    case RestartReason::kMalformed:
      return "malformed";
    case RestartReason::kRefused:
      return "refused";
    case RestartReason::kWatchListUnsupported:
      return "watch_list_unsupported";
  }
  return "unknown";
}

std::string_view Name(ListKind kind) {
  switch (kind) {
    case ListKind::kStream:
      return "stream";
    case ListKind::kCached:
      return "cached";
    case ListKind::kConsistent:
      return "consistent";
  }
  return "unknown";
}

RestartReason ReasonOf(const ApiStatus& status) {
  if (IsExpired(status) || IsTooLargeVersion(status)) return RestartReason::kExpired;
  if (status.code == 429) return RestartReason::kThrottled;
  return status.code >= 500 ? RestartReason::kServerError : RestartReason::kRefused;
}

ListWatch::ListWatch(bool use_watch_list, int page_limit)
    : page_limit_(page_limit),
      watch_list_(use_watch_list),
      ask_(use_watch_list ? Ask::kStream : Ask::kList) {}

ListWatch::Step ListWatch::Next() const {
  Step step{.ask = ask_, .backs_off = backs_off_};
  if (ask_ == Ask::kWatch || !expired_) step.version = version_;
  if (ask_ != Ask::kList) return step;
  // "0" is whatever the server has in its cache: cheap, and good enough to begin with.
  if (step.version.empty() && !expired_) step.version = "0";
  // A list in pages at a version other than "0" is read from etcd, a list without pages from the
  // server's cache (kubernetes/client-go, Reflector.list).
  const bool in_pages = step.version.empty() || step.version == "0";
  step.page_limit = in_pages && !in_one_piece_ ? page_limit_ : 0;
  return step;
}

void ListWatch::OnSynced(std::string_view version) {
  version_ = version;
  expired_ = false;
  if (ask_ == Ask::kStream) {
    synced_ = true;
  } else {
    Watch(/*backs_off=*/false);
  }
}

void ListWatch::OnEvent(std::string_view version) {
  ++events_;
  // Initial events have no order, so their versions mean nothing.
  if (!in_initial_events()) version_ = version;
}

RestartReason ListWatch::OnWatchEnd(const WatchEnd& end) {
  After after = After::kRewatch;
  const RestartReason reason = ReasonFor(end, after);
  if (events_ > 0) failures_ = 0;
  if (in_initial_events()) {
    // There is no version to continue from: the initial events were not complete.
    if (after != After::kListInstead) after = After::kRelist;
  } else if (after == After::kRetryWatch) {
    const bool again = ++failures_ < kMaxFailures;
    if (!again) failures_ = 0;
    after = again ? After::kRewatchLater : After::kRelist;
  }
  switch (after) {
    case After::kRelist:
      Relist();
      break;
    case After::kListInstead:
      List();
      break;
    default:
      Watch(/*backs_off=*/after != After::kRewatch);
  }
  return reason;
}

RestartReason ListWatch::ReasonFor(const WatchEnd& end, After& after) {
  if (end.failure) {
    // An unreachable server has said nothing about the version. Listing everything once it is back,
    // together with every other client, could overload it. client-go does the same
    // (isWatchErrorRetriable). If the version is too old by then, the server says so.
    after = end.failure == RestartReason::kMalformed ? After::kRelist : After::kRewatchLater;
    return *end.failure;
  }
  if (end.refusal) {
    if (in_initial_events() && LacksWatchList(*end.refusal)) {
      watch_list_ = false;
      after = After::kListInstead;
      return RestartReason::kWatchListUnsupported;
    }
    after = AfterRefusal(*end.refusal);
    return ReasonOf(*end.refusal);
  }
  if (in_initial_events()) {
    // A server that ignores sendInitialEvents never ends them; a list always ends.
    after = After::kListInstead;
    return RestartReason::kClosed;
  }
  after = events_ == 0 && end.brief ? After::kRelist : After::kRewatch;
  return after == After::kRelist ? RestartReason::kShortWatch : RestartReason::kClosed;
}

ListWatch::After ListWatch::AfterRefusal(const ApiStatus& status) {
  Heed(status);
  switch (ReasonOf(status)) {
    case RestartReason::kExpired:
      // A list at the last version still returns data that is at least as new; the version is only
      // given up when that is refused, too.
      if (in_initial_events() || IsTooLargeVersion(status)) expired_ = true;
      return After::kRelist;
    case RestartReason::kThrottled:
      return After::kRewatchLater;
    case RestartReason::kServerError:
      return After::kRetryWatch;
    default:
      return in_initial_events() ? After::kListInstead : After::kRelist;
  }
}

void ListWatch::OnListFailed(const ApiStatus* refusal, bool continued) {
  const bool version_at_fault =
      refusal != nullptr && (IsExpired(*refusal) || IsTooLargeVersion(*refusal));
  if (!version_at_fault) return Relist();
  // The pages' version was compacted away meanwhile, or the one asked for is not there.
  in_one_piece_ |= continued;
  expired_ = true;
  backs_off_ = false;
  if (++list_tries_ == kListTries) Relist();
}

Duration ListWatch::TakeRetryAfter() { return std::exchange(retry_after_, Duration(0)); }

void ListWatch::Watch(bool backs_off) {
  ask_ = Ask::kWatch;
  backs_off_ = backs_off;
  events_ = 0;
}

void ListWatch::Relist() {
  List();
  if (watch_list_) ask_ = Ask::kStream;
  backs_off_ = true;
}

void ListWatch::List() {
  ask_ = Ask::kList;
  backs_off_ = false;
  synced_ = false;
  events_ = 0;
  list_tries_ = 0;
  in_one_piece_ = false;
}

}  // namespace berth::kube
