#include "kube/reflector.h"

#include <simdjson.h>

#include <algorithm>
#include <utility>

namespace berth::kube {
namespace {

constexpr std::size_t kItemLimit = std::size_t{8} << 20;
constexpr Duration kListIdleTimeout{60'000};
constexpr Duration kShortWatch{1'000};
constexpr int kMaxPages = 100'000;
constexpr int kPageTries = 5;
constexpr std::string_view kInitialEventsEnd = "k8s.io/initial-events-end";

bool EndsInitialEvents(simdjson::dom::element bookmark) {
  std::string_view value;
  const auto error = bookmark["metadata"]["annotations"][kInitialEventsEnd].get(value);
  return error == simdjson::SUCCESS && value == "true";
}

ApiStatus StatusOf(const Response& response) {
  ApiStatus status = ParseStatus(response.body, response.status);
  if (response.retry_after) status.retry_after = response.retry_after;
  return status;
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

/// One watch stream while it runs.
struct Reflector::WatchState {
  bool initial = false;  ///< It began as a watch list.
  bool began = false;    ///< BeginReplace() was called.
  bool malformed = false;
  std::optional<ApiStatus> error{};  ///< From an ERROR event.
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
      state_(config_.use_watch_list, config_.page_limit) {}

void Reflector::Run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const ListWatch::Step step = state_.Next();
    if (step.backs_off && !WaitBackoff(stop)) return;
    if (step.ask == ListWatch::Ask::kList) {
      List(step, stop);
    } else {
      Watch(step, stop);
    }
  }
}

bool Reflector::WaitBackoff(const std::stop_token& stop) {
  return timing_.wait(std::max(backoff_.Next(), state_.TakeRetryAfter()), stop);
}

/// Adds the selectors.
void Reflector::Select(Request& request) const {
  if (!config_.field_selector.empty()) {
    request.query.emplace_back("fieldSelector", config_.field_selector);
  }
  if (!config_.label_selector.empty()) {
    request.query.emplace_back("labelSelector", config_.label_selector);
  }
}

Request Reflector::WatchRequest(const ListWatch::Step& step) const {
  const double seconds =
      static_cast<double>(config_.min_watch.count()) / 1000.0 * (1.0 + timing_.random());
  Request request;
  request.path = config_.path;
  request.timeout = Duration(0);
  request.query = {{"watch", "1"},
                   {"allowWatchBookmarks", "true"},
                   {"timeoutSeconds", std::to_string(static_cast<long>(seconds))}};
  if (step.ask == ListWatch::Ask::kStream) {
    request.query.emplace_back("sendInitialEvents", "true");
    request.query.emplace_back("resourceVersionMatch", "NotOlderThan");
  }
  if (!step.version.empty()) request.query.emplace_back("resourceVersion", step.version);
  Select(request);
  return request;
}

void Reflector::Watch(const ListWatch::Step& step, const std::stop_token& stop) {
  WatchState watch{.initial = step.ask == ListWatch::Ask::kStream};
  const TimePoint start = timing_.now();
  if (watch.initial) sink_.OnList(step.list_kind());
  const auto result = client_.Stream(
      WatchRequest(step), [&](std::string_view line) { return OnLine(line, watch); },
      config_.idle_timeout, stop);
  if (stop.stop_requested()) return;
  ListWatch::WatchEnd end{.brief = timing_.now() - start < kShortWatch};
  if (watch.malformed) {
    end.failure = RestartReason::kMalformed;
  } else if (watch.error) {
    end.refusal = std::move(watch.error);
  } else if (!result) {
    end.failure = ReasonOf(result.error());
  } else if (!result->Ok()) {
    end.refusal = StatusOf(*result);
  }
  sink_.OnRestart(state_.OnWatchEnd(end));
}

bool Reflector::Parse(std::string_view json, simdjson::dom::element& out) {
  padded_.assign(json);
  padded_.append(simdjson::SIMDJSON_PADDING, '\0');
  return parser_.parse(padded_.data(), json.size(), /*realloc_if_needed=*/false).get(out) ==
         simdjson::SUCCESS;
}

/// Handles one watch event. False ends the stream, for the reason stored in `watch`.
bool Reflector::OnLine(std::string_view line, WatchState& watch) {
  simdjson::dom::element json;
  const auto event = Parse(line, json) ? ReadWatchEvent(json) : std::nullopt;
  if (!event) {
    watch.malformed = true;
    return false;
  }
  if (event->type == WatchEvent::Type::kError) {
    watch.error = ParseStatus(simdjson::minify(event->object), 500);
    return false;
  }
  if (watch.initial && !watch.began) {
    watch.began = true;
    sink_.BeginReplace();
  }
  sink_.OnAlive();
  OnEvent(*event);
  return true;
}

void Reflector::OnEvent(const WatchEvent& event) {
  if (event.type == WatchEvent::Type::kUpsert) {
    sink_.Upsert(event.object);
  } else if (event.type == WatchEvent::Type::kDelete) {
    sink_.Delete(event.object);
  } else if (state_.in_initial_events() && EndsInitialEvents(event.object)) {
    state_.OnSynced(event.version);
    sink_.EndReplace();
    sink_.OnSynced();
  }
  state_.OnEvent(event.version);
}

/// Lists everything into the sink, page by page.
void Reflector::List(const ListWatch::Step& step, const std::stop_token& stop) {
  sink_.OnList(step.list_kind());
  sink_.BeginReplace();
  Page page{.version = step.version, .continue_token = {}, .limit = step.page_limit};
  std::string listed_version;
  std::optional<ApiStatus> refusal;
  for (int i = 0; i < kMaxPages; ++i) {
    std::string next;
    std::string page_version;
    if (!FetchPage(page, stop, next, page_version, refusal)) break;
    if (listed_version.empty()) listed_version = std::move(page_version);
    if (next.empty()) {
      state_.OnSynced(listed_version);
      sink_.EndReplace();
      sink_.OnSynced();
      return;
    }
    page = {.version = {}, .continue_token = std::move(next), .limit = step.page_limit};
  }
  state_.OnListFailed(refusal ? &*refusal : nullptr, !page.continue_token.empty());
}

/// Fetches one page into the sink, with a few retries if the problem may be temporary. A page that
/// comes twice does no harm. False: `refusal` has the answer, if there was one.
bool Reflector::FetchPage(const Page& page, const std::stop_token& stop, std::string& next,
                          std::string& version, std::optional<ApiStatus>& refusal) {
  Request request;
  request.path = config_.path;
  request.timeout = Duration(0);
  if (page.limit > 0) request.query.emplace_back("limit", std::to_string(page.limit));
  if (!page.continue_token.empty()) request.query.emplace_back("continue", page.continue_token);
  if (!page.version.empty()) request.query.emplace_back("resourceVersion", page.version);
  Select(request);
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
      const RestartReason reason = ReasonOf(*refusal);
      sink_.OnRestart(reason);
      state_.Heed(*refusal);
      if (reason == RestartReason::kExpired || reason == RestartReason::kRefused) return false;
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
