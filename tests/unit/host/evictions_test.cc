#include "host/evictions.h"

#include <catch2/catch.hpp>

#include "tests/unit/host/order_text.h"

namespace berth::host {
namespace {

using kube::WriteOutcome;

struct EvictionsTest {
  void Begin(bool dry_run) {
    evictions.Begin({.pod = {.ns = "default", .name = "v", .uid = "uid-v"},
                     .workload = "default/gang/g",
                     .id = "p1",
                     .dry_run = dry_run});
  }
  Texts Orders() {
    const auto orders = out.Take();
    if (!orders.empty()) last = IdOf(orders.back());
    return TextsOf(orders);
  }

  Outbox out;
  Evictions evictions{out};
  Id last = 0;
};

TEST_CASE_METHOD(EvictionsTest, "a victim is marked before it is evicted", "[unit]") {
  Begin(/*dry_run=*/false);
  CHECK(Orders() == Texts{"mark v default/gang/g"});
  CHECK_FALSE(evictions.Finished(last, {.outcome = WriteOutcome::kDone}));
  CHECK(Orders() == Texts{"evict v"});
  const auto answer = evictions.Finished(last, {.outcome = WriteOutcome::kDone});
  REQUIRE(answer);
  CHECK(answer->accepted);
  CHECK(evictions.empty());
}

TEST_CASE_METHOD(EvictionsTest, "a victim that is deleted is told so by a condition", "[unit]") {
  evictions.Begin({.pod = {.ns = "default", .name = "v", .uid = "uid-v"},
                   .workload = "default/gang/g",
                   .by_delete = true});
  CHECK(Orders() == Texts{"mark v default/gang/g with a condition"});
  CHECK_FALSE(evictions.Finished(last, {.outcome = WriteOutcome::kDone}));
  CHECK(Orders() == Texts{"delete v"});
}

TEST_CASE_METHOD(EvictionsTest, "a dry run writes nothing else", "[unit]") {
  Begin(/*dry_run=*/true);
  CHECK(Orders() == Texts{"try v"});
  const auto outcome = GENERATE(WriteOutcome::kDone, WriteOutcome::kRefused,
                                WriteOutcome::kNotFound, WriteOutcome::kConflict);
  const auto answer = evictions.Finished(last, {.outcome = outcome});
  REQUIRE(answer);
  CHECK(answer->what.dry_run);
  CHECK(answer->accepted == (outcome != WriteOutcome::kRefused));
}

TEST_CASE_METHOD(EvictionsTest, "only an object that certainly does not exist is missing",
                 "[unit]") {
  const engine::FindNeeded question{
      .workload = "default/gang/g", .id = "p1", .ns = "default", .object = {.name = "data"}};
  const std::string key = "persistentvolumeclaims/data";
  evictions.Begin(question);
  CHECK(Orders() == Texts{"find " + key});
  SECTION("the API server answers") {
    const auto outcome = GENERATE(WriteOutcome::kDone, WriteOutcome::kNotFound,
                                  WriteOutcome::kRefused, WriteOutcome::kConflict);
    const auto answer = evictions.Finished(last, {.outcome = outcome});
    REQUIRE(answer);
    CHECK(answer->what.pod.uid == key);
    CHECK(answer->what.dry_run);
    CHECK(answer->accepted == (outcome != WriteOutcome::kNotFound));
  }
  SECTION("it does not") {
    for (int tries = 1; tries < 3; ++tries) {
      CHECK_FALSE(evictions.Finished(last, {.outcome = WriteOutcome::kUnknown}));
      CHECK(Orders() == Texts{"find " + key});
    }
    CHECK(evictions.Finished(last, {.outcome = WriteOutcome::kUnknown})->accepted);
  }
  CHECK(evictions.empty());
}

TEST_CASE_METHOD(EvictionsTest, "a write whose outcome is not known is done again", "[unit][bug]") {
  const Result unknown{.outcome = WriteOutcome::kUnknown};
  // The answer after three tries of the same write.
  const auto give_up = [&](const std::string& order) {
    for (int tries = 1; tries < 3; ++tries) {
      CHECK(Orders() == Texts{order});
      CHECK_FALSE(evictions.Finished(last, unknown));
    }
    CHECK(Orders() == Texts{order});
    return evictions.Finished(last, unknown);
  };
  SECTION("a dry run; it is refused in the end") {
    Begin(/*dry_run=*/true);
    CHECK_FALSE(give_up("try v")->accepted);
  }
  SECTION("the mark; the pod is not evicted in the end") {
    Begin(/*dry_run=*/false);
    CHECK_FALSE(give_up("mark v default/gang/g")->accepted);
  }
  SECTION("the eviction; the watch will show in the end whether it was done") {
    Begin(/*dry_run=*/false);
    Orders();
    CHECK_FALSE(evictions.Finished(last, {.outcome = WriteOutcome::kDone}));
    CHECK(give_up("evict v")->accepted);
  }
  SECTION("the eviction; it was done, and what is sent again is refused") {
    Begin(/*dry_run=*/false);
    Orders();
    CHECK_FALSE(evictions.Finished(last, {.outcome = WriteOutcome::kDone}));
    Orders();
    CHECK_FALSE(evictions.Finished(last, unknown));
    Orders();
    CHECK(evictions.Finished(last, {.outcome = WriteOutcome::kRefused})->accepted);
  }
  CHECK(evictions.empty());
}

TEST_CASE_METHOD(EvictionsTest, "a pod that cannot be marked is not evicted", "[unit]") {
  Begin(/*dry_run=*/false);
  Orders();
  const auto answer = evictions.Finished(last, {.outcome = WriteOutcome::kRefused});
  REQUIRE(answer);
  CHECK_FALSE(answer->accepted);
  CHECK(Orders().empty());
}

}  // namespace
}  // namespace berth::host
