// A replica's part in leader election, step by step. Which decision the election makes is tested in
// unit/kube/leader_election_test.cc; threads and sockets in unit/server/leadership_test.cc.
#include "host/leadership.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/builders.h"

namespace berth::host {
namespace {

using testing::MakePod;
using Texts = std::vector<std::string>;

std::string TextOf(const LeadershipOrder& order) {
  if (const auto* patch = std::get_if<PatchLabel>(&order)) {
    return (patch->set ? "label " : "unlabel ") + patch->pod.name;
  }
  static constexpr const char* kNames[] = {"ask", "patch", "begin", "extend",
                                           "end", "await", "lead",  "follow"};
  return kNames[order.index()];
}

struct LeadershipTest {
  explicit LeadershipTest(bool in_pod = true)
      : leadership({.lease_ns = "sys",
                    .election = {.identity = "me"},
                    .pod_ns = in_pod ? "sys" : "",
                    .pod_name = in_pod ? "berth-0" : ""}) {}

  /// The orders since the last call, except renewals, which succeed at once while `lease_works`.
  Texts Orders() {
    Texts texts;
    for (auto orders = leadership.TakeOrders(); !orders.empty(); orders = leadership.TakeOrders()) {
      for (const LeadershipOrder& order : orders) {
        if (const auto* ask = std::get_if<AskLease>(&order)) {
          asked = ask->request;
          if (lease_works) AnswerLease();
        } else if (!std::holds_alternative<ExtendTerm>(order)) {
          if (const auto* patch = std::get_if<PatchLabel>(&order)) last_patch = *patch;
          texts.push_back(TextOf(order));
        }
      }
    }
    return texts;
  }
  /// Answers as a server does if there are no other writers.
  void AnswerLease() {
    if (asked.kind != kube::LeaseRequest::Kind::kGet) record = asked.record;
    leadership.Answered({.kind = kube::LeaseAnswer::Kind::kLease,
                         .lease = {.record = record, .resource_version = "1"}},
                        now);
  }
  Texts Pass(kube::Duration time) {
    Texts texts;
    for (const kube::TimePoint end = now + time; now <= end; now += kube::Duration(100)) {
      leadership.Advance(now, 0, 0.0);
      for (std::string& text : Orders()) texts.push_back(std::move(text));
    }
    return texts;
  }
  /// Runs until the Lease is won.
  Texts Win() {
    record.holder = "";
    record.duration_seconds = 1;
    return Pass(kube::Duration(200));
  }
  /// Delivers the result of the last patch, as the informer would.
  void ShowLastPatch() {
    const auto metadata = nlohmann::json::parse(last_patch.request.body)["metadata"];
    auto pod = MakePod(last_patch.pod.name).Ns("sys");
    if (last_patch.set) pod.Label(kLeaderLabel, "true");
    if (metadata.contains("annotations")) {
      pod.Annotation(kLeadingAnnotation, metadata["annotations"][kLeadingAnnotation]);
    }
    leadership.See(pod, now);
  }
  void Lead() {
    Win();
    leadership.Patched(200, now);
    ShowLastPatch();
    leadership.WritesEnded(now);
    leadership.Led(now);
    Orders();
  }

