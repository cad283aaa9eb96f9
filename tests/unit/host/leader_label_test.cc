#include "host/leader_label.h"

#include <nlohmann/json.hpp>

#include "tests/support/builders.h"
#include "tests/support/catch.h"

namespace berth::host {
namespace {

using nlohmann::json;
using testing::MakePod;
using testing::PodBuilder;

PodBuilder Berth(const std::string& name) { return MakePod(name).Ns("sys"); }
PodBuilder Labelled(const std::string& name) { return Berth(name).Label(kLeaderLabel, "true"); }

/// `name` or `name+` (to be labelled) of every pod whose label is wrong.
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
  CHECK(Wrong(label, true) == "z a b+");  // never label two pods at once if it can be avoided
  label.See(Berth("z"));
  label.See(Labelled("a"));  // a former leader that cannot remove its label
  label.See(Labelled("b"));
  label.See(Labelled("c").Ns("elsewhere"));
  CHECK(Wrong(label, true) == "a");
  CHECK(Wrong(label, false) == "b");  // a follower does not touch other pods' labels
  label.See(Labelled("a").Label(kLeaderLabel, "false"));
  CHECK(Wrong(label, true).empty());
  label.See(Berth("b"));  // another client has removed it
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
  label.See(Labelled("b"));  // our own label gives no information
  CHECK_FALSE(label.See(Berth("b")));
  CHECK_FALSE(label.SeeDeleted("uid-b"));
}

TEST_CASE("taking over puts label and token on in one write, and the token is seen",
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
}  // namespace berth::host
