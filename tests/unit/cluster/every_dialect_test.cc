// Gang, queue and topology in each dialect, with its objects.
#include <string>
#include <utility>
#include <vector>

#include "cluster/dialects.h"
#include "tests/support/builders.h"
#include "tests/support/catch.h"

namespace berth::cluster {
namespace {

using testing::MakePod;
using testing::PodBuilder;

using kube::DialectKind;
using kube::DialectObject;

constexpr const char* kNewName = "scheduling.x-k8s.io/pod-group";
constexpr const char* kOldMin = "pod-group.scheduling.sigs.k8s.io/min-available";

/// A group object of namespace `default`.
DialectObject Group(DialectKind kind, int min, std::string queue = {}) {
  return {.kind = kind,
          .ns = "default",
          .name = "g",
          .uid = "g1",
          .min_member = min,
          .queue = std::move(queue)};
}

kube::Pod InGroup(PodBuilder pod, const std::string& group) {
  kube::Pod built = pod.Build();
  built.scheduling_group = group;
  return built;
}

constexpr const char* kVolcano = "scheduling.k8s.io/group-name";
constexpr const char* kSigs = "pod-group.scheduling.sigs.k8s.io";

struct DialectCase {
  const char* what;
  kube::Pod pod;
  std::vector<DialectObject> objects;
  GangClaim gang{};
  std::string queue{};
  std::string required{};
  std::string preferred{};
  std::string error{};
  std::string waits_for{};
};

std::vector<DialectCase> Cases() {
  const auto volcano = [](DialectObject group) { return std::vector{std::move(group)}; };
  DialectObject hard = Group(DialectKind::kVolcanoPodGroup, 2);
  hard.tier_required = 1;
  DialectObject soft = Group(DialectKind::kVolcanoPodGroup, 2);
  soft.tier_preferred = 2;
  DialectObject wide = Group(DialectKind::kVolcanoPodGroup, 2);
  wide.tier_required = 3;
  DialectObject kai = Group(DialectKind::kKaiPodGroup, 3, "team");
  kai.topology_required = "rack";
  kai.topology_preferred = "kubernetes.io/hostname";
  DialectObject sub_groups = Group(DialectKind::kKaiPodGroup, 0);
  sub_groups.invalid = "spec.minSubGroup: Berth reads a minimum of members only";
  DialectObject elastic = Group(DialectKind::kSigsPodGroup, 2);
  elastic.size = 4;
  DialectObject basic = Group(DialectKind::kInTreePodGroup, 1);
  basic.gang = false;
  DialectObject elsewhere = Group(DialectKind::kVolcanoPodGroup, 2);
  elsewhere.ns = "other";
  const DialectObject local{.kind = DialectKind::kKueueLocalQueue,
                            .ns = "default",
                            .name = "user-queue",
                            .uid = "q1",
                            .queue = "cluster-queue"};
  return {
      {.what = "kueue: a group of plain pods",
       .pod = MakePod("p")
                  .Label("kueue.x-k8s.io/pod-group-name", "g")
                  .Annotation("kueue.x-k8s.io/pod-group-total-count", "4"),
       .objects = {},
       .gang = {"g", 4, 4}},
      {.what = "kueue: a group that does not say its size",
       .pod = MakePod("p").Label("kueue.x-k8s.io/pod-group-name", "g"),
       .objects = {},
       .gang = {"g", 0, 0},
       .error = "kueue.x-k8s.io/pod-group-name needs kueue.x-k8s.io/pod-group-total-count to say "
                "the minimum."},
      {.what = "kueue: a LocalQueue leads to its ClusterQueue",
       .pod = MakePod("p").Label("kueue.x-k8s.io/queue-name", "user-queue"),
       .objects = {local},
       .queue = "cluster-queue"},
      {.what = "kueue: without a LocalQueue the name is a queue of the policy",
       .pod = MakePod("p").Label("kueue.x-k8s.io/queue-name", "research"),
       .objects = {local},
       .queue = "research"},
      {.what = "kueue: topology",
       .pod = MakePod("p")
                  .Annotation("kueue.x-k8s.io/podset-required-topology", "block")
                  .Annotation("kueue.x-k8s.io/podset-preferred-topology", "rack"),
       .objects = {},
       .required = "block",
       .preferred = "rack"},
      {.what = "volcano: its PodGroup says minimum and queue",
       .pod = MakePod("p").Annotation(kVolcano, "g"),
       .objects = volcano(Group(DialectKind::kVolcanoPodGroup, 4, "research")),
       .gang = {"g", 4, 4},
       .queue = "research"},
      {.what = "volcano: the other spelling, and the pod's own queue",
       .pod = MakePod("p")
                  .Annotation("scheduling.volcano.sh/group-name", "g")
                  .Annotation("scheduling.volcano.sh/queue-name", "own"),
       .objects = volcano(Group(DialectKind::kVolcanoPodGroup, 4, "research")),
       .gang = {"g", 4, 4},
       .queue = "own"},
      {.what = "volcano: `default` is what its webhook writes where nobody chose",
       .pod = MakePod("p").Annotation(kVolcano, "g"),
       .objects = volcano(Group(DialectKind::kVolcanoPodGroup, 1, "default")),
       .gang = {"g", 1, 1}},
      {.what = "volcano: the minimum on the pod, without a PodGroup",
       .pod = MakePod("p")
                  .Annotation(kVolcano, "g")
                  .Annotation("scheduling.volcano.sh/group-min-member", "3"),
       .objects = {},
       .gang = {"g", 3, 3}},
      {.what = "volcano: the PodGroup does not exist",
       .pod = MakePod("p").Annotation(kVolcano, "g"),
       .objects = {},
       .gang = {"g", 0, 0},
       .waits_for = "PodGroup g (scheduling.volcano.sh) does not exist, and the pod does not say "
                    "how many members its gang needs."},
      {.what = "volcano: that of another namespace is another one",
       .pod = MakePod("p").Annotation(kVolcano, "g"),
       .objects = volcano(elsewhere),
       .gang = {"g", 0, 0},
       .waits_for = "PodGroup g (scheduling.volcano.sh) does not exist, and the pod does not say "
                    "how many members its gang needs."},
      {.what = "volcano: minMember 0",
       .pod = MakePod("p").Annotation(kVolcano, "g"),
       .objects = volcano(Group(DialectKind::kVolcanoPodGroup, 0)),
       .gang = {"g", 0, 0},
       .error = "PodGroup g: spec.minMember must be a whole number from 1 to 65536."},
      {.what = "volcano: minMember beyond the largest gang",
       .pod = MakePod("p").Annotation(kVolcano, "g"),
       .objects = volcano(Group(DialectKind::kVolcanoPodGroup, kMaxGangSize + 1)),
       .gang = {"g", 0, 0},
       .error = "PodGroup g: spec.minMember must be a whole number from 1 to 65536."},
      {.what = "volcano: tier 1 is the level above the host",
       .pod = MakePod("p").Annotation(kVolcano, "g"),
       .objects = volcano(hard),
       .gang = {"g", 2, 2},
       .required = "rack"},
      {.what = "volcano: a soft tier is a wish",
       .pod = MakePod("p").Annotation(kVolcano, "g"),
       .objects = volcano(soft),
       .gang = {"g", 2, 2},
       .preferred = "block"},
      {.what = "volcano: a hard tier that the policy has no level for",
       .pod = MakePod("p").Annotation(kVolcano, "g"),
       .objects = volcano(wide),
       .gang = {"g", 2, 2},
       .error = "PodGroup g: no level of the policy is HyperNode tier 3."},
      {.what = "kai: PodGroup with queue and topology",
       .pod = MakePod("p").Annotation("pod-group-name", "g"),
       .objects = {kai},
       .gang = {"g", 3, 3},
       .queue = "team",
       .required = "rack",
       .preferred = "kubernetes.io/hostname"},
      {.what = "kai: labels and annotations alone",
       .pod = MakePod("p")
                  .Annotation("pod-group-name", "g")
                  .Annotation("kai.scheduler/batch-min-member", "2")
                  .Annotation("kai.scheduler/topology-required-placement", "block")
                  .Label("kai.scheduler/queue", "team"),
       .objects = {},
       .gang = {"g", 2, 2},
       .queue = "team",
       .required = "block"},
      {.what = "kai: a minimum of subgroups is not read",
       .pod = MakePod("p").Annotation("pod-group-name", "g"),
       .objects = {sub_groups},
       .gang = {"g", 0, 0},
       .error = "PodGroup g: spec.minSubGroup: Berth reads a minimum of members only."},
      {.what = "koordinator: annotations alone",
       .pod = MakePod("p")
                  .Annotation("gang.scheduling.koordinator.sh/name", "g")
                  .Annotation("gang.scheduling.koordinator.sh/min-available", "2")
                  .Annotation("gang.scheduling.koordinator.sh/total-number", "5")
                  .Annotation("gang.scheduling.koordinator.sh/network-topology-spec",
                              R"({"gatherStrategy":[{"layer":"rack","strategy":"PreferGather"},)"
                              R"({"layer":"block","strategy":"MustGather"}]})")
                  .Label("quota.scheduling.koordinator.sh/name", "team"),
       .objects = {},
       .gang = {"g", 5, 2},
       .queue = "team",
       .required = "block",
       .preferred = "rack"},
      {.what = "koordinator: a topology that is no JSON",
       .pod = MakePod("p").Annotation("gang.scheduling.koordinator.sh/network-topology-spec", "x"),
       .objects = {},
       .error = "gang.scheduling.koordinator.sh/network-topology-spec: not a JSON object."},
      {.what = "koordinator: PodGroup, with more members than the minimum",
       .pod = MakePod("p").Label(kSigs, "g"),
       .objects = {elastic},
       .gang = {"g", 4, 2}},
      {.what = "scheduler-plugins: PodGroup",
       .pod = MakePod("p").Label(kNewName, "g"),
       .objects = {Group(DialectKind::kSchedulerPluginsPodGroup, 3)},
       .gang = {"g", 3, 3}},
      {.what = "scheduler-plugins: the PodGroup counts, not what the pod repeats",
       .pod = MakePod("p").Label(kNewName, "g").Label(kOldMin, "9"),
       .objects = {Group(DialectKind::kSchedulerPluginsPodGroup, 3)},
       .gang = {"g", 3, 3}},
      {.what = "scheduler-plugins: another project's PodGroup of that name is not meant",
       .pod = MakePod("p").Label(kNewName, "g"),
       .objects = volcano(Group(DialectKind::kVolcanoPodGroup, 3)),
       .gang = {"g", 0, 0},
       .waits_for = "PodGroup g (scheduling.x-k8s.io) does not exist, and the pod does not say how "
                    "many members its gang needs."},
      {.what = "in-tree: schedulingGroup",
       .pod = InGroup(MakePod("p"), "g"),
       .objects = {Group(DialectKind::kInTreePodGroup, 3)},
       .gang = {"g", 3, 3}},
      {.what = "in-tree: policy basic is no gang",
       .pod = InGroup(MakePod("p"), "g"),
       .objects = {basic}},
      {.what = "in-tree: minCount 0",
       .pod = InGroup(MakePod("p"), "g"),
       .objects = {Group(DialectKind::kInTreePodGroup, 0)},
       .gang = {"g", 0, 0},
       .error = "PodGroup g: spec.schedulingPolicy.gang.minCount must be a whole number from 1 to "
                "65536."},
      {.what = "Berth's numbers win over a PodGroup's",
       .pod = MakePod("p").Annotation(kVolcano, "g").Min(2).Annotation("berth.dev/gang-size", "8"),
       .objects = volcano(Group(DialectKind::kVolcanoPodGroup, 4)),
       .gang = {"g", 8, 2}},
      {.what = "Berth's queue and topology win over a PodGroup's",
       .pod = MakePod("p").Annotation("pod-group-name", "g").Queue("own").Preferred("block"),
       .objects = {kai},
       .gang = {"g", 3, 3},
       .queue = "own",
       .preferred = "block"},
  };
}

TEST_CASE("every dialect: gang, queue and topology", "[unit][cluster]") {
  const std::vector<config::TopologyLevel> levels = config::PolicyConfiguration().levels;
  for (const DialectCase& row : Cases()) {
    INFO(row.what);
    DialectObjects objects;
    for (const DialectObject& object : row.objects) objects.Upsert(object);
    const PodClaims claims = ReadClaims(row.pod, {.levels = levels, .objects = &objects});
    CHECK(claims.gang.name == row.gang.name);
    CHECK(claims.gang.size == row.gang.size);
    CHECK(claims.gang.min_member == row.gang.min_member);
    CHECK(claims.queue == row.queue);
    CHECK(claims.topology_required == row.required);
    CHECK(claims.topology_preferred == row.preferred);
    CHECK(claims.error == row.error);
    CHECK(claims.waits_for == row.waits_for);
  }
}

TEST_CASE("two dialects on one pod: of each fact the first in the order counts",
          "[unit][cluster]") {
  DialectObjects objects;
  objects.Upsert({.kind = DialectKind::kVolcanoPodGroup,
                  .ns = "default",
                  .name = "v",
                  .uid = "v1",
                  .min_member = 2,
                  .queue = "volcano-queue"});
  const DialectContext all{.objects = &objects};
  // A Volcano job under Kueue: Volcano's gang, Kueue's queue.
  const PodBuilder both =
      MakePod("p").Annotation(kVolcano, "v").Label("kueue.x-k8s.io/queue-name", "kueue-queue");
  PodClaims claims = ReadClaims(both, all);
  CHECK(claims.gang == GangClaim{"v", 2, 2});
  CHECK(claims.gang_from == Dialect::kVolcano);
  CHECK(claims.queue == "kueue-queue");
  CHECK(claims.queue_from == Dialect::kKueue);

  // With Kueue off, what Volcano says is left.
  config::Dialects switches;
  switches.kueue = config::DialectSwitch::kOff;
  claims = ReadClaims(both, {.switches = switches, .objects = &objects});
  CHECK(claims.queue == "volcano-queue");
  CHECK(claims.queue_from == Dialect::kVolcano);

  // Two gangs: the whole order, one name less each time.
  const auto named = [](int from) {
    PodBuilder pod = MakePod("p");
    if (from <= 6) pod.Label(kNewName, "plugins").Label(kOldMin, "2");
    if (from <= 5) {
      pod.Annotation("gang.scheduling.koordinator.sh/name", "koordinator")
          .Annotation("gang.scheduling.koordinator.sh/min-available", "2");
    }
    if (from <= 4) {
      pod.Annotation("pod-group-name", "kai").Annotation("kai.scheduler/batch-min-member", "2");
    }
    if (from <= 3) pod.Annotation(kVolcano, "v");
    if (from <= 2) {
      pod.Label("kueue.x-k8s.io/pod-group-name", "kueue")
          .Annotation("kueue.x-k8s.io/pod-group-total-count", "2");
    }
    kube::Pod built = pod.Build();
    if (from <= 1) built.scheduling_group = "tree";
    if (from <= 0) built.meta.labels["berth.dev/gang"] = "own";
    return built;
  };
  const std::vector<std::string> order = {"own", "tree",        "kueue",  "v",
                                          "kai", "koordinator", "plugins"};
  for (int from = 0; from < static_cast<int>(order.size()); ++from) {
    claims = ReadClaims(named(from), all);
    CHECK(claims.gang.name == order[static_cast<std::size_t>(from)]);
    CHECK(claims.gang_from == static_cast<Dialect>(from));
    CHECK(claims.in_tree == (from == 1));
  }
}

TEST_CASE("DialectObjects: news are what changes what is read", "[unit][cluster]") {
  DialectObjects objects;
  DialectObject group = Group(DialectKind::kVolcanoPodGroup, 2);
  CHECK(objects.Upsert(group));
  CHECK_FALSE(objects.Upsert(group));  // its status, say
  group.min_member = 3;
  CHECK(objects.Upsert(group));
  CHECK(objects.Find(group.kind, "default", "g")->min_member == 3);
  CHECK(objects.Find(DialectKind::kKaiPodGroup, "default", "g") == nullptr);

  // Recreated under its name while we looked away: the late delete is of the old one.
  DialectObject again = group;
  again.uid = "g2";
  CHECK(objects.Upsert(again));
  CHECK(objects.Remove("g1"));
  CHECK(objects.Find(group.kind, "default", "g")->uid == "g2");
  CHECK(objects.Remove("g2"));
  CHECK(objects.Find(group.kind, "default", "g") == nullptr);
  CHECK_FALSE(objects.Remove("g2"));
}

}  // namespace
}  // namespace berth::cluster
