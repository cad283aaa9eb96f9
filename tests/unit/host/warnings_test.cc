#include "host/warnings.h"

#include <catch2/catch.hpp>

#include "tests/unit/host/order_text.h"

namespace berth::host {
namespace {

using kube::WriteOutcome;

struct WarningsTest {
  void Tell(const std::string& time) {
    warnings.Begin({.pod = {.ns = "default", .name = "v", .uid = "uid-v"}, .time = time});
  }
  Texts Orders() {
    const auto orders = out.Take();
    if (!orders.empty()) last = IdOf(orders.back());
    return TextsOf(orders);
  }
  void Finish(WriteOutcome outcome) {
    REQUIRE(warnings.Has(last));
    warnings.Finished(last, {.outcome = outcome}, now);
  }
  void Pass(Duration time) {
    now += time;
    warnings.Advance(now);
  }

  TimePoint now = 1'000;
  Outbox out;
  Warnings warnings{out};
  Id last = 0;
};

TEST_CASE_METHOD(WarningsTest, "a pod is told when it is to be evicted, and that it is not",
                 "[unit]") {
  Tell("12:00");
  CHECK(Orders() == Texts{"mark v 12:00"});
  Finish(GENERATE(WriteOutcome::kDone, WriteOutcome::kNotFound));
  CHECK(warnings.empty());
  Tell("");
  CHECK(Orders() == Texts{"mark v "});
  Finish(WriteOutcome::kDone);
  CHECK(warnings.empty());
}

// An admission webhook that restarts refuses it for a while.
TEST_CASE_METHOD(WarningsTest, "what has failed is tried until it is done, later each time",
                 "[unit][bug]") {
  Tell("12:00");
  for (const Duration delay : {500, 1'000, 2'000, 4'000, 8'000, 16'000, 30'000, 30'000}) {
    CHECK(Orders() == Texts{"mark v 12:00"});
    Finish(GENERATE(WriteOutcome::kRefused, WriteOutcome::kUnknown));
    CHECK(warnings.due() == now + delay);
    Pass(delay - 1);
    CHECK(Orders().empty());
    Pass(1);
  }
  CHECK(Orders() == Texts{"mark v 12:00"});
  Finish(WriteOutcome::kDone);
  CHECK(warnings.empty());
  CHECK_FALSE(warnings.due());
}

TEST_CASE_METHOD(WarningsTest, "newer news replaces older", "[unit]") {
  Tell("12:00");
  CHECK(Orders() == Texts{"mark v 12:00"});
  SECTION("while it is written: one write at a time") {
    Tell("13:00");
    Tell("");
    CHECK(Orders().empty());
    Finish(GENERATE(WriteOutcome::kDone, WriteOutcome::kRefused));
  }
  SECTION("while it waits to be tried again") {
    Finish(WriteOutcome::kRefused);
    Tell("");
    CHECK_FALSE(warnings.due());
  }
  CHECK(Orders() == Texts{"mark v "});
  Finish(WriteOutcome::kDone);
  CHECK(warnings.empty());
}

TEST_CASE_METHOD(WarningsTest, "what is forgotten is not wanted", "[unit]") {
  Tell("12:00");
  Orders();
  Finish(WriteOutcome::kRefused);
  Pass(500);
  Orders();
  warnings.Clear();
  CHECK_FALSE(warnings.Has(last));
  CHECK(warnings.empty());
  CHECK_FALSE(warnings.due());
}

}  // namespace
}  // namespace berth::host
