// What a policy file may say, all but queues: each rule as a row of file and answer.
#include "config/decode.h"

#include <chrono>

#include "tests/support/catch.h"
#include "tests/unit/config/policies.h"

namespace berth::config {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Decoded;
using testing::ErrorsOf;
using testing::kHeader;
using testing::Refusal;
using Lines = std::vector<std::string>;

void CheckRefusals(std::initializer_list<Refusal> rows) {
  for (const Refusal& row : rows) {
    INFO(row.body);
    CHECK(ErrorsOf(kHeader + std::string(row.body)) == Lines{std::string(row.error)});
  }
}

TEST_CASE("a policy that says nothing is the built-in one") {
  CHECK(Decoded("") == PolicyConfiguration{});
  CHECK(Decoded("gang: {}\nplacement: {score: {}}\n") == PolicyConfiguration{});
}

TEST_CASE("a kept policy of a newer release is taken without the keys that are not known",
          "[bug]") {
  const std::string newer = kHeader + std::string(R"(
tomorrow: {much: more}
gang: {planTimeout: 90s, patience: 3}
queues:
- {name: a, namespaces: ["*"], limit: {nvidia.com/gpu: 8}, mood: fine}
)");
  REQUIRE_FALSE(DecodePolicy(newer, "p.yaml"));
  const auto stored = DecodeStoredPolicy(newer, "p.yaml");
  REQUIRE(stored);
  Lines left_out;
  for (const Diagnostic& diagnostic : stored->left_out) left_out.push_back(diagnostic.path);
  CHECK(left_out == Lines{"tomorrow", "gang.patience", "queues[0].mood"});
  CHECK(stored->policy == Decoded(R"(
gang: {planTimeout: 90s}
queues:
- {name: a, namespaces: ["*"], limit: {nvidia.com/gpu: 8}}
)"));
}

/// What is left of a kept policy; and that it is one which this release takes.
StoredPolicy Stored(std::string_view body) {
  const auto stored = DecodeStoredPolicy(kHeader + std::string(body), "p.yaml");
  REQUIRE(stored);
  CHECK(DecodePolicy(EncodePolicy(stored->policy), "p.yaml") == stored->policy);
  return *stored;
}

TEST_CASE("of a kept policy a value that is not known falls back to its default", "[bug]") {
  for (const char* body : {"mode: strictest", "gang: 3", "gang: {planTimeout: soon}",
                           "topology: {levels: [{name: rack, nodeLabel: {any: of}}]}",
                           "schedulerNames: [{pattern: x}]", "placement: {score: learned}",
                           "resources: {devices: [{name: gpu}]}", "dialects: {kueue: strict}"}) {
    INFO(body);
    CHECK(Stored(body).left_out.size() == 1);
    CHECK(Stored(body).policy == PolicyConfiguration{});
  }
  CHECK(Stored("mode: passthrough").left_out.empty());
  // Of two timeouts that depend on each other only one is known.
  CHECK(Stored("gang: {planTimeout: soon, bindTimeout: 2m}").policy.gang.plan_timeout ==
        std::chrono::minutes{2});
}

TEST_CASE("a queue of a kept policy is closed where its amounts are not known", "[bug]") {
  const Queue closed{.name = "a", .namespaces = std::vector<std::string>{}};
  for (const char* queue : {"limit: {nvidia.com/gpu: all}", "quota: {nvidia.com/gpu: 50%}",
                            "limit: [8]", "limit: {nvidia.com/flavors: 3}",
                            "quota: {nvidia.com/gpu: 8}, limit: {nvidia.com/gpu: 4}"}) {
    const std::string body = std::string("queues: [{name: a, namespaces: [\"*\"], ") + queue + "}]";
    INFO(body);
    CHECK(Stored(body).policy.queues == std::vector{closed});
  }
  // Who may use it can only become fewer.
  CHECK(Stored("queues: [{name: a, namespaces: [team-a, {match: x}]}]").policy.queues ==
        std::vector{Queue{.name = "a", .namespaces = std::vector<std::string>{"team-a"}}});
  CHECK(Stored("queues: [{name: a, namespaces: everybody}]").policy.queues == std::vector{closed});
  // No queue is left: nobody is admitted, where the default would admit all.
  const Queue none{.name = "default", .namespaces = std::vector<std::string>{}};
  for (const char* body : {"queues: 3", "queues: [{name: A}]", "queues: [7]"}) {
    INFO(body);
    CHECK(Stored(body).policy.queues == std::vector{none});
  }
  const auto cycle = Stored("queues: [{name: a, parent: b}, {name: b, parent: a}]").policy.queues;
  CHECK(cycle.size() == 2);
}

TEST_CASE("what is no policy of this version is refused, kept or not") {
  for (const char* body : {"gang: {planTimeout: 90s", "gang: {}\n---\ngang: {}"}) {
    INFO(body);
    CHECK_FALSE(DecodeStoredPolicy(kHeader + std::string(body), "p.yaml"));
  }
  CHECK_FALSE(DecodeStoredPolicy("", "p.yaml"));
  CHECK_FALSE(
      DecodeStoredPolicy("apiVersion: berth.dev/v2\nkind: PolicyConfiguration\n", "p.yaml"));
}

TEST_CASE("what a policy sets is set, and nothing else") {
  PolicyConfiguration expected;
  SECTION("mode") {
    expected.mode = Mode::kPassthrough;
    CHECK(Decoded("mode: passthrough") == expected);
  }
  SECTION("scheduler names") {
    expected.scheduler_names = {"gpu-scheduler"};
    CHECK(Decoded("schedulerNames: [gpu-scheduler]") == expected);
  }
  SECTION("dialects are words, whatever YAML 1.1 makes of them") {
    expected.dialects = {.kueue = DialectSwitch::kOn,
                         .volcano = DialectSwitch::kOff,
                         .kai = DialectSwitch::kOn,
                         .koordinator = DialectSwitch::kOff,
                         .scheduler_plugins = DialectSwitch::kAuto,
                         .in_tree = DialectSwitch::kOff};
    CHECK(Decoded("dialects: {kueue: on, volcano: off, kai: true, koordinator: false,\n"
                  "  schedulerPlugins: auto, inTree: 'off'}") == expected);
  }
  SECTION("devices") {
    expected.devices = {{.name = "nvidia.com/gpu", .kind = DeviceKind::kWhole},
                        {.name = "rdma/hca_shared_devices_a", .kind = DeviceKind::kHandles}};
    CHECK(Decoded("resources:\n"
                  "  devices:\n"
                  "  - {name: nvidia.com/gpu}\n"
                  "  - {name: rdma/hca_shared_devices_a, kind: handles}\n") == expected);
  }
  SECTION("levels") {
    expected.levels = {{.name = "nvlink", .node_label = "nvidia.com/gpu.clique"},
                       {.name = "host", .node_label = "kubernetes.io/hostname"}};
    CHECK(Decoded("topology: {levels: [{name: nvlink, nodeLabel: nvidia.com/gpu.clique},\n"
                  "  {name: host, nodeLabel: kubernetes.io/hostname}]}") == expected);
  }
  SECTION("placement, its weights exact to the thousandth") {
    expected.placement.max_nodes_returned = 100;
    expected.placement.score.rank = 0;
    expected.placement.score.scarcity = 4;
    expected.placement.score.odd_remainder = 1'000'000;
    expected.placement.score.empty_node = 1'100;
    CHECK(Decoded("placement:\n"
                  "  maxNodesReturned: 100\n"
                  "  score: {rank: 0, scarcity: 0.004, oddRemainder: 1000, emptyNode: 1.1000}\n") ==
          expected);
  }
  SECTION("gang") {
    expected.gang = {
        .plan_timeout = seconds{90}, .bind_timeout = milliseconds{1500}, .max_standing = 1};
    CHECK(Decoded("gang: {planTimeout: 1m30s, bindTimeout: 1.5s, maxStanding: 1}") == expected);
  }
}

TEST_CASE("the file must say what it is") {
  CHECK(ErrorsOf("mode: enforce\n") ==
        Lines{"p:1:1: apiVersion: missing, must be berth.dev/v1alpha1",
              "p:1:1: kind: missing, must be PolicyConfiguration"});
  CHECK(ErrorsOf("apiVersion: berth.dev/v2\nkind: PolicyConfiguration\nmodes: x\n") ==
        Lines{"p:1:13: apiVersion: must be berth.dev/v1alpha1, is \"berth.dev/v2\"",
              "p:3:1: modes: unknown key, did you mean mode?"});
  // Of another kind of file the keys are nobody's mistake.
  CHECK(ErrorsOf("apiVersion: v1\nkind: ConfigMap\ndata: {}\n") ==
        Lines{"p:1:13: apiVersion: must be berth.dev/v1alpha1, is \"v1\"",
              "p:2:7: kind: must be PolicyConfiguration, is \"ConfigMap\""});
  CHECK(ErrorsOf("- a\n") == Lines{"p:1:1: must be a mapping with kind PolicyConfiguration"});
}

TEST_CASE("a file holds exactly one policy") {
  const std::string empty =
      "p:1:1: the file is empty: it must begin with apiVersion: berth.dev/v1alpha1 and kind: "
      "PolicyConfiguration";
  for (const std::string_view text : {"", "\n\n", "# only a comment\n", "---\n", "---\n---\n"}) {
    INFO(text);
    CHECK(ErrorsOf(text) == Lines{empty});
  }
  CHECK(ErrorsOf(kHeader + "---\n" + kHeader) ==
        Lines{"p:4:1: a second document: a policy file holds exactly one"});
  CHECK(ErrorsOf("---\n" + kHeader + "---\n# nothing more\n").empty());
  CHECK(ErrorsOf("\xEF\xBB\xBF" + kHeader).empty());  // A byte order mark.
  CHECK(ErrorsOf("apiVersion: berth.dev/v1alpha1\r\nkind: PolicyConfiguration\r\n").empty());
}

TEST_CASE("keys are exact") {
  CheckRefusals({
      {"gangs: {}", "p:3:1: gangs: unknown key, did you mean gang?"},
      {"gang: {planTimout: 60s}", "p:3:8: gang.planTimout: unknown key, did you mean planTimeout?"},
      {"gang: {PlanTimeout: 60s}",
       "p:3:8: gang.PlanTimeout: unknown key, did you mean planTimeout?"},
      {"gang: {colour: red}",
       "p:3:8: gang.colour: unknown key; known here: planTimeout, bindTimeout, maxStanding"},
      {"gang: {? [a] : b}", "p:3:10: gang: a key must be a text, is a list"},
      {"mode: enforce\nmode: passthrough", "p:4:1: mode: duplicate key, first on line 3"},
      {"gang: {maxStanding: 1, \"maxStanding\": 2}",
       "p:3:24: gang.maxStanding: duplicate key, first on line 3"},
  });
}

TEST_CASE("types are exact") {
  CheckRefusals({
      {"mode: [enforce]", "p:3:7: mode: must be a text, is a list"},
      {"mode:", "p:3:1: mode: must be a text, is empty"},
      {"mode: ~", "p:3:1: mode: must be a text, is empty"},
      {"gang: 60s", "p:3:7: gang: must be a mapping, is a single value"},
      {"gang:", "p:3:1: gang: must be a mapping, is empty"},
      {"schedulerNames: berth", "p:3:17: schedulerNames: must be a list, is a single value"},
      {"resources: {devices: {name: a/b}}",
       "p:3:22: resources.devices: must be a list, is a mapping"},
      {"gang: {maxStanding: many}",
       "p:3:21: gang.maxStanding: must be a whole number, is \"many\""},
      {"gang: {maxStanding: '64'}",
       "p:3:21: gang.maxStanding: must be a whole number, is text in quotes"},
      {"placement: {score: {rank: high}}",
       "p:3:27: placement.score.rank: must be a number such as 1 or 0.5, is \"high\""},
  });
}

TEST_CASE("words are one of a few") {
  CheckRefusals({
      {"mode: enforced",
       "p:3:7: mode: must be enforce or passthrough, is \"enforced\" (did you mean enforce?)"},
      {"dialects: {kueue: yes}",
       "p:3:19: dialects.kueue: must be on or off or auto or true or false, is \"yes\""},
      {"resources: {devices: [{name: a/b, kind: shared}]}",
       "p:3:41: resources.devices[0].kind: must be whole or handles, is \"shared\""},
  });
}

TEST_CASE("numbers are decimal, exact and within their range") {
  CheckRefusals({
      {"placement: {maxNodesReturned: 0}",
       "p:3:31: placement.maxNodesReturned: must be from 1 to 100, is 0"},
      {"placement: {maxNodesReturned: 101}",
       "p:3:31: placement.maxNodesReturned: must be from 1 to 100, is 101"},
      {"gang: {maxStanding: 0100}",
       "p:3:21: gang.maxStanding: must not begin with 0 (YAML reads \"0100\" as octal)"},
      {"gang: {maxStanding: 1e3}", "p:3:21: gang.maxStanding: must be a whole number, is \"1e3\""},
      {"gang: {maxStanding: 1_000}",
       "p:3:21: gang.maxStanding: must be a whole number, is \"1_000\""},
      {"gang: {maxStanding: 0x10}",
       "p:3:21: gang.maxStanding: must be a whole number, is \"0x10\""},
      {"gang: {maxStanding: 100001}",
       "p:3:21: gang.maxStanding: must be from 1 to 100000, is 100001"},
      {"gang: {maxStanding: 99999999999999999999}",
       "p:3:21: gang.maxStanding: too large: \"99999999999999999999\""},
      {"placement: {score: {rank: -1}}",
       "p:3:27: placement.score.rank: must be from 0 to 1000, is -1"},
      {"placement: {score: {rank: 1000.001}}",
       "p:3:27: placement.score.rank: must be from 0 to 1000, is 1000.001"},
      {"placement: {score: {rank: 0.0001}}",
       "p:3:27: placement.score.rank: must have at most three decimals, is \"0.0001\""},
      {"placement: {score: {rank: .inf}}",
       "p:3:27: placement.score.rank: must be a number such as 1 or 0.5, is \".inf\""},
  });
}

TEST_CASE("durations are Go's, and a plan outlives a bind") {
  CheckRefusals({
      {"gang: {bindTimeout: 20}", "p:3:21: gang.bindTimeout: has no unit: write 20s"},
      {"gang: {bindTimeout: 20 seconds}",
       "p:3:21: gang.bindTimeout: must be a duration such as 60s, 1m30s or 500ms, is "
       "\"20 seconds\""},
      {"gang: {bindTimeout: 999ms}", "p:3:21: gang.bindTimeout: must be from 1s to 5m0s, is 999ms"},
      {"gang: {bindTimeout: -5s}",
       "p:3:21: gang.bindTimeout: must be a duration such as 60s, 1m30s or 500ms, is \"-5s\""},
      {"gang: {planTimeout: 10m, bindTimeout: 5m1s}",
       "p:3:39: gang.bindTimeout: must be from 1s to 5m0s, is 5m1s"},
      {"gang: {planTimeout: 25h}", "p:3:21: gang.planTimeout: must be from 1s to 24h0m0s, is 25h"},
      {"gang: {planTimeout: 19s}",
       "p:3:21: gang.planTimeout: gang.planTimeout (19s) must not be less than gang.bindTimeout "
       "(20s)"},
      {"gang: {bindTimeout: 90s}",
       "p:3:21: gang.bindTimeout: gang.planTimeout (1m0s) must not be less than gang.bindTimeout "
       "(1m30s)"},
  });
  CHECK(Decoded("gang: {planTimeout: 20s, bindTimeout: 20s}").gang.plan_timeout == seconds{20});
}

TEST_CASE("scheduler names are names, and some") {
  CheckRefusals({
      {"schedulerNames: []", "p:3:17: schedulerNames: must not be empty: no pod would be Berth's"},
      {"schedulerNames: [Berth]",
       "p:3:18: schedulerNames[0]: must be a scheduler name (a DNS name), is \"Berth\""},
      {"schedulerNames: [a, a]", "p:3:21: schedulerNames[1]: \"a\" is already on line 3"},
  });
}

TEST_CASE("devices are extended resources") {
  const auto row = [](const std::string& devices) {
    return ErrorsOf(kHeader + "resources: {devices: [" + devices + "]}");
  };
  CHECK(row("") ==
        Lines{"p:3:22: resources.devices: must not be empty: nothing would be scheduled"});
  CHECK(row("{kind: whole}") == Lines{"p:3:23: resources.devices[0].name: missing"});
  CHECK(row("{name: a/b}, {name: a/b}") ==
        Lines{"p:3:43: resources.devices[1].name: \"a/b\" is already on line 3"});
  for (const std::string name :
       {"cpu", "gpu", "nvidia.com/", "/gpu", "nvidia.com/g u", "nvidia.com/gpu/2",
        "a.kubernetes.io/b", "NVIDIA.com/gpu", "requests.nvidia.com/gpu"}) {
    CHECK(row("{name: '" + name + "'}") ==
          Lines{"p:3:30: resources.devices[0].name: must be an extended resource such as "
                "nvidia.com/gpu, is \"" +
                name + "\""});
  }
}

TEST_CASE("levels end at the host") {
  const auto row = [](const std::string& levels) {
    return ErrorsOf(kHeader + "topology:\n  levels:\n" + levels);
  };
  const std::string host = "  - {name: host, nodeLabel: kubernetes.io/hostname}\n";
  CHECK(row(host).empty());
  CHECK(ErrorsOf(kHeader + "topology: {levels: []}") ==
        Lines{"p:3:20: topology.levels: must not be empty: list at least the host, "
              "kubernetes.io/hostname"});
  CHECK(row("  - {name: rack, nodeLabel: rack}\n") ==
        Lines{"p:5:29: topology.levels[0].nodeLabel: the last level must be the host, "
              "kubernetes.io/hostname"});
  CHECK(row(host + "  - {name: rack, nodeLabel: rack}\n") ==
        Lines{"p:5:29: topology.levels[0].nodeLabel: kubernetes.io/hostname is the host: it must "
              "be the last level",
              "p:6:29: topology.levels[1].nodeLabel: the last level must be the host, "
              "kubernetes.io/hostname"});
  CHECK(row("  - {name: Rack, nodeLabel: 'a b'}\n  - {nodeLabel: c}\n" + host) ==
        Lines{"p:5:12: topology.levels[0].name: must be a DNS label such as rack, is \"Rack\"",
              "p:5:29: topology.levels[0].nodeLabel: must be a label key such as "
              "topology.example.com/rack, is \"a b\"",
              "p:6:5: topology.levels[1].name: missing"});
  CHECK(row("  - {name: host, nodeLabel: x}\n  - {name: b, nodeLabel: x}\n" + host) ==
        Lines{"p:6:26: topology.levels[1].nodeLabel: \"x\" is already on line 5",
              "p:7:12: topology.levels[2].name: \"host\" is already on line 5"});
  std::string many;
  for (int i = 0; i < 16; ++i) {
    const std::string n = std::to_string(i);
    many += "  - {name: l" + n + ", nodeLabel: l" + n + "}\n";
  }
  CHECK(row(many + host) == Lines{"p:5:3: topology.levels: at most 16 entries, has 17"});
}

TEST_CASE("all errors come at once, in document order") {
  CHECK(ErrorsOf(kHeader + "queues:\n"
                           "- nam: a\n"
                           "placement: {maxNodesReturned: 0}\n"
                           "gang: {bindTimeout: 1}\n"
                           "colour: red\n") ==
        Lines{"p:4:3: queues[0].nam: unknown key, did you mean name?",
              "p:4:3: queues[0].name: missing",
              "p:5:31: placement.maxNodesReturned: must be from 1 to 100, is 0",
              "p:6:21: gang.bindTimeout: has no unit: write 1s",
              "p:7:1: colour: unknown key; known here: apiVersion, kind, mode, schedulerNames, "
              "dialects, resources, topology, placement, gang, borrowing, fairness, eviction, "
              "autoscaler, queues, flavors, classes"});
}

}  // namespace
}  // namespace berth::config
