// What is said about kube-scheduler's configuration: one good file, and every way to spoil it.
#include "config/scheduler_config.h"

#include <chrono>

#include "tests/support/catch.h"

namespace berth::config {
namespace {

using Lines = std::vector<std::string>;

const std::string kGood =
    "apiVersion: kubescheduler.config.k8s.io/v1\n"    // 1
    "kind: KubeSchedulerConfiguration\n"              // 2
    "percentageOfNodesToScore: 100\n"                 // 3
    "profiles:\n"                                     // 4
    "- schedulerName: default-scheduler\n"            // 5
    "extenders:\n"                                    // 6
    "- urlPrefix: https://berth.berth-system:8443\n"  // 7
    "  filterVerb: filter\n"                          // 8
    "  prioritizeVerb: prioritize\n"                  // 9
    "  bindVerb: bind\n"                              // 10
    "  preemptVerb: preempt\n"                        // 11
    "  weight: 20\n"                                  // 12
    "  httpTimeout: 30s\n"                            // 13
    "  nodeCacheCapable: true\n"                      // 14
    "  ignorable: false\n"                            // 15
    "  managedResources:\n"                           // 16
    "  - name: nvidia.com/gpu\n"                      // 17
    "    ignoredByScheduler: false\n";                // 18

Lines FindingsOf(const std::string& yaml, const PolicyConfiguration& policy = {}) {
  Lines lines;
  for (const Finding& finding : CheckSchedulerConfig(yaml, "s", policy)) {
    lines.push_back(finding.ToString());
  }
  return lines;
}

/// The good file with one piece replaced. REQUIRES: it is there.
std::string With(std::string_view piece, std::string_view replacement) {
  std::string text = kGood;
  const std::size_t at = text.find(piece);
  REQUIRE(at != std::string::npos);
  return text.replace(at, piece.size(), replacement);
}

TEST_CASE("a configuration as Berth ships it has no findings") {
  CHECK(FindingsOf(kGood).empty());
  CHECK(FindingsOf("---\n" + kGood + "---\nkind: Other\n").empty());
}

TEST_CASE("each slip has its finding") {
  struct Row {
    std::string_view piece;
    std::string_view replacement;
    std::string_view finding;
  };
  const Row rows[] = {
      {"config.k8s.io/v1\n", "config.k8s.io/v1beta3\n",
       "s:1:13: error: apiVersion: must be kubescheduler.config.k8s.io/v1, is "
       "\"kubescheduler.config.k8s.io/v1beta3\""},
      {"ToScore: 100", "ToScore: 50",
       "s:3:27: warning: percentageOfNodesToScore: should be 100: else kube-scheduler offers Berth "
       "only a sample of more than 100 nodes"},
      {"percentageOfNodesToScore: 100\n", "",
       "s:1:1: warning: percentageOfNodesToScore: should be 100: else kube-scheduler offers Berth "
       "only a sample of more than 100 nodes"},
      {"profiles:\n", "profiles:\n- percentageOfNodesToScore: 10\n",
       "s:5:29: warning: profiles[0].percentageOfNodesToScore: should be 100: else kube-scheduler "
       "offers Berth only a sample of more than 100 nodes"},
      {"default-scheduler", "other",
       "s:5:1: warning: profiles: none is in the policy's schedulerNames (default-scheduler, "
       "berth): Berth would plan none of its pods"},
      {"https://", "http://",
       "s:7:14: warning: extenders[0].urlPrefix: plain http off loopback: whoever reaches the port "
       "can bind pods; use https"},
      {"https://", "",
       "s:7:14: error: extenders[0].urlPrefix: must be an http:// or https:// address"},
      {"  filterVerb: filter\n", "",
       "s:7:3: error: extenders[0].filterVerb: missing: Berth needs this verb"},
      {"  preemptVerb: preempt\n", "",
       "s:7:3: error: extenders[0].preemptVerb: missing: Berth needs this verb"},
      {"  bindVerb: bind\n", "",
       "s:7:3: error: extenders[0].bindVerb: missing: Berth needs this verb"},
      {"Verb: filter", "Verb: predicates",
       "s:8:15: error: extenders[0].filterVerb: must be filter, is \"predicates\""},
      {"  prioritizeVerb: prioritize\n", "",
       "s:7:3: warning: extenders[0].prioritizeVerb: missing: needed as soon as "
       "placement.maxNodesReturned is above 1"},
      {"weight: 20", "weight: 12",
       "s:12:11: warning: extenders[0].weight: 12 lets kube-scheduler's own scores outvote "
       "Berth's: more than 12 does not"},
      {"  weight: 20\n", "",
       "s:7:3: error: extenders[0].weight: must be above 0 with a prioritizeVerb, or "
       "kube-scheduler "
       "refuses it"},
      {"httpTimeout: 30s", "httpTimeout: 20s",
       "s:13:16: error: extenders[0].httpTimeout: 20s must be above the policy's gang.bindTimeout, "
       "20s: kube-scheduler would give up binds that still wait for their gang"},
      {"  httpTimeout: 30s\n", "",
       "s:7:3: error: extenders[0].httpTimeout: 5s (the default) must be above the policy's "
       "gang.bindTimeout, 20s: kube-scheduler would give up binds that still wait for their gang"},
      {"httpTimeout: 30s", "httpTimeout: 24s",
       "s:13:16: warning: extenders[0].httpTimeout: 24s leaves less than 5s above the policy's "
       "gang.bindTimeout, 20s"},
      {"httpTimeout: 30s", "httpTimeout: 30",
       "s:13:16: error: extenders[0].httpTimeout: has no unit: write 30s"},
      {"Capable: true", "Capable: false",
       "s:14:21: error: extenders[0].nodeCacheCapable: must be true: Berth has its own view of the "
       "nodes"},
      {"  nodeCacheCapable: true\n", "",
       "s:7:3: error: extenders[0].nodeCacheCapable: must be true: Berth has its own view of the "
       "nodes"},
      {"ignorable: false", "ignorable: true",
       "s:15:14: error: extenders[0].ignorable: must be false: while Berth is away, pods would "
       "start past their quota and gang"},
      {"ignoredByScheduler: false", "ignoredByScheduler: true",
       "s:18:25: error: extenders[0].managedResources[0].ignoredByScheduler: must be false: "
       "kube-scheduler must count nvidia.com/gpu too, or it cannot preempt for it"},
      {"nvidia.com/gpu", "amd.com/gpu",
       "s:17:3: error: extenders[0].managedResources: nvidia.com/gpu is missing, a device of the "
       "policy"},
      {"  managedResources:\n  - name: nvidia.com/gpu\n    ignoredByScheduler: false\n", "",
       "s:7:3: warning: extenders[0].managedResources: none: kube-scheduler asks Berth about every "
       "pod, devices or not"},
      {"extenders:\n", "extenders:\n- {urlPrefix: http://other, bindVerb: bind}\n",
       "s:7:39: error: extenders[0].bindVerb: kube-scheduler allows one bindVerb in all, Berth's "
       "is "
       "in extenders[1]"},
      {"    ignoredByScheduler: false\n",
       "- {urlPrefix: http://other, managedResources: [{name: nvidia.com/gpu}]}\n",
       "s:18:55: error: extenders[1].managedResources[0].name: nvidia.com/gpu is managed by "
       "extenders[0] too: kube-scheduler allows one"},
  };
  for (const Row& row : rows) {
    INFO(row.piece << " -> " << row.replacement);
    CHECK(FindingsOf(With(row.piece, row.replacement)) == Lines{std::string(row.finding)});
  }
}

TEST_CASE("what is right in its context has no finding") {
  CHECK(FindingsOf(With("https://berth.berth-system:8443", "http://127.0.0.1:8888/")).empty());
  CHECK(FindingsOf(With("https://berth.berth-system:8443", "http://localhost:8888")).empty());
  CHECK(FindingsOf(With("https://berth.berth-system:8443", "http://[::1]:8888")).empty());
  CHECK(FindingsOf(With("Verb: filter", "Verb: v1/filter")).empty());
  CHECK(FindingsOf(With("  ignorable: false\n", "")).empty());
  CHECK(FindingsOf(With("    ignoredByScheduler: false\n", "")).empty());
  CHECK(FindingsOf(With("  prioritizeVerb: prioritize\n", "  prioritizeVerb: p/prioritize\n"))
            .empty());
  // A profile's own sampling counts, not the one that it overrides.
  CHECK(FindingsOf(With("percentageOfNodesToScore: 100\nprofiles:\n- ",
                        "percentageOfNodesToScore: 5\nprofiles:\n- percentageOfNodesToScore: 100\n"
                        "  "))
            .empty());
  // Without profiles there is the default one; an unnamed one is called so too.
  CHECK(FindingsOf(With("profiles:\n- schedulerName: default-scheduler\n", "")).empty());
  CHECK(FindingsOf(With("schedulerName: default-scheduler", "plugins: {}")).empty());
}

TEST_CASE("findings follow the policy") {
  PolicyConfiguration policy;
  SECTION("its bind timeout") {
    policy.gang.bind_timeout = std::chrono::seconds{30};
    CHECK(FindingsOf(kGood, policy).size() == 1);
  }
  SECTION("each of its devices") {
    policy.devices.push_back({.name = "rdma/hca", .kind = DeviceKind::kHandles});
    CHECK(
        FindingsOf(kGood, policy) ==
        Lines{"s:17:3: error: extenders[0].managedResources: rdma/hca is missing, a device of the "
              "policy"});
  }
  SECTION("how many nodes it returns") {
    policy.placement.max_nodes_returned = 4;
    CHECK(FindingsOf(With("  prioritizeVerb: prioritize\n", ""), policy) ==
          Lines{"s:7:3: error: extenders[0].prioritizeVerb: missing: with "
                "placement.maxNodesReturned 4 kube-scheduler would choose among Berth's nodes by "
                "itself"});
  }
  SECTION("which entry is Berth's") {
    policy.devices = {{.name = "amd.com/gpu", .kind = DeviceKind::kWhole}};
    const std::string two =
        With("extenders:\n",
             "extenders:\n- {urlPrefix: http://x, managedResources: [{name: amd.com/gpu}]}\n");
    CHECK(FindingsOf(two, policy).front().starts_with("s:7:3: error: extenders[0]."));
  }
}

TEST_CASE("a file without Berth in it says so") {
  const std::string nobody =
      "no entry manages a device of the policy (nvidia.com/gpu) or has a bindVerb: kube-scheduler "
      "does not call Berth";
  const std::string without = kGood.substr(0, kGood.find("extenders:"));
  CHECK(FindingsOf(without) == Lines{"s:1:1: error: extenders: " + nobody});
  CHECK(FindingsOf(without + "extenders: []\n") == Lines{"s:6:12: error: extenders: " + nobody});
  CHECK(FindingsOf(without + "extenders: 5\n") == Lines{"s:6:12: error: extenders: " + nobody});
  CHECK(FindingsOf(without + "extenders: [1, {filterVerb: filter}]\n") ==
        Lines{"s:6:12: error: extenders: " + nobody});
}

TEST_CASE("other files say what is missing") {
  CHECK(FindingsOf("") ==
        Lines{"s:1:1: error: kind: no document of kind KubeSchedulerConfiguration here"});
  CHECK(FindingsOf("- a\n") ==
        Lines{"s:1:1: error: kind: no document of kind KubeSchedulerConfiguration here"});
  CHECK(FindingsOf("a: [").front().find(": error: not valid YAML: ") != std::string::npos);
}

}  // namespace
}  // namespace berth::config
