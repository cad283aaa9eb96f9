// What a pod says of its gang, in every spelling that is read.
#include "cluster/dialects.h"

#include <string>
#include <vector>

#include "kube/decode.h"
#include "tests/support/builders.h"
#include "tests/support/catch.h"

namespace berth::cluster {
namespace {

using testing::MakePod;
using testing::PodBuilder;

struct Row {
  const char* what;
  PodBuilder pod;
  GangClaim gang;
  bool error = false;
};

constexpr const char* kNewName = "scheduling.x-k8s.io/pod-group";
constexpr const char* kOldName = "pod-group.scheduling.sigs.k8s.io/name";
constexpr const char* kOldMin = "pod-group.scheduling.sigs.k8s.io/min-available";

TEST_CASE("gang claims", "[unit][cluster]") {
  const std::vector<Row> rows = {
      {"nothing", MakePod("p"), {"", 0, 0}},
      {"size alone: all are needed", MakePod("p").Gang("g", 4), {"g", 4, 4}},
      {"size and minimum", MakePod("p").Gang("g", 4).Min(2), {"g", 4, 2}},
      {"minimum alone: that is the size",
       MakePod("p").Label("berth.dev/gang", "g").Min(3),
       {"g", 3, 3}},
      {"an empty name is none", MakePod("p").Gang("", 4), {"", 0, 0}},
      {"a name alone says no size", MakePod("p").Label("berth.dev/gang", "g"), {"g", 0, 0}, true},
      {"minimum over size", MakePod("p").Gang("g", 2).Min(3), {"g", 2, 3}, true},
      {"size 0", MakePod("p").Gang("g", 0), {"g", 0, 0}, true},
      {"negative", MakePod("p").Gang("g", -1), {"g", 0, 0}, true},
      {"the largest", MakePod("p").Gang("g", kMaxGangSize), {"g", kMaxGangSize, kMaxGangSize}},
      {"over the largest", MakePod("p").Gang("g", kMaxGangSize + 1), {"g", 0, 0}, true},
      {"not a number",
       MakePod("p").Gang("g", 1).Annotation("berth.dev/gang-size", "4x"),
       {"g", 0, 0},
       true},
      {"blanks are not a number",
       MakePod("p").Gang("g", 1).Annotation("berth.dev/gang-size", " 4"),
       {"g", 0, 0},
       true},
      {"empty", MakePod("p").Gang("g", 1).Annotation("berth.dev/gang-size", ""), {"g", 0, 0}, true},
      {"beyond int",
       MakePod("p").Gang("g", 1).Annotation("berth.dev/gang-size", "99999999999999999999"),
       {"g", 0, 0},
       true},
      {"scheduler-plugins, lightweight",
       MakePod("p").Label(kOldName, "g").Label(kOldMin, "3"),
       {"g", 3, 3}},
      {"scheduler-plugins, PodGroup with the minimum as annotation",
       MakePod("p").Label(kNewName, "g").Annotation(kOldMin, "3"),
       {"g", 3, 3}},
      {"scheduler-plugins, PodGroup and Berth's annotations",
       MakePod("p").Label(kNewName, "g").Min(2).Annotation("berth.dev/gang-size", "5"),
       {"g", 5, 2}},
      {"the new name wins over the old one",
       MakePod("p").Label(kNewName, "new").Label(kOldName, "old").Label(kOldMin, "2"),
       {"new", 2, 2}},
      {"Berth's own spelling wins",
       MakePod("p").Gang("own", 4).Label(kOldName, "old").Label(kOldMin, "2"),
       {"own", 4, 4}},
  };
  for (const Row& row : rows) {
    INFO(row.what);
    const PodClaims claims = ReadClaims(row.pod, {});
    CHECK(claims.gang.name == row.gang.name);
    CHECK(claims.gang.size == row.gang.size);
    CHECK(claims.gang.min_member == row.gang.min_member);
    CHECK(claims.error.empty() != row.error);
  }
}

TEST_CASE("the decoder keeps every key that is read of a pod", "[unit][cluster]") {
  for (const std::string_view key : KeysOfClaims()) {
    INFO(key);
    CHECK(kube::IsReadLabel(key));
  }
}

TEST_CASE("what is no name names no gang, queue or topology", "[unit][cluster]") {
  const std::string escape = "x\x1b[2J";
  const std::string long_name(254, 'a');
  const auto keys = {
      "berth.dev/gang", "kueue.x-k8s.io/pod-group-name",       "scheduling.k8s.io/group-name",
      "pod-group-name", "gang.scheduling.koordinator.sh/name", kOldName};
  for (const std::string& name : {escape, std::string("a b"), std::string("a\nb fake 8/8"),
                                  std::string("a/b"), std::string("\u202ea"), long_name}) {
    for (const char* key : keys) {
      INFO(key << " " << name);
      const auto claims =
          ReadClaims(MakePod("p").Label(key, name).Annotation("berth.dev/gang-size", "2"), {});
      CHECK(claims.gang.name.empty());
      CHECK(claims.error.starts_with(key));
      CHECK(claims.error.find(name) == std::string::npos);
    }
    for (const char* key : {"berth.dev/queue", "kueue.x-k8s.io/queue-name", "runai/queue"}) {
      INFO(key << " " << name);
      const auto claims = ReadClaims(MakePod("p").Label(key, name), {});
      CHECK(claims.queue.empty());
      CHECK(claims.error.starts_with(key));
    }
  }
  for (const std::string& level : {escape, std::string("a/b/c"), std::string("a b")}) {
    CHECK_FALSE(ReadClaims(MakePod("p").Required(level), {}).error.empty());
    CHECK_FALSE(ReadClaims(MakePod("p").Preferred(level), {}).error.empty());
    const auto koordinator =
        ReadClaims(MakePod("p").Annotation(
                       "gang.scheduling.koordinator.sh/network-topology-spec",
                       R"({"gatherStrategy":[{"layer":"a\u001bb","strategy":"MustGather"}]})"),
                   {});
    CHECK(koordinator.topology_required.empty());
    CHECK_FALSE(koordinator.error.empty());
  }
  CHECK(ReadClaims(MakePod("p").Required("topology.kubernetes.io/zone"), {}).error.empty());
  CHECK(ReadClaims(MakePod("p").Gang("Train_7.b-2", 2), {}).error.empty());
}

TEST_CASE("a dialect that is off is not read", "[unit][cluster]") {
  config::Dialects dialects;
  dialects.scheduler_plugins = config::DialectSwitch::kOff;
  const PodBuilder pod = MakePod("p").Label(kOldName, "g").Label(kOldMin, "3");
  const DialectContext off{.switches = dialects};
  CHECK(ReadClaims(pod, off).gang == GangClaim{});
  CHECK(ReadClaims(pod, off).error.empty());
  // Berth's own cannot be switched off.
  CHECK(ReadClaims(MakePod("p").Gang("g", 2), off).gang == GangClaim{"g", 2, 2});
}

TEST_CASE("scheduler-plugins: a minimum over the size is refused as well", "[unit][cluster]") {
  const auto claims = ReadClaims(
      MakePod("p").Label(kNewName, "g").Min(5).Annotation("berth.dev/gang-size", "2"), {});
  CHECK_FALSE(claims.error.empty());
}

TEST_CASE("queue, topology, whole node", "[unit][cluster]") {
  const PodClaims claims =
      ReadClaims(MakePod("p").Queue("q").Required("rack").Preferred("host").WholeNode(), {});
  CHECK(claims.queue == "q");
  CHECK(claims.topology_required == "rack");
  CHECK(claims.topology_preferred == "host");
  CHECK(claims.whole_node);
  CHECK(claims.error.empty());

  CHECK_FALSE(ReadClaims(MakePod("p").Annotation("berth.dev/whole-node", "false"), {}).whole_node);
  const PodClaims odd = ReadClaims(MakePod("p").Annotation("berth.dev/whole-node", "yes"), {});
  CHECK_FALSE(odd.whole_node);
  CHECK(odd.error == "berth.dev/whole-node must be \"true\" or \"false\".");
}

TEST_CASE("rank follows the index that exists", "[unit][cluster]") {
  const std::vector<std::pair<PodBuilder, std::optional<int>>> rows = {
      {MakePod("p"), std::nullopt},
      {MakePod("p").Rank(3), 3},
      {MakePod("p").Annotation("batch.kubernetes.io/job-completion-index", "5"), 5},
      {MakePod("p").Label("training.kubeflow.org/replica-index", "2"), 2},
      {MakePod("p").Label("leaderworkerset.sigs.k8s.io/worker-index", "1"), 1},
      {MakePod("p").Rank(3).Label("training.kubeflow.org/replica-index", "9"), 3},
      {MakePod("p").Label("kueue.x-k8s.io/pod-group-pod-index", "4"), 4},
      {MakePod("p").Annotation("gang.scheduling.koordinator.sh/network-topology-index", "6"), 6},
      {MakePod("p").Label("volcano.sh/task-index", "8"), 8},
      {MakePod("p").Label("apps.kubernetes.io/pod-index", "3"), 3},
      {MakePod("p")
           .Label("apps.kubernetes.io/pod-index", "9")
           .Label("leaderworkerset.sigs.k8s.io/worker-index", "1"),
       1},
      {MakePod("p").Rank(-1), std::nullopt},
      {MakePod("p").Label("batch.kubernetes.io/job-completion-index", "x"), std::nullopt},
      {MakePod("p")
           .Label("batch.kubernetes.io/job-completion-index", "")
           .Label("training.kubeflow.org/replica-index", "7"),
       7},
  };
  for (const auto& [pod, rank] : rows) {
    INFO("row " << &pod - &rows.front().first);
    CHECK(ReadClaims(pod, {}).rank == rank);
  }
}

// --- Every dialect ---------------------------------------------------------------------------

using kube::DialectKind;
using kube::DialectObject;

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

TEST_CASE("auto: off while a pod of the project's own controller lives", "[unit][cluster]") {
  using config::DialectSwitch;
  const config::Dialects all_auto{.kueue = DialectSwitch::kAuto,
                                  .volcano = DialectSwitch::kAuto,
                                  .kai = DialectSwitch::kAuto,
                                  .koordinator = DialectSwitch::kAuto,
                                  .scheduler_plugins = DialectSwitch::kAuto,
                                  .in_tree = DialectSwitch::kAuto};
  struct Peer {
    const char* ns;
    const char* pod;
    DialectSwitch config::Dialects::*member;
  };
  for (const Peer& peer : {
           Peer{"kueue-system", "kueue-controller-manager-7d9-x", &config::Dialects::kueue},
           Peer{"volcano-system", "volcano-scheduler-5c-y", &config::Dialects::volcano},
           Peer{"kai-scheduler", "kai-scheduler-default-6-z", &config::Dialects::kai},
           Peer{"kai-scheduler", "scheduler-6-z", &config::Dialects::kai},
           Peer{"koordinator-system", "koord-scheduler-1-a", &config::Dialects::koordinator},
           Peer{"scheduler-plugins", "scheduler-plugins-scheduler-1-a",
                &config::Dialects::scheduler_plugins},
       }) {
    INFO(peer.pod);
    PeersAlive peers;
    CHECK(peers.Decide(all_auto).*peer.member == DialectSwitch::kOn);
    const kube::Pod pod = MakePod(peer.pod).Ns(peer.ns);
    CHECK(peers.Count(pod, 1));
    CHECK(peers.Decide(all_auto).*peer.member == DialectSwitch::kOff);
    CHECK_FALSE(peers.Count(pod, 1));  // a second replica
    CHECK_FALSE(peers.Count(pod, -1));
    CHECK(peers.Decide(all_auto).*peer.member == DialectSwitch::kOff);
    // What the admin says himself holds.
    config::Dialects on;
    on.*peer.member = DialectSwitch::kOn;
    CHECK(peers.Decide(on).*peer.member == DialectSwitch::kOn);
    CHECK(peers.Count(pod, -1));
    CHECK(peers.Decide(all_auto).*peer.member == DialectSwitch::kOn);
    // A tenant's pod of that name, elsewhere, is nothing.
    CHECK_FALSE(peers.Count(MakePod(peer.pod).Ns("team-a"), 1));
  }
}

}  // namespace
}  // namespace berth::cluster
