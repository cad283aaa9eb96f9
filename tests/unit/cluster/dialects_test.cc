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
