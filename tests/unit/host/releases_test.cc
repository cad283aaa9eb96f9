#include "host/releases.h"

#include <catch2/catch.hpp>

#include "tests/support/builders.h"
#include "tests/unit/host/order_text.h"

namespace berth::host {
namespace {

using kube::WriteOutcome;
using testing::MakePod;

struct ReleasesTest {
  void Begin(const std::string& node, bool remove_gate = true) {
    releases.Begin({.pod = {.ns = "default", .name = "a", .uid = "uid-a"},
                    .node = node,
                    .annotation = "plan",
                    .remove_gate = remove_gate});
  }
  void TakeBack() {
    releases.Begin({.pod = {.ns = "default", .name = "a", .uid = "uid-a"}, .withdraw = true});
  }
  /// Delivers the pod as our watch would.
  void Shows(const kube::Pod& pod) { store.UpsertPod(pod); }
  /// The orders since the last call. Finish refers to the last of them.
  Texts Orders() {
    const auto orders = out.Take();
    if (!orders.empty()) last = IdOf(orders.back());
    return TextsOf(orders);
  }
  bool Finish(WriteOutcome outcome, std::string message = {}) {
    return releases.Finished(last, {.outcome = outcome, .message = std::move(message)}, store, now);
  }
  void Pass(Duration time) {
    now += time;
    releases.Advance(now);
  }

