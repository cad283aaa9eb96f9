// Reasons: one closed list, constant texts, sentences with numbers.
#include "cluster/reason.h"

#include <fmt/format.h>

#include <set>
#include <string>
#include <vector>

#include "cluster/resources.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"

namespace berth::cluster {
namespace {

TEST_CASE("every reason has its own token, and a text that says it", "[unit][cluster]") {
  // CONTRACT, "Why pending", in its order.
  const std::vector<std::string> contract = {"WaitingForMembers",
                                             "Starting",
                                             "NeverFits",
                                             "ExceedsLimit",
                                             "WaitingForQuota",
                                             "InsufficientDevices",
                                             "InsufficientCpuOrMemory",
                                             "NoMatchingNodes",
                                             "Fragmented",
                                             "TopologyUnsatisfied",
                                             "SearchExhausted",
                                             "BehindReservation",
                                             "WaitingForVictims",
                                             "RefusedByScheduler",
                                             "CoolingDown",
                                             "Recovering",
                                             "Suspended",
                                             "QueueHeld",
                                             "UnknownQueue",
                                             "QueueNotAllowed",
                                             "GangConflict",
                                             "InvalidRequest",
                                             "NodesNotOffered",
                                             "NotReady"};
  REQUIRE(contract.size() + 1 == static_cast<std::size_t>(kReasonCount));
  std::set<std::string> texts;
  for (std::size_t i = 0; i < contract.size(); ++i) {
    const auto reason = static_cast<ReasonId>(i + 1);
    CHECK(Token(reason) == contract[i]);
    const std::string text(RefusalText(reason));
    CHECK(text.starts_with("berth: " + contract[i]));
    CHECK(text.find_first_of("0123456789") == std::string::npos);  // constant: no counts
    CHECK(texts.insert(text).second);
  }
  CHECK(Token(ReasonId::kNone).empty());
}

TEST_CASE("a cap of jobs is told with the user and the numbers", "[unit][cluster]") {
  const auto sentence = [](int want, int have) {
    return Sentence(
        {.reason = ReasonId::kWaitingForQuota, .want = want, .have = have, .user = "ann"});
  };
  CHECK(sentence(2, 2) == "User ann may have 2 jobs at once in its queue; 2 hold devices now.");
  CHECK(sentence(1, 3) == "User ann may have 1 job at once in its queue; 3 hold devices now.");
  CHECK(sentence(1, 1) == "User ann may have 1 job at once in its queue; 1 holds devices now.");
}

TEST_CASE("docs/reasons.md says of every reason what to do", "[unit][cluster]") {
  const std::string docs = testing::ReadSource("docs/reasons.md");
  const std::string table = docs.substr(0, docs.find("Reserved, and not said"));
  const std::string reserved = docs.substr(table.size(), docs.find("## Events") - table.size());
  for (int i = 1; i < kReasonCount; ++i) {
    const std::string token = fmt::format("`{}`", Token(static_cast<ReasonId>(i)));
    INFO(token);
    CHECK((table.find("\n| " + token + " |") != std::string::npos) !=
          (reserved.find(token) != std::string::npos));
  }
}

TEST_CASE("sentences", "[unit][cluster]") {
  const auto gpu = "nvidia.com/gpu";
  using enum ReasonId;
  const std::vector<std::pair<Verdict, std::string>> rows = {
      {{kNone}, ""},
      {{kWaitingForMembers, 4, 2}, "The gang starts with 4 members; 2 exist that can be placed."},
      {{kInsufficientDevices, 32'000, 12'000, gpu},
       "It needs 32 of nvidia.com/gpu; 12 are free on matching nodes."},
      {{kFragmented, 4, 3},
       "4 members need room at once; the free devices are spread so that only 3 fit."},
      {{kTopologyUnsatisfied, 4, 3, "rack"},
       "4 members must share one rack; the best one has room for 3."},
      {{.reason = kTopologyUnsatisfied, .want = 4, .have = 3, .subject = "rack", .never = true},
       "4 members must share one rack; if all were empty, the best one would have room for 3."},
      {{kInsufficientCpuOrMemory, 2, 1},
       "2 members have free devices, but CPU, memory or pod slots allow only 1."},
      {{kNoMatchingNodes, 2}, "No node matches its selectors and tolerations."},
      {{kNoMatchingNodes, 1, 0, "g-3"}, "No node matches the selectors and tolerations of g-3."},
      {{kNeverFits, 9, 8}, "9 members must run at once; the empty cluster has room for 8."},
      {{kNeverFits, 1, 0, "It asks for 9 of cpu."}, "It asks for 9 of cpu."},
      {{kFragmented, 4, 3, "host port 80/TCP"},
       "4 members need host port 80/TCP, each on a node of its own; that is free on 3 of the nodes "
       "with room."},
      {{kFragmented, 1, 0},
       "1 member needs room at once; the free devices are spread so that only 0 fit."},
      {{kWaitingForQuota, 8'000, 4'000, gpu},
       "It needs 8 of nvidia.com/gpu; its queue has 4 left."},
      {{kExceedsLimit, 16'000, 8'000, gpu},
       "It needs 16 of nvidia.com/gpu; its queue may use 8 at most."},
      {{kUnknownQueue, 0, 0, "nope"}, "The policy has no queue \"nope\"."},
      {{kStarting, 4, 1}, "Placed and released: 1 of 4 members have arrived."},
      {{.reason = kQueueHeld, .subject = "a"}, "Queue a is held: nothing new starts in it."},
      {{kSuspended}, "Suspended."},
      {{kGangConflict, 0, 0, "The first member says 3."}, "The first member says 3."},
  };
  for (const auto& [verdict, sentence] : rows) CHECK(Sentence(verdict) == sentence);
}

TEST_CASE("a sentence for every reason", "[unit][cluster]") {
  for (int i = 1; i < kReasonCount; ++i) {
    const std::string text = Sentence({.reason = static_cast<ReasonId>(i), .want = 2, .have = 1});
    INFO(Token(static_cast<ReasonId>(i)));
    CHECK(text.ends_with('.'));
    CHECK(text.find("berth:") == std::string::npos);
  }
}

TEST_CASE("resource names keep their ids", "[unit][cluster]") {
  ResourceTable table;
  CHECK(table.Intern("cpu") == kCpu);
  CHECK(table.Intern("memory") == kMemory);
  CHECK(table.Intern("pods") == kPods);
  const ResourceId gpu = table.Intern("nvidia.com/gpu");
  CHECK(table.Intern("nvidia.com/gpu") == gpu);
  CHECK(table.Name(gpu) == "nvidia.com/gpu");
}

// Users choose resource names: pods that ask for 65,536 different ones must not alias `cpu`.
TEST_CASE("no resource name is ever taken for another", "[unit][cluster][bug]") {
  ResourceTable table;
  for (int i = 0; i < 65'600; ++i) {
    const std::string name = "x.io/" + std::to_string(i);
    const ResourceId id = table.Intern(name);
    if (id <= kPods) FAIL(name << " became " << table.Name(id));
  }
}

TEST_CASE("amounts of any length compare by value", "[unit][cluster]") {
  Amounts a;
  Amounts b;
  CHECK(a == b);
  a.Add(7, 5);
  CHECK_FALSE(a == b);
  a.Add(7, -5);
  CHECK(a == b);
  CHECK(b[1000] == 0);
}

}  // namespace
}  // namespace berth::cluster
