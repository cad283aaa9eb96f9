#include "config/policy_warnings.h"

#include "tests/support/catch.h"
#include "tests/unit/config/policies.h"

namespace berth::config {
namespace {

using Names = std::vector<std::string>;
using testing::Decoded;

std::string WarningOf(std::vector<Queue> queues) {
  PolicyConfiguration policy;
  policy.queues = std::move(queues);
  const auto warnings = PolicyWarnings(policy);
  REQUIRE(warnings.size() <= 1);
  return warnings.empty() ? std::string() : warnings.front();
}

TEST_CASE("a policy that refuses unlabelled pods, or all pods, is warned of") {
  const Queue team{.name = "team", .namespaces = Names{"team"}};
  const Queue open{.name = "open", .namespaces = Names{"team", "*"}};
  const Queue group{.name = "group"};
  const Queue empty{.name = "empty", .namespaces = Names{}};
  const auto fallback = [](Names names) { return Queue{.name = "default", .namespaces = names}; };
  CHECK(PolicyWarnings(PolicyConfiguration{}).empty());
  CHECK(WarningOf({team, fallback({"*"})}).empty());
  CHECK(WarningOf({team, open, fallback({"a", "*"})}).empty());
  CHECK(WarningOf({group, empty}).find("every pod") != std::string::npos);
  CHECK(WarningOf({team, group}).find("add a queue default") != std::string::npos);
  for (const auto& queues :
       {std::vector{team, fallback({"a"})}, std::vector{team, Queue{.name = "default"}}}) {
    CHECK(WarningOf(queues).find("add \"*\" to the namespaces of queue default") !=
          std::string::npos);
  }
  CHECK(WarningOf({team, open}).find("queue open admits all") != std::string::npos);
  CHECK(WarningOf({open, fallback({"a"})}).find("queue open admits all") != std::string::npos);
}

std::vector<std::string> OfTree(const std::string& queues) {
  return PolicyWarnings(Decoded("queues:\n- {name: default, namespaces: ['*']}\n" + queues));
}

TEST_CASE("quotas that exceed what is above them", "[unit][config]") {
  const std::string top = "- {name: top, quota: {nvidia.com/gpu: 16}}\n";
  const std::string a = "- {name: a, parent: top, namespaces: [a], quota: {nvidia.com/gpu: 10}}\n";
  const auto group = [](int gpus) {
    return "- {name: g, parent: top}\n- {name: b, parent: g, namespaces: [b], quota: "
           "{nvidia.com/gpu: " +
           std::to_string(gpus) + "}}\n";
  };
  CHECK(OfTree(top + a + group(6)).empty());
  CHECK(OfTree(top + a + group(7)) ==
        std::vector<std::string>{
            "queues: the quotas below top add up to 17 of nvidia.com/gpu; it has 16"});
  // Where there is no quota, the limit is what it has; a plain group has nothing.
  CHECK(OfTree("- {name: top, limit: {nvidia.com/gpu: 9}}\n" + a).size() == 1);
  CHECK(OfTree("- {name: c, parent: group, namespaces: [c], quota: {cpu: 9}}\n").empty());
}

TEST_CASE("flavors that are promised more than there is", "[unit][config]") {
  const std::string flavors = "flavors: [{name: x, nodeSelector: {m: x}}, {name: y}]\n";
  const auto queue = [&](const char* totals, int x, int y) {
    return OfTree("- {name: a, namespaces: [a], " + std::string(totals) +
                  "quotas: [{flavor: x, quota: {nvidia.com/gpu: " + std::to_string(x) +
                  "}}, {flavor: y, quota: {nvidia.com/gpu: " + std::to_string(y) + "}}]}\n" +
                  flavors);
  };
  CHECK(queue("", 9, 9).empty());
  CHECK(queue("quota: {nvidia.com/gpu: 8}, ", 4, 4).empty());
  CHECK(queue("quota: {nvidia.com/gpu: 8}, ", 4, 5) ==
        std::vector<std::string>{
            "queues: the flavors of a are promised 9 of nvidia.com/gpu; its quota is 8"});
  CHECK(queue("limit: {nvidia.com/gpu: 8}, ", 4, 5) ==
        std::vector<std::string>{
            "queues: the flavors of a are promised 9 of nvidia.com/gpu; its limit is 8"});
  // Where no total is said, it is their sum.
  CHECK(OfTree("- {name: top, quota: {nvidia.com/gpu: 4}}\n"
               "- {name: a, parent: top, namespaces: [a], quotas: [{flavor: x, quota: "
               "{nvidia.com/gpu: 5}}]}\n" +
               flavors) ==
        std::vector<std::string>{
            "queues: the quotas below top add up to 5 of nvidia.com/gpu; it has 4"});
  // Along the tree, flavor by flavor.
  const std::string below =
      "- {name: top, quotas: [{flavor: x, quota: {nvidia.com/gpu: 4}}]}\n"
      "- {name: a, parent: top, namespaces: [a], quotas: [{flavor: x, quota: {nvidia.com/gpu: "
      "5}}]}\n";
  CHECK(OfTree(below + flavors) ==
        std::vector<std::string>{"queues: the quotas below top add up to 5 of nvidia.com/gpu of "
                                 "flavor x; it has 4"});
}

TEST_CASE("flavors and classes without effect", "[unit][config]") {
  CHECK(OfTree("flavors: [{name: all}, {name: x, nodeSelector: {m: x}}]\n") ==
        std::vector<std::string>{
            "flavors: no node is of x: all, which comes before it, has no nodeSelector"});
  CHECK(
      OfTree("flavors: [{name: x, nodeSelector: {m: x}}, {name: y, nodeSelector: {m: x, n: y}}, "
             "{name: z, nodeSelector: {n: y}}]\n") ==
      std::vector<std::string>{"flavors: no node is of y: x, which comes before it, selects every "
                               "node that it selects"});
  const std::string classes = "classes: [{name: web, preemptible: false}, {name: batch}]\n";
  CHECK(OfTree("- {name: a, namespaces: [a], nonPreemptible: deny, classes: [web]}\n" + classes) ==
        std::vector<std::string>{"queues: a admits only classes that are not preemptible, and has "
                                 "nonPreemptible: deny"});
  CHECK(OfTree("- {name: a, namespaces: [a], nonPreemptible: deny, classes: [web, batch]}\n" +
               classes)
            .empty());
}

TEST_CASE("a key that has no effect", "[unit][config]") {
  const std::string a =
      "- {name: a, namespaces: [a], quota: {nvidia.com/gpu: 8}, lendingLimit: {nvidia.com/gpu: "
      "4}}\n";
  CHECK(OfTree(a + "borrowing: off\n") ==
        std::vector<std::string>{"queues: lendingLimit of a has no effect without borrowing: on"});
  CHECK(OfTree(a).empty());
}

TEST_CASE("quotas that the policy may mean as caps", "[unit][config]") {
  const auto warnings = [](const std::string& text) {
    return PolicyWarnings(text, *DecodePolicy(text, "p"));
  };
  const std::string head = "apiVersion: berth.dev/v1alpha1\nkind: PolicyConfiguration\n";
  const std::string all = "- {name: default, namespaces: ['*']}\n";
  const std::string a = "queues:\n- {name: a, namespaces: [a], quota: {nvidia.com/gpu: 8}}\n" + all;
  const auto found = warnings(head + a);
  REQUIRE(found.size() == 1);
  CHECK(found[0].starts_with("queues: the quota of a is not a cap: without a limit"));
  CHECK(warnings(head + "borrowing: on\n" + a).empty());
  CHECK(warnings(head + "borrowing: off\n" + a).empty());
  CHECK(warnings(head +
                 "queues:\n- {name: a, namespaces: [a], quota: {nvidia.com/gpu: 8}, "
                 "limit: {nvidia.com/gpu: 8}}\n" +
                 all)
            .empty());
  CHECK(warnings(head +
                 "queues:\n- {name: a, namespaces: [a], quotas: [{flavor: h, quota: "
                 "{nvidia.com/gpu: 8}}]}\n" +
                 all + "flavors: [{name: h, nodeSelector: {x: h}}]\n")
            .size() == 1);
  std::string many = head + "queues:\n" + all;
  for (int i = 0; i < 7; ++i) many += "- {name: q" + std::to_string(i) + ", quota: {cpu: 1}}\n";
  CHECK(warnings(many).back().starts_with("queues: the quota of q0, q1, q2, q3, q4 and 2 more is"));
}

TEST_CASE("limits alone, which promise nothing", "[unit][config]") {
  const auto warnings = [](const std::string& text) {
    return PolicyWarnings(text, *DecodePolicy(text, "p"));
  };
  const std::string head = "apiVersion: berth.dev/v1alpha1\nkind: PolicyConfiguration\n";
  const std::string all = "- {name: default, namespaces: ['*']}\n";
  const auto queue = [](const char* amounts) {
    return "queues:\n- {name: a, namespaces: [a], " + std::string(amounts) + "}\n";
  };
  const std::string limited = queue("limit: {nvidia.com/gpu: 8}");
  const auto found = warnings(head + limited + all);
  REQUIRE(found.size() == 1);
  CHECK(found[0].starts_with("queues: the limit of a promises nothing: without a quota"));
  CHECK(warnings(head + "borrowing: on\n" + limited + all).empty());
  CHECK(warnings(head + "borrowing: off\n" + limited + all).empty());
  // There is nobody to share with.
  CHECK(
      warnings(head + "queues:\n- {name: default, namespaces: ['*'], limit: {cpu: 8}}\n").empty());
  // A limit beside a quota of another resource.
  CHECK(warnings(head + queue("quota: {nvidia.com/gpu: 8}, limit: {nvidia.com/gpu: 8, cpu: 64}") +
                 all)
            .empty());
}

TEST_CASE("sharing among users where there are none", "[unit][config]") {
  const std::string below = "- {name: b, parent: a, namespaces: [b]}\n";
  CHECK(OfTree("- {name: a, fairWithin: user, maxJobsPerUser: 2}\n" + below) ==
        std::vector<std::string>{
            "queues: fairWithin of a has no effect: without namespaces it has no work of its own",
            "queues: maxJobsPerUser of a has no effect: without namespaces it has no work of its "
            "own"});
  CHECK(OfTree("- {name: a, namespaces: [a], fairWithin: namespace}\n") ==
        std::vector<std::string>{
            "queues: fairWithin of a has no effect: it admits one namespace only"});
  CHECK(OfTree("- {name: a, namespaces: [a, b], fairWithin: namespace}\n").empty());
  CHECK(OfTree("- {name: a, namespaces: ['*'], fairWithin: namespace}\n").empty());
  CHECK(OfTree("- {name: a, namespaces: [a], fairWithin: user, maxJobsPerUser: 1, order: "
               "predictedService}\n")
            .empty());
}

TEST_CASE("a queue that no pod can use", "[unit][config]") {
  CHECK(OfTree("- {name: a, parent: b, namespaces: [x]}\n- {name: b}\n- {name: c, parent: b}") ==
        std::vector<std::string>{
            "queues: nobody can use c: it has no namespaces, and no queue is below it"});
  CHECK(OfTree("- {name: a, limit: {nvidia.com/gpu: 8}}\n- {name: b, weight: 2}\n").size() == 2);
  CHECK(OfTree("- {name: a, quota: {nvidia.com/gpu: 8}}\n- {name: b}\n") ==
        std::vector<std::string>{
            "queues: nobody can use a: it has no namespaces, and no queue is below it"});
}

TEST_CASE("what all quotas promise is added up from the top of the tree", "[config]") {
  const auto queue = [](const char* name, const char* parent, int gpus) {
    Queue made{.name = name, .parent = parent};
    if (gpus > 0) made.quota["nvidia.com/gpu"] = gpus;
    return made;
  };
  PolicyConfiguration policy;
  // 8 of a, whatever is below it; 3 of the queue below b, which has none; 2 below a plain group.
  policy.queues = {queue("a", "", 8), queue("a1", "a", 5), queue("b", "", 0), queue("b1", "b", 3),
                   queue("c", "group", 2)};
  CHECK(PromisedInAll(policy, "nvidia.com/gpu") == 13);
  CHECK(PromisedInAll(policy, "cpu") == 0);
}

}  // namespace
}  // namespace berth::config
