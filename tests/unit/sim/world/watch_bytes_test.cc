// A watch in bytes brings what was sent, or says what it does not bring.
#include "sim/world/watch_bytes.h"

#include "tests/support/builders.h"
#include "tests/support/catch.h"

namespace berth::sim {
namespace {

using testing::MakeNode;
using testing::MakePod;

Change PodChange(kube::Pod pod) {
  std::string key = pod.meta.uid;
  pod.meta.resource_version = "7";
  return {.key = std::move(key), .pod = std::make_shared<const kube::Pod>(std::move(pod))};
}

/// What becomes of a pod on its way; empty: nothing.
std::string Fate(kube::Pod pod) {
  WatchBytes bytes(Kind::kPod);
  const auto arrived = bytes.Event(PodChange(std::move(pod)));
  return arrived ? std::string() : arrived.error();
}

TEST_CASE("an event comes as it was sent, each time as an object of its own", "[unit][sim]") {
  WatchBytes bytes(Kind::kPod);
  const Change sent = PodChange(MakePod("p").Gpu(8).Gang("g", 4).Gated().Terminating());
  const auto first = bytes.Event(sent);
  const auto again = bytes.Event(sent);
  REQUIRE(first.has_value());
  REQUIRE(again.has_value());
  CHECK(first->key == "uid-p");
  CHECK_FALSE(first->deleted);
  CHECK(first->pod->meta.labels == sent.pod->meta.labels);
  CHECK(first->pod->spec != again->pod->spec);
  CHECK(*first->pod->spec == *sent.pod->spec);
}

TEST_CASE("a deletion brings the last state", "[unit][sim]") {
  WatchBytes bytes(Kind::kPod);
  Change sent = PodChange(MakePod("p").On("n1"));
  sent.deleted = true;
  const auto arrived = bytes.Event(sent);
  REQUIRE(arrived.has_value());
  CHECK(arrived->deleted);
  CHECK(arrived->pod->node_name == "n1");
}

TEST_CASE("the policy comes as a ConfigMap, by its own decoder", "[unit][sim]") {
  WatchBytes bytes(Kind::kPolicy);
  auto policy = testing::MakePolicy({testing::MakeQueue("a", {"*"}, 8)});
  const auto change = [&policy] {
    return Change{.key = "policy",
                  .policy = std::make_shared<const config::PolicyConfiguration>(policy)};
  };
  const auto arrived = bytes.Event(change());
  REQUIRE(arrived.has_value());
  CHECK(arrived->key == "policy");
  CHECK(*arrived->policy == policy);
  // What production refuses is not let pass here either.
  policy.gang.plan_timeout = policy.gang.bind_timeout / 2;
  const auto refused = bytes.Event(change());
  REQUIRE_FALSE(refused.has_value());
  CHECK_THAT(refused.error(), Catch::Contains("gang.planTimeout"));
}

TEST_CASE("a disruption budget comes through, an empty selector as well", "[unit][sim]") {
  WatchBytes bytes(Kind::kBudget);
  kube::PodDisruptionBudget budget = testing::MakeBudget("db", "app", "db", 2);
  budget.meta.resource_version = "3";
  for (const bool everybody : {false, true}) {
    if (everybody) budget.selector = kube::LabelSelector{};
    const Change sent{.key = budget.meta.uid,
                      .budget = std::make_shared<const kube::PodDisruptionBudget>(budget)};
    const auto arrived = bytes.Event(sent);
    REQUIRE(arrived.has_value());
    CHECK(arrived->key == budget.meta.uid);
    CHECK(arrived->budget->selector == budget.selector);
    CHECK(arrived->budget->disruptions_allowed == 2);
  }
}

TEST_CASE("a list comes item by item, and says when it is whole", "[unit][sim]") {
  WatchBytes bytes(Kind::kNode);
  const auto item = [&bytes](const kube::Node& node) {
    kube::Node listed = node;
    listed.meta.resource_version = "3";
    return bytes.Item(
        {.key = node.meta.name, .node = std::make_shared<const kube::Node>(std::move(listed))});
  };
  bytes.BeginList();
  const auto a = item(MakeNode("a").Gpu(8).Taint("maintenance").NotReady());
  const auto b = item(MakeNode("b").Rack("r1").Cordoned());
  REQUIRE(a.has_value());
  REQUIRE(b.has_value());
  CHECK(a->key == "a");
  CHECK_FALSE(a->node->ready);
  CHECK(b->node->unschedulable);
  CHECK(bytes.EndList() == "");

  bytes.BeginList();  // the next one, empty
  CHECK(bytes.EndList() == "");
  CHECK(bytes.EndList() != "");  // of a list that is over there is no end
}

TEST_CASE("texts of any kind pass", "[unit][sim]") {
  const std::string odd = "\"quotes\" \\ / \n\r\t \x01\x1f\x7f \xC3\xA9 \xF0\x9F\x98\x80 ]}{[,:";
  kube::Pod pod = MakePod("p").Annotation("berth.dev/plan", odd).Label("odd", odd);
  pod.pod_scheduled = kube::PodScheduled{.status = false, .reason = odd, .message = odd};
  pod.status_reason = std::string("a\0b", 3);
  CHECK(Fate(std::move(pod)) == "");
  CHECK(Fate(MakePod("p").Annotation("berth.dev/plan", std::string(32 * 1024, '"'))) == "");
}

TEST_CASE("what cannot pass is named", "[unit][sim]") {
  using Catch::Contains;
  CHECK_THAT(Fate(MakePod(std::string(254, 'a'))), Contains("metadata.name"));
  CHECK_THAT(Fate(MakePod("a/b")), Contains("metadata.name"));
  CHECK_THAT(Fate(MakePod("")), Contains("metadata.name"));
  CHECK_THAT(Fate(MakePod("p").Annotation("berth.dev/plan", std::string(32 * 1024 + 1, 'x'))),
             Contains("metadata.annotations"));
  CHECK_THAT(Fate(MakePod("p").Annotation("berth.dev/plan", "\xff")),
             Contains("metadata.annotations"));
  CHECK_THAT(Fate(MakePod("p").Annotation("example.com/nobody-reads-it", "x")),
             Contains("metadata.annotations"));
  CHECK_THAT(Fate(MakePod("p").Terminating(1'500)), Contains("metadata.deletionTimestamp"));
  CHECK_THAT(Fate(MakePod("p").Invalid("of unknown cause")), Contains("what cannot be read"));
}

}  // namespace
}  // namespace berth::sim
