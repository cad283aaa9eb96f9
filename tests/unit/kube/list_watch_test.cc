// What is asked for next, as client-go's Reflector does it.
#include "kube/list_watch.h"

#include <string>
#include <vector>

#include "tests/support/catch.h"

namespace berth::kube {
namespace {

using Ask = ListWatch::Ask;

/// `stream 5`, `list 0 pages of 2`, `watch 7 later`, ...: with "newest" for no version.
std::string Said(const ListWatch& state) {
  const ListWatch::Step step = state.Next();
  std::string text = step.ask == Ask::kStream ? "stream"
                     : step.ask == Ask::kList ? "list"
                                              : "watch";
  text += ' ' + (step.version.empty() ? "newest" : step.version);
  if (step.page_limit > 0) text += " pages of " + std::to_string(step.page_limit);
  return text + (step.backs_off ? " later" : "");
}

ApiStatus Status(int code, std::string reason = {}, std::string message = {}) {
  ApiStatus status;
  status.code = code;
  status.reason = std::move(reason);
  status.message = std::move(message);
  return status;
}
ApiStatus TooLargeVersion() { return Status(504, "Timeout", "Too large resource version: 9"); }

RestartReason Refused(ListWatch& state, ApiStatus status) {
  return state.OnWatchEnd({.refusal = std::move(status)});
}
RestartReason Failed(ListWatch& state, RestartReason failure) {
  return state.OnWatchEnd({.failure = failure});
}

/// It has been synced at version 5 by a list, and watches.
ListWatch Watching() {
  ListWatch state(/*use_watch_list=*/false, /*page_limit=*/2);
  state.OnSynced("5");
  return state;
}

TEST_CASE("without streams: a list from the cache in pages, then a watch from its version",
          "[kube]") {
  ListWatch state(/*use_watch_list=*/false, /*page_limit=*/2);
  CHECK(Said(state) == "list 0 pages of 2");
  CHECK(state.Next().list_kind() == ListKind::kCached);
  state.OnSynced("5");
  CHECK(Said(state) == "watch 5");
  state.OnEvent("7");
  CHECK(Said(state) == "watch 7");
}

TEST_CASE("with streams: initial events have no order, so their versions mean nothing", "[kube]") {
  ListWatch state(/*use_watch_list=*/true, /*page_limit=*/2);
  CHECK(Said(state) == "stream newest");
  state.OnEvent("9");
  CHECK(state.in_initial_events());
  state.OnSynced("5");
  CHECK_FALSE(state.in_initial_events());
  state.OnEvent("6");
  CHECK(state.OnWatchEnd({}) == RestartReason::kClosed);
  CHECK(Said(state) == "watch 6");
}

TEST_CASE("a watch that ends after its time goes on at once", "[kube]") {
  ListWatch state = Watching();
  CHECK(state.OnWatchEnd({}) == RestartReason::kClosed);
  CHECK(Said(state) == "watch 5");
  state.OnEvent("6");
  CHECK(state.OnWatchEnd({.brief = true}) == RestartReason::kClosed);  // it had an event
  CHECK(Said(state) == "watch 6");
  CHECK(state.OnWatchEnd({.brief = true}) == RestartReason::kShortWatch);
  CHECK(Said(state) == "list 6 later");
}

TEST_CASE("a server that cannot be reached is not asked for a list when it is back", "[kube]") {
  ListWatch state = Watching();
  for (int i = 0; i < 20; ++i) {
    CHECK(Failed(state, RestartReason::kConnection) == RestartReason::kConnection);
    CHECK(Said(state) == "watch 5 later");
  }
  CHECK(Failed(state, RestartReason::kSilent) == RestartReason::kSilent);
  CHECK(Said(state) == "watch 5 later");
  CHECK(Failed(state, RestartReason::kMalformed) == RestartReason::kMalformed);
  CHECK(Said(state) == "list 5 later");
}

TEST_CASE("an expired version: a list that is at least as new, then the newest", "[kube]") {
  ListWatch state = Watching();
  CHECK(Refused(state, Status(410, "Expired")) == RestartReason::kExpired);
  CHECK(Said(state) == "list 5 later");  // in one piece: in pages it would be read from etcd
  const ApiStatus expired = Status(410, "Expired");
  state.OnListFailed(&expired, /*continued=*/false);
  CHECK(Said(state) == "list newest pages of 2");
  CHECK(state.Next().list_kind() == ListKind::kConsistent);
  state.OnListFailed(&expired, /*continued=*/true);  // slower than compaction
  CHECK(Said(state) == "list newest");
  state.OnListFailed(&expired, /*continued=*/false);
  CHECK(Said(state) == "list newest pages of 2 later");  // from the beginning
  state.OnSynced("8");
  CHECK(Said(state) == "watch 8");
}

TEST_CASE("a version that the server does not have yet is given up at once", "[kube]") {
  ListWatch state = Watching();
  CHECK(Refused(state, TooLargeVersion()) == RestartReason::kExpired);
  CHECK(Said(state) == "list newest pages of 2 later");
}

TEST_CASE("throttled: the same watch, not before the server says", "[kube]") {
  ListWatch state = Watching();
  ApiStatus status = Status(429);
  status.retry_after = Duration(7'000);
  CHECK(Refused(state, status) == RestartReason::kThrottled);
  CHECK(Said(state) == "watch 5 later");
  CHECK(state.TakeRetryAfter() == Duration(7'000));
  CHECK(state.TakeRetryAfter() == Duration(0));
}

TEST_CASE("server errors: the same watch four times, then a list", "[kube]") {
  ListWatch state = Watching();
  for (int i = 0; i < 4; ++i) {
    CHECK(Refused(state, Status(500)) == RestartReason::kServerError);
    CHECK(Said(state) == "watch 5 later");
  }
  SECTION("in a row") {
    Refused(state, Status(500));
    CHECK(Said(state) == "list 5 later");
  }
  SECTION("an event in between begins the count again") {
    state.OnEvent("6");
    for (int i = 0; i < 4; ++i) Refused(state, Status(500));
    CHECK(Said(state) == "watch 6 later");
  }
}

TEST_CASE("a stream that does not end its initial events is followed by no watch", "[kube]") {
  ListWatch state(/*use_watch_list=*/true, /*page_limit=*/2);
  state.OnEvent("3");
  SECTION("the connection broke") {
    Failed(state, RestartReason::kConnection);
    CHECK(Said(state) == "stream newest later");
  }
  SECTION("the server ended it: it ignores sendInitialEvents") {
    CHECK(state.OnWatchEnd({}) == RestartReason::kClosed);
    CHECK(Said(state) == "list 0 pages of 2");
  }
  SECTION("the server says that it cannot, which is remembered") {
    CHECK(Refused(state, Status(422, "Invalid")) == RestartReason::kWatchListUnsupported);
    CHECK(Said(state) == "list 0 pages of 2");
    state.OnListFailed(nullptr, /*continued=*/false);
    CHECK(Said(state) == "list 0 pages of 2 later");
  }
  SECTION("access is denied: maybe only to watch") {
    CHECK(Refused(state, Status(403)) == RestartReason::kRefused);
    CHECK(Said(state) == "list 0 pages of 2");
  }
  SECTION("its version has expired") {
    state.OnSynced("5");
    Failed(state, RestartReason::kMalformed);
    CHECK(Said(state) == "stream 5 later");
    Refused(state, Status(410));
    CHECK(Said(state) == "stream newest later");
  }
}

TEST_CASE("a watch that is refused is followed by a list", "[kube]") {
  ListWatch state = Watching();
  CHECK(Refused(state, Status(403)) == RestartReason::kRefused);
  CHECK(Said(state) == "list 5 later");
  const ApiStatus refused = Status(403);
  state.OnListFailed(&refused, /*continued=*/false);
  CHECK(Said(state) == "list 5 later");
}

}  // namespace
}  // namespace berth::kube
