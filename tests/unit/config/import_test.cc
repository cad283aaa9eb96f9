// Another project's queues as a policy: golden files, and what must not break the output.
#include "config/import.h"

#include <fmt/format.h>

#include "config/decode.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"

namespace berth::config {
namespace {

std::string Imported(Peer peer, const std::string& yaml, const std::string& source = "test.yaml") {
  const auto objects = ReadManifests(yaml);
  REQUIRE(objects);
  const auto policy = Import(peer, *objects, source);
  INFO((policy ? std::string() : policy.error()));
  REQUIRE(policy);
  return *policy;
}

/// What Berth makes of the imported policy.
PolicyConfiguration Decoded(const std::string& yaml) {
  const auto policy = DecodePolicy(yaml, "imported");
  INFO(yaml);
  if (!policy) {
    for (const auto& error : policy.error()) UNSCOPED_INFO(error.ToString());
  }
  REQUIRE(policy);
  return *policy;
}

/// The expected files are what the command prints:
/// cd tests/golden/import && berth import PEER PEER.yaml > PEER.policy.yaml
TEST_CASE("berth import prints the recorded policies, which berth check takes", "[unit][config]") {
  for (const auto* name : {"kueue", "volcano", "kai"}) {
    INFO(name);
    const std::string yaml = testing::ReadSource(fmt::format("tests/golden/import/{}.yaml", name));
    const std::string policy = Imported(*PeerNamed(name), yaml, fmt::format("{}.yaml", name));
    CHECK(policy == testing::ReadSource(fmt::format("tests/golden/import/{}.policy.yaml", name)));
    Decoded(policy);
  }
}

TEST_CASE("kueue: quotas, borrowing, namespaces, cohorts", "[unit][config]") {
  const PolicyConfiguration policy =
      Decoded(Imported(Peer::kKueue, testing::ReadSource("tests/golden/import/kueue.yaml")));
  REQUIRE(policy.queues.size() == 5);
  const Queue& research = policy.queues[0];
  CHECK(research.name == "research");
  CHECK(research.parent == "science");
  CHECK(research.namespaces == std::vector<std::string>{"team-a", "team-b"});
  // Flavors: 32 + 8 GPUs; borrowing up to 16 + 0 more.
  CHECK(research.quota.at("nvidia.com/gpu") == 40'000);
  CHECK(research.limit.at("nvidia.com/gpu") == 56'000);
  CHECK(research.quota.at("cpu") == 768'000);
  CHECK_FALSE(research.limit.contains("cpu"));  // borrows without a limit
  CHECK_FALSE(research.quota.contains("pods"));
  CHECK(research.weight == 2000);
  // A DNS subdomain is no queue name here.
  CHECK(policy.queues[1].name == "product-inference");
  // Without a cohort there is nobody to borrow from.
  const Queue& alone = policy.queues[2];
  CHECK(alone.limit.at("nvidia.com/gpu") == 4'000);
  CHECK(alone.limit.at("rdma/hca") == 100'000);
  CHECK_FALSE(alone.namespaces);
  const Queue& cohort = policy.queues[3];
  CHECK(cohort.name == "science");
  CHECK(cohort.parent == "company");
  CHECK(cohort.quota.at("nvidia.com/gpu") == (16 + 40 + 24) * 1'000);  // its own and those below
  CHECK(policy.levels.size() == 3);
  CHECK(policy.levels[0].name == "block");
}

TEST_CASE("volcano: deserved, capability, tree, namespaces", "[unit][config]") {
  const PolicyConfiguration policy =
      Decoded(Imported(Peer::kVolcano, testing::ReadSource("tests/golden/import/volcano.yaml")));
  REQUIRE(policy.queues.size() == 5);
  const Queue& dept = policy.queues[2];
  CHECK(dept.parent == "root");
  CHECK(dept.quota.at("nvidia.com/gpu") == 16'000);
  CHECK(dept.limit.at("nvidia.com/gpu") == 24'000);
  CHECK(dept.namespaces == std::vector<std::string>{"*"});
  const Queue& team = policy.queues[3];
  CHECK(team.name == "team-a1");
  CHECK(team.parent == "dept-a");
  CHECK(team.weight == 4000);
  // Deserves more than it may have: the capability holds.
  CHECK(team.quota.at("nvidia.com/gpu") == 4'000);
  CHECK(team.limit.at("nvidia.com/gpu") == 4'000);
  CHECK(team.namespaces == std::vector<std::string>{"team-a1", "*"});
  CHECK(policy.queues[4].quota.at("nvidia.com/gpu") == 1'000);  // its guarantee
}

TEST_CASE("kai: units, unlimited, leaves", "[unit][config]") {
  const PolicyConfiguration policy =
      Decoded(Imported(Peer::kKai, testing::ReadSource("tests/golden/import/kai.yaml")));
  REQUIRE(policy.queues.size() == 3);
  CHECK_FALSE(policy.queues[0].namespaces);  // only leaves take pods
  CHECK(policy.queues[0].limit.empty());
  const Queue& research = policy.queues[1];
  CHECK(research.parent == "default-parent-queue");
  CHECK(research.quota.at("cpu") == 96'000);              // millicpus
  CHECK(research.quota.at("memory") == 512'000'000'000);  // megabytes
  CHECK(research.quota.at("nvidia.com/gpu") == 15'000);   // whole devices
  CHECK(research.limit.at("nvidia.com/gpu") == 32'000);
  CHECK_FALSE(research.limit.contains("cpu"));
  CHECK(research.weight == 2500);
  CHECK(research.min_run_time == std::chrono::minutes{10});
  CHECK(research.namespaces == std::vector<std::string>{"lab", "*"});
  CHECK(policy.queues[2].weight == 0);  // the least: no zero here
  // The host is always the last level.
  CHECK(policy.levels.back().node_label == "kubernetes.io/hostname");
}

TEST_CASE("import: queues that are stopped, and priorities", "[unit][config]") {
  const auto first = [](Peer peer, const std::string& object) {
    return Decoded(Imported(peer, object)).queues.front();
  };
  const auto kueue = [&](const std::string& stop) {
    return first(Peer::kKueue,
                 fmt::format("{{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, "
                             "metadata: {{name: q}}, spec: {{stopPolicy: {}}}}}",
                             stop))
        .hold;
  };
  CHECK(kueue("None") == Hold::kNone);
  CHECK(kueue("Hold") == Hold::kHold);
  CHECK(kueue("HoldAndDrain") == Hold::kHoldAndDrain);
  const auto volcano = [&](const std::string& state, const std::string& priority) {
    return first(Peer::kVolcano,
                 fmt::format("{{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: "
                             "{{name: q}}, spec: {{priority: {}}}, status: {{state: {}}}}}",
                             priority, state));
  };
  CHECK(volcano("Open", "7").hold == Hold::kNone);
  CHECK(volcano("Closed", "7").hold == Hold::kHold);
  CHECK(volcano("Open", "7").priority == 7);
  CHECK(volcano("Open", "1000000").priority == 1'000'000);
  for (const char* outside : {"1000001", "1e300", "0.5", "nan", "x"}) {
    CAPTURE(outside);
    CHECK(volcano("Open", outside).priority == 0);
  }
}

TEST_CASE("an import of nothing is an error, not an empty policy", "[unit][config]") {
  const auto objects = ReadManifests("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}");
  REQUIRE(objects);
  const auto policy = Import(Peer::kKueue, *objects, "f.yaml");
  REQUIRE_FALSE(policy);
  CHECK(policy.error() == "f.yaml: no ClusterQueue of kueue.x-k8s.io");
  // KAI's queues are not Volcano's, though both are of kind Queue.
  const auto kai = ReadManifests(testing::ReadSource("tests/golden/import/kai.yaml"));
  CHECK_FALSE(Import(Peer::kVolcano, *kai, "kai.yaml"));
}

TEST_CASE("names and texts cannot break out of the policy", "[unit][config]") {
  const PolicyConfiguration policy = Decoded(Imported(Peer::kKai, R"(
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: "x\nqueues: []"}
spec:
  displayName: "lab\nmode: passthrough"
  parentQueue: "up\n- name: evil"
  resources: {gpu: {quota: 1e300, limit: 2, overQuotaWeight: -3}, cpu: {quota: text}, memory: 7}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: "x queues: []"}
spec: 5
---
apiVersion: kai.scheduler/v1alpha1
kind: Topology
metadata: {name: "t\nx"}
spec: {levels: [{nodeLabel: "a b\nc: d"}, {nodeLabel: example.com/host}, 7]}
)"));
  CHECK(policy.mode == Mode::kEnforce);
  REQUIRE(policy.queues.size() == 2);
  CHECK(policy.queues[0].name == "x-queues");
  CHECK(policy.queues[1].name == "x-queues-2");
  CHECK(policy.queues[0].parent == "up---name--evil");
}

}  // namespace
}  // namespace berth::config
