#include "server/drivers/embedded_cluster.h"

#include "kube/terminal.h"
#include "server/drivers/host_driver.h"
#include "server/version.h"
#include "tests/support/catch.h"

namespace berth::server {
namespace {

constexpr const char* kYaml = R"(
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: "8", pods: "10", nvidia.com/gpu: "8"}}}
- {apiVersion: v1, kind: Pod, metadata: {name: p, uid: u}, spec: {schedulingGates: [{name: g}], containers: [{name: c, resources: {limits: {nvidia.com/gpu: 2}}}]}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: ignored}}
- {apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: group}, spec: {minMember: 2}}
- {apiVersion: example.com/v1, kind: PodGroup, metadata: {name: ignored}}
---
apiVersion: v1
kind: Namespace
metadata: {name: default}
)";

/// A running host around the cluster, and what a watcher saw.
struct Running {
  Running() {
    cluster->Watch([this](const kube::Pod& pod, bool gone) {
      seen.push_back(pod.meta.name + (gone ? " gone" : " on " + pod.node_name));
    });
    cluster->Connect(host);
    host.Start();
  }
  std::vector<std::string> seen;
  std::unique_ptr<EmbeddedCluster> cluster = *EmbeddedCluster::Parse(kYaml, "test");
  Metrics metrics{ThisBuild()};
  Logger logger{LogFormat::kText, 0, [](std::string_view) {}};
  DecisionLog decisions{{}};
  HostDriver host{{}, {}, *cluster, metrics, logger, decisions};
};

TEST_CASE("a recorded cluster is read, and what is missing made up", "[embedded]") {
  const auto cluster = EmbeddedCluster::Parse(kYaml, "test");
  REQUIRE(cluster);
  REQUIRE((*cluster)->Pods().size() == 1);
  const kube::Pod pod = (*cluster)->Pods().front();
  CHECK(pod.meta.ns == "default");
  CHECK(pod.meta.creation > 0);
  CHECK(pod.spec->requests.at("nvidia.com/gpu") == 2000);
  CHECK((*cluster)->Nodes().size() == 1);
}

TEST_CASE("what is no cluster is an error with the file's name", "[embedded]") {
  for (const char* text :
       {"", "[]", "3", "a: b", "kind: List", "kind: 3\nmetadata: {}", "kind: List\nitems: [1]",
        R"({"kind":"List","items":[]})", "kind: Node\nmetadata: {}", "\t: [", "{",
        "kind: Pod\nmetadata: {name: p}",
        "kind: Node\nmetadata: {name: n}\n---\nkind: Node\nmetadata: {name: n}\n",
        R"({"kind":"List","items":[{"kind":"Node","metadata":{"name":"n"}},
            {"kind":"Pod","metadata":{"name":"p","uid":"1"},"spec":{"containers":[]}},
            {"kind":"Pod","metadata":{"name":"p","uid":"2"},"spec":{"containers":[]}}]})",
        "kind: Pod\nmetadata: {name: \"x\\e[2J\\ny\"}\nspec: 3\n"}) {
    const auto cluster = EmbeddedCluster::Parse(text, "the-file");
    REQUIRE_FALSE(cluster);
    CHECK(cluster.error().starts_with("the-file: "));
    CHECK(cluster.error() == kube::Printable(cluster.error()));
  }
  for (const char* path : {"/nonexistent", "/"}) {
    const auto cluster = EmbeddedCluster::Load(path);
    REQUIRE_FALSE(cluster);
    CHECK(cluster.error().unreadable);
  }
}

TEST_CASE("a snapshot's PodGroups are read, those that are known", "[embedded]") {
  const Running world;
  const auto groups = world.host.Look([](const engine::Engine& e, auto) {
    std::vector<std::string> names;
    for (const auto& [uid, object] : e.store().dialect_objects().by_uid()) {
      names.push_back(object.ns + "/" + object.name);
    }
    return names;
  });
  CHECK(groups == std::vector<std::string>{"default/group"});
  const auto odd = EmbeddedCluster::Parse(
      "{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: a/b}}", "test");
  CHECK_FALSE(odd);
}

TEST_CASE("bindings are kept as an API server would", "[embedded]") {
  using kube::WriteOutcome;
  Running world;
  const engine::PodRef pod{.ns = "default", .name = "p", .uid = "u"};
  const auto bind = [&](const std::string& node, bool wanted = true) {
    return world.cluster
        ->CarryOut(
            host::PostBinding{.pod = pod, .node = node, .annotations = {{"berth.dev/plan", "x"}}},
            [wanted] { return wanted; })
        .outcome;
  };
  CHECK(bind("n1") == WriteOutcome::kConflict);  // gated
  world.cluster->ChangePod("u", [](kube::Pod& p) {
    p.scheduling_gates.clear();
    return true;
  });
  CHECK(bind("n1", /*wanted=*/false) == WriteOutcome::kRefused);
  CHECK(bind("n1") == WriteOutcome::kDone);
  const auto told = world.seen.size();
  CHECK(bind("n1") == WriteOutcome::kDone);  // again
  CHECK(bind("n2") == WriteOutcome::kConflict);
  CHECK(world.seen.size() == told);  // of what changes nothing nobody is told
  const auto read = [&] {
    return world.cluster->CarryOut(host::ReadPod{.pod = pod}, [] { return true; });
  };
  CHECK(read().pod->meta.annotations.at("berth.dev/plan") == "x");
  world.cluster->DeletePod("u");
  world.cluster->DeletePod("u");
  CHECK(read().outcome == WriteOutcome::kNotFound);
  CHECK(bind("n1") == WriteOutcome::kNotFound);
  CHECK(world.seen.back() == "p gone");
  CHECK(std::ranges::count(world.seen, "p gone") == 1);
}

}  // namespace
}  // namespace berth::server
