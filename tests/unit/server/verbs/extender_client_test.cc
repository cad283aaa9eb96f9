// kube-scheduler's side of the protocol, against what the real one sent and got.
#include "server/verbs/extender_client.h"

#include <nlohmann/json.hpp>

#include "server/verbs/wire.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"

namespace berth::server {
namespace {

using nlohmann::json;

std::string Golden(const std::string& name) {
  return testing::ReadSource("tests/golden/wire/" + name);
}

TEST_CASE("requests are kube-scheduler's own", "[wire]") {
  const json filter = json::parse(Golden("filter_request.json"));
  const std::string pod = filter["Pod"].dump();
  CHECK(json::parse(EncodeExtenderArgs(pod, filter["NodeNames"].get<std::vector<std::string>>())) ==
        filter);
  CHECK(json::parse(EncodeBindArgs({.pod_name = "mypodname",
                                    .pod_namespace = "mypodnamespace",
                                    .pod_uid = "mypoduid",
                                    .node = "mynode"})) ==
        json::parse(Golden("bind_request.json")));
  CHECK(json::parse(EncodePreemptionArgs(
            pod, {{"foo", {.pod_uids = {"myuid"}, .num_pdb_violations = 1}}})) ==
        json::parse(Golden("preempt_request.json")));
}

TEST_CASE("filter answers are read", "[wire]") {
  const std::vector<std::string> offered{"node1", "node2", "node3"};
  const auto kept = DecodeFilterResult(Golden("filter_reply.json"), offered);
  REQUIRE(kept.has_value());
  CHECK(kept->kept == std::vector<std::string>{"node2"});
  CHECK(kept->refused == std::map<std::string, std::string>{{"node1", "berth: WaitingForQuota"},
                                                            {"node3", "berth: WaitingForQuota"}});
  const auto failed = DecodeFilterResult(Golden("filter_reply_failed.json"), offered);
  REQUIRE(failed.has_value());
  CHECK(failed->kept.empty());
  CHECK(failed->refused.size() == 3);
}

TEST_CASE("an answer that kube-scheduler fails on is an error", "[wire]") {
  const std::vector<std::string> other{"node1", "node3"};
  CHECK(DecodeFilterResult(Golden("filter_reply_error.json"), other).error() == "myerror");
  CHECK(DecodeFilterResult(Golden("filter_reply.json"), other).error() ==
        "filter named a node that was not offered: node2");
  for (const char* body :
       {"", "null", "[]", "{", R"({"NodeNames":[1]})", R"({"FailedNodes":[]})"}) {
    INFO(body);
    const auto answer = DecodeFilterResult(body, other);
    const bool usable = answer.has_value() && answer->kept.size() + answer->refused.size() > 0;
    CHECK_FALSE(usable);
    CHECK_FALSE(DecodePreemptionResult(body).has_value());
    CHECK_FALSE(DecodeBindResult(body).empty());
  }
  CHECK_FALSE(DecodePriorities(R"({"Host":"a"})").has_value());
  CHECK(
      DecodePreemptionResult(R"({"NodeNameToMetaVictims":{"n":{"Pods":[],"NumPDBViolations":0}}})")
          .error() == "no victims on n");
}

TEST_CASE("scores, binds and victims are read", "[wire]") {
  const std::vector<std::pair<std::string, std::int64_t>> scores{{"myhost", 1}, {"other", 10}};
  CHECK(DecodePriorities(Golden("prioritize_reply.json")) == scores);
  CHECK(DecodeBindResult(Golden("bind_reply.json")) == "");
  CHECK(DecodeBindResult(Golden("bind_reply_error.json")) == "myerror");
  const auto victims = DecodePreemptionResult(Golden("preempt_reply.json"));
  REQUIRE(victims.has_value());
  CHECK(victims->at("foo").pod_uids == std::vector<std::string>{"myuid"});
  CHECK(victims->at("foo").num_pdb_violations == 1);
}

}  // namespace
}  // namespace berth::server