  kube::TimePoint now = kube::TimePoint(std::chrono::seconds(1'000));
  Leadership leadership;
  kube::LeaseRequest asked;
  kube::LeaseRecord record;
  PatchLabel last_patch;
  bool lease_works = true;
};

TEST_CASE_METHOD(LeadershipTest, "from winning the Lease to leading, one step after the other",
                 "[unit][leadership]") {
  CHECK(Win() == Texts{"begin", "label berth-0"});
  CHECK(leadership.on_duty());
  leadership.Patched(200, now);
  CHECK(Orders().empty());  // our watch has not delivered it yet
  leadership.See(MakePod("berth-0").Ns("sys").Label(kLeaderLabel, "true"), now);
  CHECK(Orders().empty());  // nor has it delivered the token
  ShowLastPatch();
  CHECK(Orders() == Texts{"await"});
  leadership.WritesEnded(now);
  CHECK(Orders() == Texts{"lead"});
  CHECK_FALSE(leadership.leading());
  leadership.Led(now);
  CHECK(leadership.leading());
  CHECK(Pass(kube::Duration(60'000)).empty());  // it is renewed
}

TEST_CASE("who runs in no pod has nothing to announce", "[unit][leadership]") {
  LeadershipTest t(/*in_pod=*/false);
  CHECK(t.Win() == Texts{"begin", "await"});
}

TEST_CASE("who has a namespace and no pod name labels nobody, and is not due for that",
          "[unit][leadership][bug]") {
  Leadership leadership({.lease_ns = "sys", .election = {.identity = "me"}, .pod_ns = "sys"});
  const kube::TimePoint now(std::chrono::seconds(1'000));
  leadership.See(MakePod("berth-1").Ns("sys").Label(kLeaderLabel, "true"), now);
  CHECK(leadership.settle_due() > now);
}

TEST_CASE_METHOD(LeadershipTest, "an announcement that was under way counts for its own term alone",
                 "[unit][leadership][bug]") {
  CHECK(Win() == Texts{"begin", "label berth-0"});
  lease_works = false;
  CHECK(Pass(kube::Duration(11'000)) == Texts{"end", "follow"});
  leadership.Followed(now);
  lease_works = true;
  AnswerLease();
  const Texts again = Pass(kube::Duration(30'000));
  CHECK(std::ranges::count(again, "begin") == 1);
  leadership.Patched(200, now);  // of the term before
  CHECK(Pass(kube::Duration(1'100)) == Texts{"label berth-0"});
}

TEST_CASE_METHOD(LeadershipTest, "a term that ends is followed by the duties of a follower",
                 "[unit][leadership]") {
  SECTION("while it announces itself") {
    Win();
    lease_works = false;
    CHECK(Pass(kube::Duration(11'000)) == Texts{"end", "follow"});
    leadership.Patched(200, now);
    ShowLastPatch();
    leadership.WritesEnded(now);
    CHECK(Orders().empty());
  }
  SECTION("while it waits for writes") {
    Win();
    leadership.Patched(200, now);
    ShowLastPatch();
    CHECK(Orders() == Texts{"await"});
    lease_works = false;
    CHECK(Pass(kube::Duration(11'000)) == Texts{"end", "follow"});
    leadership.WritesEnded(now);
    CHECK(Orders().empty());
  }
  SECTION("while it begins to lead: when that is over") {
    Win();
    leadership.Patched(200, now);
    ShowLastPatch();
    leadership.WritesEnded(now);
    Orders();
    lease_works = false;
    CHECK(Pass(kube::Duration(11'000)) == Texts{"end"});
    leadership.Led(now);
    CHECK(Orders() == Texts{"follow"});
    CHECK_FALSE(leadership.leading());
  }
  SECTION("while it leads") {
    Lead();
    lease_works = false;
    CHECK(Pass(kube::Duration(11'000)) == Texts{"end", "follow"});
  }
  // The next term begins only after the duties of this one have ended.
  CHECK(leadership.on_duty());
  lease_works = true;
  AnswerLease();
  CHECK(Pass(kube::Duration(60'000)).empty());
  leadership.Followed(now);
  const Texts again = Pass(kube::Duration(60'000));
  CHECK(std::ranges::count(again, "begin") == 1);
}

TEST_CASE_METHOD(LeadershipTest, "a term that has lapsed is not taken up again",
                 "[unit][leadership]") {
  Lead();
  lease_works = false;
  Pass(kube::Duration(2'500));  // a renewal is under way
  SECTION("its answer comes in time") {
    AnswerLease();
    CHECK(Orders().empty());
    CHECK(leadership.leading());
  }
  SECTION("the process was frozen meanwhile") {
    now += kube::Duration(60'000);
    AnswerLease();
    CHECK(Orders() == Texts{"end", "follow"});
  }
  SECTION("the driver found the term over a moment before it could be extended") {
    AnswerLease();
    leadership.Lapsed(now);
    CHECK(Orders() == Texts{"end", "follow"});
  }
}

TEST_CASE_METHOD(LeadershipTest,
                 "a label that cannot be put on is tried for a while, and done without",
                 "[unit][leadership]") {
  CHECK(Win() == Texts{"begin", "label berth-0"});
  const int status = GENERATE(403, 404);
  int tries = 1;
  leadership.Patched(status, now);
  Texts orders;
  while (tries < 20) {
    orders = Pass(kube::Duration(1'100));
    if (orders != Texts{"label berth-0"}) break;
    ++tries;
    leadership.Patched(status, now);
  }
  CHECK(tries == 6);  // 5 s and one more: by then everything that an earlier leader sent has
                      // arrived
  CHECK(orders == Texts{"await"});
  CHECK(leadership.label_error() == "HTTP " + std::to_string(status));
}

TEST_CASE_METHOD(LeadershipTest, "a label's patch without an answer is sent again",
                 "[unit][leadership]") {
  Win();
  leadership.Patched(std::unexpected("timed out"), now);
  CHECK(Orders().empty());
  CHECK(Pass(kube::Duration(1'100)) == Texts{"label berth-0"});
  CHECK(leadership.label_error().empty());
}

TEST_CASE_METHOD(LeadershipTest, "a leader takes the label off others, one patch at a time",
                 "[unit][leadership]") {
  Lead();
  for (const char* name : {"berth-1", "berth-2"}) {
    leadership.See(MakePod(name).Ns("sys").Label(kLeaderLabel, "true"), now);
  }
  CHECK(Orders() == Texts{"unlabel berth-1"});
  leadership.Patched(200, now);
  leadership.See(MakePod("berth-1").Ns("sys"), now);
  CHECK(Pass(kube::Duration(1'100)) == Texts{"unlabel berth-2"});
  leadership.Patched(200, now);
  leadership.See(MakePod("berth-2").Ns("sys"), now);
  CHECK(Pass(kube::Duration(5'000)).empty());
  leadership.See(MakePod("berth-3").Ns("other").Label(kLeaderLabel, "true"), now);
  CHECK(Pass(kube::Duration(5'000)).empty());
}

TEST_CASE_METHOD(LeadershipTest, "who is not fit to lead neither asks for the Lease nor renews it",
                 "[unit][leadership]") {
  SECTION("before") {
    leadership.SetFit(false);
    CHECK(Win().empty());
    CHECK(asked.timeout == kube::Duration(0));  // no request was sent
    leadership.SetFit(true);
    CHECK(Pass(kube::Duration(5'000)).front() == "begin");
  }
  SECTION("as the leader") {
    Lead();
    leadership.SetFit(false);
    CHECK(Pass(kube::Duration(11'000)) == Texts{"end", "follow"});
  }
}

TEST_CASE_METHOD(LeadershipTest, "an orderly end", "[unit][leadership]") {
  Lead();
  leadership.Leave();
  CHECK(Pass(kube::Duration(5'000)).empty());  // the Lease stays ours, and no term begins
  CHECK(record.holder == "me");
  REQUIRE(leadership.LabelsLeft().size() == 1);
  CHECK(leadership.LabelsLeft().front().pod.name == "berth-0");
  leadership.Release(now);
  Pass(kube::Duration(1'000));
  CHECK(leadership.released());
  CHECK(record.holder.empty());
}

}  // namespace
}  // namespace berth::host
