// Other projects' objects, as their API servers show them.
#include "kube/dialect_objects.h"

#include <simdjson.h>

#include <string>
#include <vector>

#include "tests/support/catch.h"

namespace berth::kube {
namespace {

DialectObject Decoded(DialectKind kind, const std::string& spec,
                      const std::string& annotations = "{}") {
  simdjson::dom::parser parser;
  const auto object = DecodeDialectObject(
      kind, parser.parse(std::string(R"({"metadata":{"name":"g","namespace":"n","uid":"u",)") +
                         R"("annotations":)" + annotations + R"(},"spec":)" + spec + "}"));
  REQUIRE(object);
  CHECK(object->name == "g");
  CHECK(object->ns == "n");
  CHECK(object->uid == "u");
  return *object;
}

TEST_CASE("PodGroups of each project", "[unit][kube]") {
  DialectObject group = Decoded(DialectKind::kVolcanoPodGroup, R"({"minMember":4,"queue":"q",
      "minResources":{"cpu":"1"},"networkTopology":{"mode":"hard","highestTierAllowed":2}})");
  CHECK(group.min_member == 4);
  CHECK(group.queue == "q");
  CHECK(group.tier_required == 2);
  group = Decoded(DialectKind::kVolcanoPodGroup,
                  R"({"networkTopology":{"mode":"soft","highestTierName":"rack"}})");
  CHECK(group.min_member == 0);
  CHECK(group.topology_preferred == "rack");
  CHECK(group.tier_preferred == 0);
  // Volcano's defaults.
  CHECK(Decoded(DialectKind::kVolcanoPodGroup, R"({"networkTopology":{}})").tier_required == 1);

  group = Decoded(DialectKind::kKaiPodGroup, R"({"minMember":3,"queue":"q","topologyConstraint":
      {"topology":"t","requiredTopologyLevel":"a/block","preferredTopologyLevel":"a/rack"}})");
  CHECK(group.min_member == 3);
  CHECK(group.topology_required == "a/block");
  CHECK(group.topology_preferred == "a/rack");
  CHECK(group.invalid.empty());
  CHECK_FALSE(Decoded(DialectKind::kKaiPodGroup, R"({"minSubGroup":1})").invalid.empty());

  CHECK(Decoded(DialectKind::kSchedulerPluginsPodGroup, R"({"minMember":2})").min_member == 2);
  group = Decoded(DialectKind::kSigsPodGroup, R"({"minMember":2})",
                  R"({"gang.scheduling.koordinator.sh/total-number":"5"})");
  CHECK(group.size == 5);

  group = Decoded(DialectKind::kInTreePodGroup, R"({"schedulingPolicy":{"gang":{"minCount":6}}})");
  CHECK(group.gang);
  CHECK(group.min_member == 6);
  CHECK_FALSE(Decoded(DialectKind::kInTreePodGroup, R"({"schedulingPolicy":{"basic":{}}})").gang);

  CHECK(Decoded(DialectKind::kKueueLocalQueue, R"({"clusterQueue":"cq"})").queue == "cq");
}

TEST_CASE("half an object is told of, not dropped", "[unit][kube]") {
  CHECK_FALSE(Decoded(DialectKind::kVolcanoPodGroup, R"({"minMember":"four"})").invalid.empty());
  CHECK_FALSE(Decoded(DialectKind::kVolcanoPodGroup, "7").invalid.empty());
  CHECK(Decoded(DialectKind::kVolcanoPodGroup, "null").min_member == 0);
  simdjson::dom::parser parser;
  for (const char* text :
       {"[]", "{}", R"({"metadata":{"name":"a"}})", R"({"metadata":{"name":"a/b","namespace":"n",
        "uid":"u"}})"}) {
    INFO(text);
    CHECK_FALSE(DecodeDialectObject(DialectKind::kKaiPodGroup, parser.parse(std::string(text))));
  }
}

TEST_CASE("kinds by apiVersion and kind", "[unit][kube]") {
  CHECK(DialectKindOf("scheduling.volcano.sh/v1beta1", "PodGroup") ==
        DialectKind::kVolcanoPodGroup);
  CHECK(DialectKindOf("scheduling.k8s.io/v1alpha2", "PodGroup") == DialectKind::kInTreePodGroup);
  CHECK(DialectKindOf("kueue.x-k8s.io/v1beta1", "LocalQueue") == DialectKind::kKueueLocalQueue);
  CHECK_FALSE(DialectKindOf("kueue.x-k8s.io/v1beta1", "ClusterQueue"));
  CHECK_FALSE(DialectKindOf("v1", "PodGroup"));
  CHECK(ResourceOf(DialectKind::kKaiPodGroup).Name() == "podgroups.scheduling.run.ai");
}

TEST_CASE("Koordinator's gather strategy", "[unit][kube]") {
  const auto levels =
      ReadGatherStrategy(R"({"gatherStrategy":[{"layer":"block","strategy":"MustGather"},)"
                         R"({"layer":"rack","strategy":"PreferGather"}]})");
  REQUIRE(levels);
  CHECK(levels->required == "block");
  CHECK(levels->preferred == "rack");
  CHECK(ReadGatherStrategy("{}")->required.empty());
  for (const char* text : {"", "[", "[]", R"({"gatherStrategy":5})",
                           R"({"gatherStrategy":[{"layer":"a","strategy":"Gather"}]})"}) {
    INFO(text);
    CHECK_FALSE(ReadGatherStrategy(text));
  }
}

}  // namespace
}  // namespace berth::kube
