#include "server/leader_label.h"

#include <nlohmann/json.hpp>

#include "tests/support/builders.h"
#include "tests/support/catch.h"

namespace berth::server {
namespace {

using nlohmann::json;
using testing::MakePod;
using testing::PodBuilder;

PodBuilder Berth(const std::string& name) { return MakePod(name).Ns("sys"); }
PodBuilder Labelled(const std::string& name) { return Berth(name).Label(kLeaderLabel, "true"); }

/// `name` or `name+` (to be labelled) of every pod that is not as it should be.
std::string Wrong(const LeaderLabel& label, bool leading) {
  std::string text;
  for (const auto& patch : label.Wrong(leading)) {
    text += (text.empty() ? "" : " ") + patch.pod.name + (patch.set ? "+" : "");
  }
  return text;
}

TEST_CASE("a leader carries the label alone, a follower does not", "[leader_label]") {
  LeaderLabel label("sys", "b");
  label.See(Berth("a"));
  label.See(Berth("b"));
  CHECK(Wrong(label, true) == "b+");
  CHECK(Wrong(label, false).empty());
  label.See(Labelled("z"));
  label.See(Labelled("a"));
  CHECK(Wrong(label, true) == "z a b+");  // never two at once, if it can be helped
  label.See(Berth("z"));
  label.See(Labelled("a"));  // an ex-leader that cannot take it off
  label.See(Labelled("b"));
  label.See(Labelled("c").Ns("elsewhere"));
  CHECK(Wrong(label, true) == "a");
  CHECK(Wrong(label, false) == "b");  // others are the leader's to mind
  label.See(Labelled("a").Label(kLeaderLabel, "false"));
  CHECK(Wrong(label, true).empty());
  label.See(Berth("b"));  // somebody took it off
  CHECK(Wrong(label, true) == "b+");
}

TEST_CASE("that another pod's label goes says that the Lease may be free", "[leader_label]") {
  LeaderLabel label("sys", "b");
  CHECK_FALSE(label.See(Berth("a")));
  CHECK_FALSE(label.See(Labelled("a")));
  CHECK_FALSE(label.See(Labelled("a")));
  CHECK(label.See(Berth("a")));
  CHECK_FALSE(label.See(Berth("a")));
  label.See(Labelled("c"));
  CHECK(label.SeeDeleted("uid-c"));
  CHECK_FALSE(label.SeeDeleted("uid-c"));
  label.See(Labelled("b"));  // our own says nothing
  CHECK_FALSE(label.See(Berth("b")));
  CHECK_FALSE(label.SeeDeleted("uid-b"));
}

TEST_CASE("taking over puts label and word on in one write, and the word is seen",
          "[leader_label]") {
  LeaderLabel label("sys", "b");
  const auto call = label.TakeOver("b_1.2");
  CHECK(call.method == "PATCH");
  CHECK(call.path == "/api/v1/namespaces/sys/pods/b");
  CHECK(call.content_type == "application/merge-patch+json");
  CHECK(json::parse(call.body) == json::parse(R"({"metadata":{"labels":{"berth.dev/leader":"true"},
    "annotations":{"berth.dev/leading":"b_1.2"}}})"));
  CHECK_FALSE(label.Shows("b_1.2"));
  label.See(Labelled("a").Annotation(kLeadingAnnotation, "b_1.2"));
  label.See(Labelled("b").Annotation(kLeadingAnnotation, "b_1.1"));
  CHECK_FALSE(label.Shows("b_1.2"));
  label.See(Labelled("b").Annotation(kLeadingAnnotation, "b_1.2"));
  CHECK(label.Shows("b_1.2"));
  CHECK_FALSE(LeaderLabel("sys", "c").Shows(""));
}

TEST_CASE("a label is put on and taken off that very pod", "[leader_label]") {
  const kube::PodRef pod{.ns = "sys", .name = "a", .uid = "u"};
  CHECK(json::parse(LeaderLabel::Call({.pod = pod, .set = true}).body) ==
        json::parse(R"({"metadata":{"uid":"u","labels":{"berth.dev/leader":"true"}}})"));
  CHECK(json::parse(LeaderLabel::Call({.pod = pod, .set = false}).body) ==
        json::parse(R"({"metadata":{"uid":"u","labels":{"berth.dev/leader":null}}})"));
}

TEST_CASE("outside of a pod there is nothing to label", "[leader_label]") {
  CHECK_FALSE(LeaderLabel("", "").enabled());
  CHECK_FALSE(LeaderLabel("sys", "").enabled());
  CHECK(LeaderLabel("sys", "b").enabled());
}

}  // namespace
}  // namespace berth::server