  TimePoint now = 1'000;
  cluster::Store store{testing::MakePolicy()};
  Outbox out;
  Releases releases{out};
  Id last = 0;
};

TEST_CASE_METHOD(ReleasesTest, "a gate is removed when our watch shows the nomination", "[unit]") {
  Shows(MakePod("a").Gpu(1).Gated());
  Begin("n1");
  CHECK(Orders() == Texts{"nominate a n1"});
  CHECK(Finish(WriteOutcome::kDone));
  releases.Observe(store);
  CHECK(Orders().empty());
  CHECK(releases.due() == 1'020);
  SECTION("it does") {
    Shows(MakePod("a").Gpu(1).Gated().Nominated("n1"));
    releases.Observe(store);
    CHECK(Orders() == Texts{"ungate a"});
  }
  SECTION("the pod is gone") {
    store.DeletePod("uid-a");
    releases.Observe(store);
    CHECK(Orders() == Texts{"ungate a"});
  }
  SECTION("another node is not it, and it is not waited for long") {
    Shows(MakePod("a").Gpu(1).Gated().Nominated("n2"));
    releases.Observe(store);
    Pass(19);
    CHECK(Orders().empty());
    Pass(1);
    CHECK(Orders() == Texts{"ungate a"});
  }
  CHECK_FALSE(releases.due());
  CHECK(Finish(WriteOutcome::kDone));
  CHECK(releases.empty());
  CHECK(Orders().empty());
}

TEST_CASE_METHOD(ReleasesTest, "what the watch shows already is not waited for", "[unit]") {
  Shows(MakePod("a").Gpu(1).Gated().Nominated("n1"));
  Begin("n1");
  Orders();
  Finish(WriteOutcome::kDone);
  CHECK(Orders() == Texts{"ungate a"});
}

TEST_CASE_METHOD(ReleasesTest, "each kind of release takes its own steps", "[unit]") {
  SECTION("no gate") {
    Begin("n1", /*remove_gate=*/false);
    CHECK(Orders() == Texts{"nominate a n1"});
  }
  SECTION("no node: passthrough") {
    Begin("");
    CHECK(Orders() == Texts{"ungate a"});
  }
  SECTION("a nomination is taken back") {
    TakeBack();
    CHECK(Orders() == Texts{"nominate a "});
  }
  CHECK(Finish(WriteOutcome::kDone));
  CHECK(Orders().empty());
  CHECK(releases.empty());
}

TEST_CASE_METHOD(ReleasesTest, "what has failed is tried again, later each time", "[unit]") {
  Begin("n1");
  for (const Duration delay : {500, 1'000, 2'000, 4'000}) {
    CHECK(Orders() == Texts{"nominate a n1"});
    CHECK(
        Finish(GENERATE(WriteOutcome::kRefused, WriteOutcome::kUnknown, WriteOutcome::kConflict)));
    CHECK(releases.due() == now + delay);
    Pass(delay - 1);
    CHECK(Orders().empty());
    Pass(1);
  }
  CHECK(Orders() == Texts{"nominate a n1"});
  Finish(WriteOutcome::kRefused);
  CHECK(releases.empty());  // the plan expires
}

// An admission webhook that restarts refuses them for a while.
TEST_CASE_METHOD(ReleasesTest, "what no plan orders again is tried until it is done",
                 "[unit][bug]") {
  std::string order;
  SECTION("a gate alone") {
    Begin("");
    order = "ungate a";
  }
  SECTION("a nomination that is taken back") {
    TakeBack();
    order = "nominate a ";
  }
  for (int i = 0; i < 20; ++i) {
    CHECK(Orders() == Texts{order});
    Finish(WriteOutcome::kRefused);
    Pass(30'000);
  }
  CHECK(Orders() == Texts{order});
  Finish(WriteOutcome::kDone);
  CHECK(releases.empty());
}

TEST_CASE_METHOD(ReleasesTest, "what was not tried costs no try, however often", "[unit]") {
  Begin("n1");
  for (int i = 0; i < 20; ++i) {
    CHECK(Orders() == Texts{"nominate a n1"});
    releases.Finished(last, {.outcome = WriteOutcome::kRefused, .tried = false}, store, now);
    CHECK(releases.due() == now + 500);
    Pass(500);
  }
  CHECK(Orders() == Texts{"nominate a n1"});
}

TEST_CASE_METHOD(ReleasesTest, "a gate that could not be removed costs a new nomination",
                 "[unit]") {
  Shows(MakePod("a").Gpu(1).Gated().Nominated("n1"));
  Begin("n1");
  Orders();
  Finish(WriteOutcome::kDone);
  CHECK(Orders() == Texts{"ungate a"});
  Finish(WriteOutcome::kUnknown);
  Pass(500);
  CHECK(Orders() == Texts{"nominate a n1"});
}

TEST_CASE_METHOD(ReleasesTest, "of a pod that is gone or bound nothing is left to do", "[unit]") {
  Begin("n1");
  Orders();
  SECTION("gone") { Finish(WriteOutcome::kNotFound); }
  SECTION("bound") { Finish(WriteOutcome::kRefused, "pod uid-a is already bound to n3"); }
  CHECK(releases.empty());
}

TEST_CASE_METHOD(ReleasesTest, "a newer release replaces an older one", "[unit]") {
  Begin("n1");
  CHECK(Orders() == Texts{"nominate a n1"});
  const Id first = last;
  SECTION("when its write has ended, whatever came of it: one write to a pod at a time") {
    Begin("n2");
    Begin("n3");
    CHECK(Orders().empty());
    CHECK(releases.Wants(first));
    Finish(GENERATE(WriteOutcome::kDone, WriteOutcome::kUnknown, WriteOutcome::kNotFound));
    CHECK(Orders() == Texts{"nominate a n3"});
  }
  SECTION("at once while it waits to be tried again") {
    Finish(WriteOutcome::kRefused);
    Begin("n2");
    CHECK(Orders() == Texts{"nominate a n2"});
    CHECK_FALSE(releases.due());
  }
  SECTION("at once while it waits for our watch") {
    Shows(MakePod("a").Gpu(1).Gated());
    Finish(WriteOutcome::kDone);
    TakeBack();
    CHECK(Orders() == Texts{"nominate a "});
    Shows(MakePod("a").Gpu(1).Gated().Nominated("n1"));
    releases.Observe(store);
    CHECK(Orders().empty());
  }
  CHECK_FALSE(releases.Wants(first));
}

TEST_CASE_METHOD(ReleasesTest, "what is forgotten is not wanted, and its outcome means nothing",
                 "[unit]") {
  Begin("n1");
  Orders();
  releases.Clear();
  CHECK_FALSE(releases.Wants(last));
  CHECK_FALSE(Finish(WriteOutcome::kDone));
  CHECK(Orders().empty());
  CHECK(releases.empty());
}

}  // namespace
}  // namespace berth::host
