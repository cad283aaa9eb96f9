// What a policy file may say of queues.
#include "config/decode.h"
#include "tests/support/catch.h"
#include "tests/unit/config/policies.h"

namespace berth::config {
namespace {

using testing::Decoded;
using testing::ErrorsOf;
using testing::kHeader;
using Lines = std::vector<std::string>;

/// Errors of a policy with these list elements, the first of them on line 4.
Lines QueueErrors(std::string_view queues) {
  return ErrorsOf(kHeader + "queues:\n" + std::string(queues));
}

/// The error of queue `a` with this one more key, on line 5.
std::string OneError(std::string_view key) {
  const Lines errors = QueueErrors("- name: a\n  " + std::string(key));
  CHECK(errors.size() == 1);
  return errors.empty() ? "" : errors.front();
}

TEST_CASE("a queue with everything") {
  const auto queues = Decoded(
                          "queues:\n"
                          "- name: science\n"
                          "- name: research\n"
                          "  parent: science\n"
                          "  namespaces: [research, '*']\n"
                          "  quota: {nvidia.com/gpu: 16, cpu: 1.5, memory: 2Gi}\n"
                          "  limit: {nvidia.com/gpu: '32', hugepages-2Mi: 4Mi}\n"
                          "  weight: 0.25\n")
                          .queues;
  REQUIRE(queues.size() == 2);
  CHECK(queues[0] == Queue{.name = "science"});
  CHECK_FALSE(queues[0].namespaces.has_value());
  CHECK(
      queues[1] ==
      Queue{.name = "research",
            .parent = "science",
            .namespaces = std::vector<std::string>{"research", "*"},
            .quota = {{"cpu", 1500}, {"memory", std::int64_t{2} << 30}, {"nvidia.com/gpu", 16'000}},
            .limit = {{"hugepages-2Mi", std::int64_t{4} << 20}, {"nvidia.com/gpu", 32'000}},
            .weight = 250});
}

TEST_CASE("no queues key is a queue for all, an empty list is a mistake") {
  REQUIRE(Decoded("").queues.size() == 1);
  CHECK(Decoded("").queues[0].name == "default");
  CHECK(ErrorsOf(kHeader + "queues: []") ==
        Lines{"p:3:9: queues: an empty list admits no pod at all: name a queue, or leave the key "
              "out for one queue default that admits all"});
  CHECK(ErrorsOf(kHeader + "queues:") == Lines{"p:3:1: queues: must be a list, is empty"});
  CHECK(QueueErrors("- default") ==
        Lines{"p:4:3: queues[0]: must be a mapping, is a single value"});
}

TEST_CASE("queue names are DNS labels and unique") {
  CHECK(QueueErrors("- quota: {}") == Lines{"p:4:3: queues[0].name: missing"});
  for (const std::string name : {"Research", "a.b", "-a", "a-", "", "a b"}) {
    CHECK(QueueErrors("- name: '" + name + "'") ==
          Lines{"p:4:9: queues[0].name: must be a DNS label such as team-a, is \"" + name + "\""});
  }
  CHECK(QueueErrors("- name: '*'").size() == 1);
  CHECK(QueueErrors("- name: 7up").empty());
  CHECK(QueueErrors("- name: a\n- name: b\n- name: a") ==
        Lines{"p:6:9: queues[2].name: \"a\" is already on line 4"});
}

TEST_CASE("a parent may be a plain group, and is not below its child") {
  CHECK(QueueErrors("- {name: a, parent: b}\n- {name: b}").empty());
  CHECK(QueueErrors("- {name: a, parent: not-listed}").empty());
  CHECK(QueueErrors("- {name: a, parent: a}") ==
        Lines{"p:4:21: queues[0].parent: a queue cannot be its own ancestor: a -> a"});
  CHECK(QueueErrors("- {name: in, parent: a}\n- {name: b, parent: c}\n"
                    "- {name: a, parent: b}\n- {name: c, parent: a}") ==
        Lines{"p:5:21: queues[1].parent: a queue cannot be its own ancestor: b -> c -> a -> b"});
}

TEST_CASE("what is lent is at most the quota, of devices") {
  const auto errors = [](const std::string& keys) {
    return QueueErrors("- {name: a, " + keys + "}");
  };
  CHECK(errors("quota: {nvidia.com/gpu: 8}, lendingLimit: {nvidia.com/gpu: 8}").empty());
  CHECK(errors("quota: {nvidia.com/gpu: 8}, lendingLimit: {nvidia.com/gpu: 0}").empty());
  CHECK(errors("quota: {nvidia.com/gpu: 8}, lendingLimit: {nvidia.com/gpu: 9}") ==
        Lines{"p:4:72: queues[0].lendingLimit[nvidia.com/gpu]: must not be more than the quota: "
              "9 > 8"});
  CHECK(errors("lendingLimit: {nvidia.com/gpu: 1}") ==
        Lines{"p:4:44: queues[0].lendingLimit[nvidia.com/gpu]: has no quota that could be lent"});
  CHECK(errors("quota: {cpu: 8}, lendingLimit: {cpu: 4}") ==
        Lines{"p:4:50: queues[0].lendingLimit.cpu: must be a resource of resources.devices"});
}

TEST_CASE("borrowing, holds and what decides between siblings") {
  const PolicyConfiguration policy = Decoded(
      "borrowing: on\nqueues:\n- {name: a, weight: 0, priority: -3, hold: hold}\n- {name: b}\n");
  CHECK(policy.borrowing);
  CHECK(Decoded("borrowing: true\n").borrowing);
  CHECK_FALSE(Decoded("borrowing: false\n").borrowing);
  CHECK(Decoded("").borrowing);
  CHECK(policy.queues[0].weight == 0);
  CHECK(policy.queues[0].priority == -3);
  CHECK(policy.queues[0].hold == Hold::kHold);
  CHECK(policy.queues[1].hold == Hold::kNone);
  CHECK(QueueErrors("- {name: a, hold: drain}").size() == 1);
  CHECK(QueueErrors("- {name: a, weight: -1}").size() == 1);
}

TEST_CASE("what a queue admits, and its order") {
  const PolicyConfiguration policy = Decoded(
      "queues:\n"
      "- {name: a, order: predictedService, nonPreemptible: deny, classes: [training],\n"
      "   priorityClasses: [high, system.low]}\n"
      "- {name: b, priorityClasses: [], classes: []}\n"
      "- {name: c}\n"
      "classes:\n"
      "- {name: training}\n"
      "- {name: interactive, preemptible: false}\n");
  const std::vector<Queue>& queues = policy.queues;
  CHECK(queues[0].order == Order::kPredictedService);
  CHECK_FALSE(queues[0].non_preemptible);
  CHECK(queues[0].classes == std::vector<std::string>{"training"});
  CHECK(queues[0].priority_classes == std::vector<std::string>{"high", "system.low"});
  CHECK(queues[1].classes == std::vector<std::string>{});
  CHECK(queues[1].priority_classes == std::vector<std::string>{});
  CHECK(queues[2] == Queue{.name = "c"});
  CHECK(policy.classes == std::vector<WorkloadClass>{
                              {.name = "training"}, {.name = "interactive", .preemptible = false}});
  CHECK(QueueErrors("- {name: a, classes: [trainin]}\nclasses: [{name: training}]") ==
        Lines{"p:4:23: queues[0].classes[0]: classes has no \"trainin\", did you mean training?"});
  CHECK(QueueErrors("- {name: a, classes: [x]}") ==
        Lines{"p:4:23: queues[0].classes[0]: classes has no \"x\""});
  CHECK(QueueErrors("- {name: a, nonPreemptible: maybe}").size() == 1);
  CHECK(QueueErrors("- {name: a, order: lifo}").size() == 1);
  CHECK(QueueErrors("- {name: a, priorityClasses: [High]}").size() == 1);
  CHECK(ErrorsOf(kHeader + "classes: [{name: a, preemptible: maybe}]").size() == 1);
  CHECK(ErrorsOf(kHeader + "classes: [{name: a}, {name: a}]").size() == 1);
}

TEST_CASE("flavors, and amounts of them") {
  const std::string flavors =
      "flavors:\n"
      "- {name: h100, nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}}\n"
      "- {name: rest}\n";
  const PolicyConfiguration policy = Decoded(
      "queues:\n- {name: a, quotas: [{flavor: h100, quota: {nvidia.com/gpu: 8}, "
      "limit: {nvidia.com/gpu: 16}}]}\n" +
      flavors);
  CHECK(
      policy.flavors ==
      std::vector<Flavor>{
          {.name = "h100", .node_selector = {{"nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3"}}},
          {.name = "rest"}});
  CHECK(policy.queues[0].quotas ==
        std::vector<FlavorQuota>{{.flavor = "h100",
                                  .quota = {{"nvidia.com/gpu", 8000}},
                                  .limit = {{"nvidia.com/gpu", 16'000}}}});
  const auto errors = [&](const std::string& quotas) {
    return QueueErrors("- {name: a, quotas: [" + quotas + "]}\n" + flavors);
  };
  CHECK(errors("{flavor: h10}") ==
        Lines{"p:4:31: queues[0].quotas[0].flavor: flavors has no \"h10\", did you mean h100?"});
  CHECK(errors("{flavor: h100, quota: {nvidia.com/gpu: 8}, limit: {nvidia.com/gpu: 4}}") ==
        Lines{"p:4:89: queues[0].quotas[0].limit[nvidia.com/gpu]: must not be less than the "
              "quota: 4 < 8"});
  CHECK(errors("{flavor: h100}, {flavor: h100}").size() == 1);
  CHECK(errors("{quota: {cpu: 1}}").size() == 1);
  CHECK(errors("{flavor: h100, quota: {nvidia.com/gpus: 1}}").size() == 1);
  CHECK(ErrorsOf(kHeader + "flavors: [{name: a, nodeSelector: {a b: c}}]").size() == 1);
  CHECK(ErrorsOf(kHeader + "flavors: [{name: a, nodeSelector: {a: 'b c'}}]").size() == 1);
  CHECK(ErrorsOf(kHeader + "flavors: [{name: a, nodeSelector: [b]}]").size() == 1);
}

TEST_CASE("a stored policy protects what it does not understand", "[unit][config]") {
  const std::string queue =
      "queues:\n- {name: a, namespaces: ['*'], quotas: [{flavor: x, limit: {nvidia.com/gpu: 1}}]}\n"
      "- {name: b, namespaces: ['*']}\n";
  for (const std::string flavor :
       {"{name: x, matchExpressions: []}", "{name: x, nodeSelector: 3}"}) {
    INFO(flavor);
    const auto stored = DecodeStoredPolicy(kHeader + queue + "flavors: [" + flavor + "]\n", "p");
    REQUIRE(stored.has_value());
    CHECK(stored->policy.queues[0].namespaces == std::vector<std::string>{});
    CHECK(stored->policy.queues[1].namespaces == std::vector<std::string>{"*"});
  }
  const auto stored =
      DecodeStoredPolicy(kHeader + "classes: [{name: x, evict: never}, {name: y}]\n", "p");
  REQUIRE(stored.has_value());
  CHECK_FALSE(stored->policy.classes[0].preemptible);
  CHECK(stored->policy.classes[1].preemptible);
}

TEST_CASE("how a queue is shared, and how many jobs a user may have", "[unit][config]") {
  const std::vector<Queue> queues = Decoded(
                                        "queues:\n"
                                        "- {name: a, fairWithin: user, maxJobsPerUser: 1}\n"
                                        "- {name: b, fairWithin: namespace}\n"
                                        "- {name: c, fairWithin: none, maxJobsPerUser: 1000000}\n")
                                        .queues;
  CHECK(queues[0] == Queue{.name = "a", .fair_within = FairWithin::kUser, .max_jobs_per_user = 1});
  CHECK(queues[1] == Queue{.name = "b", .fair_within = FairWithin::kNamespace});
  CHECK(queues[2] == Queue{.name = "c", .max_jobs_per_user = 1'000'000});
  CHECK(QueueErrors("- {name: a, fairWithin: team}") ==
        Lines{"p:4:25: queues[0].fairWithin: must be none or namespace or user, is \"team\""});
  for (const std::string wrong :
       {"0", "-1", "1000001", "1.5", "two", "99999999999999999999", "[1]"}) {
    INFO(wrong);
    const Lines errors = QueueErrors("- {name: a, maxJobsPerUser: " + wrong + "}");
    REQUIRE(errors.size() == 1);
    CHECK_THAT(errors[0], Catch::StartsWith("p:4:29: queues[0].maxJobsPerUser: "));
  }
}

TEST_CASE("how long work of a queue is not evicted", "[unit][config]") {
  const std::vector<Queue> queues = Decoded(
                                        "queues:\n"
                                        "- {name: a, minRunTime: 1h30m}\n"
                                        "- {name: b, minRunTime: 720h}\n"
                                        "- {name: c, minRunTime: 0s}\n")
                                        .queues;
  CHECK(queues[0].min_run_time == std::chrono::minutes{90});
  CHECK(queues[1].min_run_time == std::chrono::hours{720});
  CHECK(queues[2] == Queue{.name = "c"});
  for (const std::string wrong : {"720h1ms", "-1s", "10", "soon", "[1s]", "9999999999999h"}) {
    INFO(wrong);
    const Lines errors = QueueErrors("- {name: a, minRunTime: " + wrong + "}");
    REQUIRE(errors.size() == 1);
    CHECK_THAT(errors[0], Catch::StartsWith("p:4:25: queues[0].minRunTime: "));
    const auto stored = DecodeStoredPolicy(
        kHeader + "queues:\n- {name: b}\n- {name: a, minRunTime: " + wrong + "}\n", "p");
    REQUIRE(stored.has_value());
    CHECK(stored->policy.queues[0].min_run_time.count() == 0);
    CHECK(stored->policy.queues[1].min_run_time == std::chrono::hours{720});
  }
}

TEST_CASE("how long work of a class is not evicted", "[unit][config]") {
  const std::vector<WorkloadClass> classes =
      Decoded("classes: [{name: x, minRunTime: 1h30m}, {name: y}]\n").classes;
  CHECK(classes[0].min_run_time == std::chrono::minutes{90});
  CHECK(classes[1].min_run_time.count() == 0);
  const std::string wrong = "classes: [{name: x, minRunTime: 721h}]\n";
  const Lines errors = ErrorsOf(kHeader + wrong);
  REQUIRE(errors.size() == 1);
  CHECK_THAT(errors[0], Catch::StartsWith("p:3:33: classes[0].minRunTime: "));
  // It may have been meant to protect what runs.
  CHECK_FALSE(DecodeStoredPolicy(kHeader + wrong, "p")->policy.classes[0].preemptible);
}

TEST_CASE("a stored policy keeps a queue closed if what it admits was not understood") {
  for (const std::string key : {"classes: [x]", "nonPreemptible: maybe", "priorityClasses: 3",
                                "quotas: [{flavor: none}]", "maxJobsPerUser: many"}) {
    INFO(key);
    const auto stored =
        DecodeStoredPolicy(kHeader + "queues:\n- {name: a, namespaces: ['*'], " + key + "}\n", "p");
    REQUIRE(stored.has_value());
    REQUIRE(stored->policy.queues.size() == 1);
    CHECK(stored->policy.queues[0].namespaces == std::vector<std::string>{});
    CHECK(stored->policy.queues[0].quotas.empty());
  }
}

TEST_CASE("a tree of queues is at most 16 levels deep") {
  const auto chain = [](int levels, const std::string& top = "{name: q1}") {
    std::string queues = "- " + top + "\n";
    for (int i = 2; i <= levels; ++i) {
      queues += "- {name: q" + std::to_string(i) + ", parent: q" + std::to_string(i - 1) + "}\n";
    }
    return QueueErrors(queues);
  };
  CHECK(chain(16).empty());
  const Lines error{"p:20:23: queues[16].parent: a tree of queues is at most 16 levels deep"};
  CHECK(chain(17) == error);
  CHECK(chain(40) == error);
  // A parent that is not named is a level, too.
  CHECK(chain(15, "{name: q1, parent: org}").empty());
  CHECK_FALSE(chain(16, "{name: q1, parent: org}").empty());
}

TEST_CASE("namespaces are names or the star") {
  CHECK(Decoded("queues: [{name: a, namespaces: []}]").queues[0].namespaces ==
        std::vector<std::string>{});
  CHECK(OneError("namespaces: [team_a]") ==
        "p:5:16: queues[0].namespaces[0]: must be a namespace or \"*\", is \"team_a\"");
  CHECK(OneError("namespaces: [x, x]") ==
        "p:5:19: queues[0].namespaces[1]: \"x\" is already on line 5");
  CHECK(OneError("namespaces: [~]") == "p:5:16: queues[0].namespaces[0]: must be a text, is empty");
  CHECK(OneError("namespaces: team-a") ==
        "p:5:15: queues[0].namespaces: must be a list, is a single value");
}

TEST_CASE("amounts are quantities of resources that the policy knows") {
  CHECK(OneError("quota: {nvidia.com/gpus: 1}") ==
        "p:5:11: queues[0].quota[nvidia.com/gpus]: not a resource of this policy, did you mean "
        "nvidia.com/gpu?");
  CHECK(OneError("quota: {example.org/licence: 1}") ==
        "p:5:11: queues[0].quota[example.org/licence]: not a resource of this policy: list it "
        "under resources.devices");
  CHECK(OneError("quota: {gpu: 1}").starts_with("p:5:11: queues[0].quota.gpu: not a resource"));
  CHECK(OneError("quota: {cpu: -1}").starts_with("p:5:16: queues[0].quota.cpu: "));
  CHECK(OneError("quota: {cpu: lots}").starts_with("p:5:16: queues[0].quota.cpu: "));
  CHECK(OneError("quota: {cpu: 010}") ==
        "p:5:16: queues[0].quota.cpu: must not begin with 0 (YAML reads \"010\" as octal)");
  CHECK(OneError("quota: {cpu: [1]}") == "p:5:16: queues[0].quota.cpu: must be a text, is a list");
  CHECK(OneError("quota: {memory: 9999999E}") ==
        "p:5:19: queues[0].quota.memory: too large: \"9999999E\"");
  CHECK(OneError("quota: {nvidia.com/gpu: 500m}") ==
        "p:5:27: queues[0].quota[nvidia.com/gpu]: must be whole devices, is \"500m\"");
  CHECK(OneError("quota: {cpu: 1, cpu: 2}") ==
        "p:5:19: queues[0].quota.cpu: duplicate key, first on line 5");
  CHECK(OneError("limit: 5") == "p:5:10: queues[0].limit: must be a mapping, is a single value");
}

TEST_CASE("amounts may name every device of the same file, wherever it stands") {
  CHECK(ErrorsOf(kHeader + "queues: [{name: a, quota: {amd.com/gpu: 8}}]\n"
                           "resources: {devices: [{name: amd.com/gpu}]}\n")
            .empty());
}

TEST_CASE("a limit is at least the quota") {
  CHECK(OneError("{quota: {cpu: 1}") != "");  // Not YAML at all: reported, not crashed on.
  CHECK(QueueErrors("- name: a\n  limit: {cpu: 0.5, memory: 1}\n  quota: {cpu: 1, memory: 1}") ==
        Lines{"p:5:16: queues[0].limit.cpu: must not be less than the quota: 500m < 1"});
  CHECK(QueueErrors("- name: a\n  limit: {nvidia.com/gpu: 0}").empty());
}

TEST_CASE("a weight is zero to a thousand") {
  CHECK(OneError("weight: -0.001") ==
        "p:5:11: queues[0].weight: must be from 0 to 1000, is -0.001");
  CHECK(OneError("weight: 1001") == "p:5:11: queues[0].weight: must be from 0 to 1000, is 1001");
}

}  // namespace
}  // namespace berth::config
