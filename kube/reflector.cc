#include "kube/reflector.h"

#include <algorithm>
#include <utility>

namespace berth::kube {
namespace {

constexpr std::size_t kItemLimit = std::size_t{8} << 20;
constexpr Duration kListIdleTimeout{60'000};
constexpr Duration kShortWatch{1'000};
constexpr int kMaxPages = 100'000;
constexpr int kPageTries = 5;
/// client-go retries a failing watch without a limit; a list costs more but recovers from more
/// errors.
constexpr int kMaxFailures = 5;
constexpr std::string_view kInitialEventsEnd = "k8s.io/initial-events-end";

bool EndsInitialEvents(simdjson::dom::element bookmark) {
  std::string_view value;
  const auto error = bookmark["metadata"]["annotations"][kInitialEventsEnd].get(value);
  return error == simdjson::SUCCESS && value == "true";
}

bool IsExpired(const ApiStatus& status) {
  return status.code == 410 || status.reason == "Expired" || status.reason == "Gone";
}

/// We know a version that this server has not seen yet, for instance after a failover.
bool IsTooLargeVersion(const ApiStatus& status) {
  return std::ranges::find(status.causes, "ResourceVersionTooLarge") != status.causes.end() ||
         status.message.find("Too large resource version") != std::string::npos;
}

bool IsTransient(const ApiStatus& status) { return status.code == 429 || status.code >= 500; }

/// The server cannot stream lists: it is too old, the feature is off, or its etcd does not support
/// it.
bool LacksWatchList(const ApiStatus& status) {
  return status.code == 400 || status.code == 422 || status.reason == "Invalid" ||
         status.message.find("RequestWatchProgress") != std::string::npos;
}

ApiStatus StatusOf(const Response& response) {
  ApiStatus status = ParseStatus(response.body, response.status);
  if (response.retry_after) status.retry_after = response.retry_after;
  return status;
}

RestartReason ReasonOf(const ApiStatus& status) {
  if (IsExpired(status) || IsTooLargeVersion(status)) return RestartReason::kExpired;
  if (status.code == 429) return RestartReason::kThrottled;
  return status.code >= 500 ? RestartReason::kServerError : RestartReason::kRefused;
}

RestartReason ReasonOf(const TransportError& error) {
  switch (error.failure) {
    case TransportFailure::kSilent:
    case TransportFailure::kTimeout:
      return RestartReason::kSilent;
    case TransportFailure::kTooLarge:
    case TransportFailure::kReceiver:
      return RestartReason::kMalformed;
    default:
      return RestartReason::kConnection;
  }
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

/// One watch stream while it runs.
struct Reflector::WatchState {
  bool initial = false;  ///< It began as a watch list.
  bool began = false;    ///< BeginReplace() was called.
  bool synced = false;   ///< The initial events are over.
  bool malformed = false;
  int events = 0;
  std::optional<ApiStatus> error{};  ///< From an ERROR event.
  TimePoint start{};

  bool InInitialEvents() const { return initial && !synced; }
};

/// What to ask for in one page of a list.
struct Reflector::Page {
  std::string version;
  std::string continue_token;
  int limit = 0;  ///< 0: no limit.
};

Reflector::Reflector(RestClient& client, ReflectorConfig config, ReflectorSink& sink, Timing timing)
    : client_(client),
      config_(std::move(config)),
      sink_(sink),
      timing_(std::move(timing)),
      backoff_(config_.backoff, timing_),
      watch_list_(config_.use_watch_list) {}

void Reflector::Run(std::stop_token stop) {
  while (!stop.stop_requested()) {
    if (SyncAndWatch(stop) == Next::kStop) return;
    if (!WaitBackoff(stop)) return;
  }
}

bool Reflector::WaitBackoff(const std::stop_token& stop) {
  const Duration wait = std::max(backoff_.Next(), std::exchange(retry_after_, Duration(0)));
  return timing_.wait(wait, stop);
}

Reflector::Next Reflector::Restart(RestartReason reason, Next next) {
  sink_.OnRestart(reason);
  return next;
}

std::string Reflector::RelistVersion() const {
  if (expired_) return "";  // The newest: a consistent read.
  // "0" is whatever the server has in its cache: cheap, and good enough to begin with.
  return version_.empty() ? "0" : version_;
}

/// Synchronizes the sink and then follows the changes. Returns when that has to begin again.
Reflector::Next Reflector::SyncAndWatch(std::stop_token stop) {
  Next next = watch_list_ ? WatchOnce(/*initial=*/true, stop) : Next::kListInstead;
  if (next == Next::kListInstead) {
    if (!List(stop)) return stop.stop_requested() ? Next::kStop : Next::kRelist;
    next = Next::kRewatch;
  }
  while (next == Next::kRewatch || next == Next::kRewatchLater) {
    if (next == Next::kRewatchLater && !WaitBackoff(stop)) return Next::kStop;
    next = WatchOnce(/*initial=*/false, stop);
  }
  return next;
}

Request Reflector::WatchRequest(bool initial) const {
  const double seconds =
      static_cast<double>(config_.min_watch.count()) / 1000.0 * (1.0 + timing_.random());
  Request request;
  request.path = config_.path;
  request.timeout = Duration(0);
  request.query = {{"watch", "1"},
                   {"allowWatchBookmarks", "true"},
                   {"timeoutSeconds", std::to_string(static_cast<long>(seconds))}};
  if (initial) {
    request.query.emplace_back("sendInitialEvents", "true");
    request.query.emplace_back("resourceVersionMatch", "NotOlderThan");
  }
  const bool with_version = !version_.empty() && !(initial && expired_);
  if (with_version) request.query.emplace_back("resourceVersion", version_);
  if (!config_.field_selector.empty()) {
    request.query.emplace_back("fieldSelector", config_.field_selector);
  }
  if (!config_.label_selector.empty()) {
    request.query.emplace_back("labelSelector", config_.label_selector);
  }
  return request;
}

Reflector::Next Reflector::WatchOnce(bool initial, const std::stop_token& stop) {
  WatchState state{.initial = initial};
  state.start = timing_.now();
  if (initial) sink_.OnList(ListKind::kStream);
  const auto result = client_.Stream(
      WatchRequest(initial), [&](std::string_view line) { return OnLine(line, state); },
      config_.idle_timeout, stop);
  if (stop.stop_requested()) return Next::kStop;
  const Next next = AfterWatch(state, result);
  if (state.events > 0) failures_ = 0;
  // There is no version to continue from: the initial events were not complete.
  if (state.InInitialEvents()) return next == Next::kListInstead ? next : Next::kRelist;
  if (next != Next::kRetryWatch) return next;
  if (++failures_ < kMaxFailures) return Next::kRewatchLater;
  failures_ = 0;
  return Next::kRelist;
}

Reflector::Next Reflector::AfterWatch(const WatchState& state,
                                      const std::expected<Response, TransportError>& result) {
  if (state.malformed) return Restart(RestartReason::kMalformed, Next::kRelist);
  if (state.error) return AfterStatus(*state.error, state.InInitialEvents());
  if (!result) return AfterTransportError(result.error());
  if (!result->Ok()) return AfterStatus(StatusOf(*result), state.InInitialEvents());
  if (state.InInitialEvents()) {
    // A server that ignores sendInitialEvents never ends them; a list always ends.
    return Restart(RestartReason::kClosed, Next::kListInstead);
  }
  if (state.events == 0 && timing_.now() - state.start < kShortWatch) {
    return Restart(RestartReason::kShortWatch, Next::kRelist);
  }
  return Restart(RestartReason::kClosed, Next::kRewatch);
}

/// An unreachable server has said nothing about the version. Listing everything once it is back,
/// together with every other client, could overload it. client-go does the same
/// (isWatchErrorRetriable). If the version is too old by then, the server says so.
Reflector::Next Reflector::AfterTransportError(const TransportError& error) {
  const RestartReason reason = ReasonOf(error);
  return Restart(reason, reason == RestartReason::kMalformed ? Next::kRelist : Next::kRewatchLater);
}

Reflector::Next Reflector::AfterStatus(const ApiStatus& status, bool initial) {
  if (initial && LacksWatchList(status)) {
    watch_list_ = false;
    return Restart(RestartReason::kWatchListUnsupported, Next::kListInstead);
  }
  if (status.retry_after) retry_after_ = *status.retry_after;
  const RestartReason reason = ReasonOf(status);
  switch (reason) {
    case RestartReason::kExpired:
      // A list at the last version still returns data that is at least as new; the version is only
      // given up when that is refused, too.
      if (initial || IsTooLargeVersion(status)) expired_ = true;
      return Restart(reason, Next::kRelist);
    case RestartReason::kThrottled:
      return Restart(reason, Next::kRewatchLater);
    case RestartReason::kServerError:
      return Restart(reason, Next::kRetryWatch);
    default:
      return Restart(reason, initial ? Next::kListInstead : Next::kRelist);
  }
}

bool Reflector::Parse(std::string_view json, simdjson::dom::element& out) {
  padded_.assign(json);
  padded_.append(simdjson::SIMDJSON_PADDING, '\0');
  return parser_.parse(padded_.data(), json.size(), /*realloc_if_needed=*/false).get(out) ==
         simdjson::SUCCESS;
}

/// Handles one watch event. False ends the stream, for the reason stored in `state`.
bool Reflector::OnLine(std::string_view line, WatchState& state) {
  simdjson::dom::element json;
  const auto event = Parse(line, json) ? ReadWatchEvent(json) : std::nullopt;
  if (!event) {
    state.malformed = true;
    return false;
  }
  if (event->type == WatchEvent::Type::kError) {
    state.error = ParseStatus(simdjson::minify(event->object), 500);
    return false;
  }
  if (state.initial && !state.began) {
    state.began = true;
    sink_.BeginReplace();
  }
  ++state.events;
  sink_.OnAlive();
  OnEvent(*event, state);
  return true;
}

void Reflector::OnEvent(const WatchEvent& event, WatchState& state) {
  if (event.type == WatchEvent::Type::kUpsert) {
    sink_.Upsert(event.object);
  } else if (event.type == WatchEvent::Type::kDelete) {
    sink_.Delete(event.object);
  } else if (state.InInitialEvents() && EndsInitialEvents(event.object)) {
    state.synced = true;
    expired_ = false;
    version_ = event.version;
    sink_.EndReplace();
    sink_.OnSynced();
  }
  // Initial events have no order, so their versions mean nothing.
  if (!state.InInitialEvents()) version_ = event.version;
}

/// Lists everything into the sink. False: not done, begin again after a backoff.
bool Reflector::List(const std::stop_token& stop) {
  int limit = config_.page_limit;
  constexpr int kTries = 3;  // At the known version, at the newest, without pages.
  for (int i = 0; i < kTries; ++i) {
    bool try_again = false;
    const std::string version = RelistVersion();
    sink_.OnList(version.empty() ? ListKind::kConsistent : ListKind::kCached);
    // A list in pages at a version other than "0" is read from etcd, a list without pages from the
    // server's cache (kubernetes/client-go, Reflector.list).
    int in_one_piece = 0;
    int& pages = version.empty() || version == "0" ? limit : in_one_piece;
    if (ListPages(version, pages, stop, try_again)) return true;
    if (!try_again || stop.stop_requested()) return false;
  }
  return false;
}

bool Reflector::ListPages(const std::string& version, int& limit, const std::stop_token& stop,
                          bool& try_again) {
  sink_.BeginReplace();
  Page page{.version = version, .continue_token = {}, .limit = limit};
  std::string listed_version;
  for (int i = 0; i < kMaxPages; ++i) {
    std::string next;
    std::string page_version;
    ApiStatus refusal;
    if (!FetchPage(page, stop, next, page_version, refusal)) {
      // The pages' version was compacted away meanwhile, or the one asked for is not there.
      if (!IsExpired(refusal) && !IsTooLargeVersion(refusal)) return false;
      if (!page.continue_token.empty()) limit = 0;  // Slower than compaction: list without pages.
      expired_ = true;
      try_again = true;
      return false;
    }
    if (listed_version.empty()) listed_version = std::move(page_version);
    if (next.empty()) {
      version_ = std::move(listed_version);
      expired_ = false;
      sink_.EndReplace();
      sink_.OnSynced();
      return true;
    }
    page = {.version = {}, .continue_token = std::move(next), .limit = limit};
  }
  return false;
}

/// Fetches one page into the sink, with a few retries if the problem may be temporary. A page that
/// comes twice does no harm. False: `refusal` has the answer, if there was one.
bool Reflector::FetchPage(const Page& page, const std::stop_token& stop, std::string& next,
                          std::string& version, ApiStatus& refusal) {
  Request request;
  request.path = config_.path;
  request.timeout = Duration(0);
  if (page.limit > 0) request.query.emplace_back("limit", std::to_string(page.limit));
  if (!page.continue_token.empty()) request.query.emplace_back("continue", page.continue_token);
  if (!page.version.empty()) request.query.emplace_back("resourceVersion", page.version);
  if (!config_.field_selector.empty()) {
    request.query.emplace_back("fieldSelector", config_.field_selector);
  }
  if (!config_.label_selector.empty()) {
    request.query.emplace_back("labelSelector", config_.label_selector);
  }
  for (int i = 0; i < kPageTries; ++i) {
    if (i > 0 && !WaitBackoff(stop)) return false;
    const PieceFunction on_item = [this](std::string_view item) {
      simdjson::dom::element object;
      if (!Parse(item, object)) return false;
      sink_.Upsert(object);
      return true;
    };
    ItemSplitter items(kItemLimit, on_item);
    const auto result = client_.StreamBytes(
        request,
        [&](std::string_view bytes) { return items.Feed(bytes) == SplitResult::kContinue; },
        kListIdleTimeout, stop);
    if (stop.stop_requested()) return false;
    if (!result) {
      sink_.OnRestart(ReasonOf(result.error()));
      continue;
    }
    if (!result->Ok()) {
      refusal = StatusOf(*result);
      sink_.OnRestart(ReasonOf(refusal));
      if (refusal.retry_after) retry_after_ = *refusal.retry_after;
      if (!IsTransient(refusal) || IsTooLargeVersion(refusal)) return false;
      continue;
    }
    simdjson::dom::element list;
    if (!items.Complete() || !Parse(items.Envelope(), list) || VersionOf(list).empty()) {
      sink_.OnRestart(RestartReason::kMalformed);
      continue;
    }
    version = VersionOf(list);
    std::string_view token;
    if (list["metadata"]["continue"].get(token) == simdjson::SUCCESS) next = token;
    sink_.OnAlive();
    return true;
  }
  return false;
}

}  // namespace berth::kube
