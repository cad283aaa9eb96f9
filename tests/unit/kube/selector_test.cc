// Selectors, taints and host ports: the questions of kube-scheduler's filter plugins.
#include "kube/selector.h"

#include <optional>
#include <string>
#include <vector>

#include "tests/support/catch.h"

namespace berth::kube {
namespace {

using enum SelectorOperator;
using Values = std::vector<std::string>;

Node MakeNode(std::string name, StringMap labels) {
  Node node;
  node.meta.name = std::move(name);
  node.meta.labels = std::move(labels);
  return node;
}

struct RequirementRow {
  SelectorOperator op;
  Values values;
  std::optional<std::string> label;  // The value of label `k`; absent: the node has none.
  bool holds;
};

TEST_CASE("a requirement asks one label", "[unit][kube]") {
  const std::vector<RequirementRow> rows = {
      {kIn, {"a", "b"}, "b", true},
      {kIn, {"a", "b"}, "c", false},
      {kIn, {"a"}, std::nullopt, false},
      {kNotIn, {"a"}, "b", true},
      {kNotIn, {"a"}, "a", false},
      {kNotIn, {"a"}, std::nullopt, true},  // Also without the label.
      {kExists, {}, "", true},
      {kExists, {}, std::nullopt, false},
      {kDoesNotExist, {}, std::nullopt, true},
      {kDoesNotExist, {}, "a", false},
      {kGt, {"7"}, "8", true},
      {kGt, {"7"}, "7", false},
      {kGt, {"9"}, "10", true},  // As numbers: not as texts.
      {kGt, {"-3"}, "-2", true},
      {kLt, {"7"}, "6", true},
      {kLt, {"7"}, "7", false},
      {kLt, {"7"}, std::nullopt, false},
      {kGt, {"7"}, "8.5", false},  // Not an integer.
      {kGt, {"7"}, "9223372036854775808", false},
      {kGt, {"7"}, "+8", true},
      {kGt, {"7"}, "+-8", false},
  };
  for (const RequirementRow& row : rows) {
    const Requirement requirement{.key = "k", .op = row.op, .values = row.values};
    StringMap labels{{"other", "x"}};
    if (row.label) labels["k"] = *row.label;
    INFO("row " << &row - rows.data());
    CHECK(MatchesNode(requirement, labels) == row.holds);
  }
}

TEST_CASE("what the API server would refuse never holds", "[unit][kube]") {
  const StringMap labels{{"k", "7"}};
  const std::vector<Requirement> rows = {
      {.key = "k", .op = kIn, .values = {}},
      {.key = "other", .op = kNotIn, .values = {}},
      {.key = "k", .op = kExists, .values = {"7"}},
      {.key = "other", .op = kDoesNotExist, .values = {"7"}},
      {.key = "k", .op = kGt, .values = {}},
      {.key = "k", .op = kGt, .values = {"1", "2"}},
      {.key = "k", .op = kLt, .values = {"many"}},
  };
  for (const Requirement& requirement : rows) {
    INFO("row " << &requirement - rows.data());
    CHECK_FALSE(MatchesNode(requirement, labels));
  }
}

TEST_CASE("a label selector wants all; an empty one matches all, an absent one none",
          "[unit][kube]") {
  const StringMap labels{{"app", "train"}, {"tier", "gpu"}};
  CHECK(Matches(LabelSelector{}, labels));
  CHECK(Matches(LabelSelector{}, StringMap{}));
  CHECK_FALSE(Matches(std::optional<LabelSelector>{}, labels));
  CHECK(Matches(std::optional<LabelSelector>{LabelSelector{}}, labels));

  const Requirement app{.key = "app", .op = kIn, .values = {"train"}};
  const Requirement not_cpu{.key = "tier", .op = kNotIn, .values = {"cpu"}};
  const Requirement no_tier{.key = "tier", .op = kDoesNotExist, .values = {}};
  CHECK(Matches(LabelSelector{{app, not_cpu}}, labels));
  CHECK_FALSE(Matches(LabelSelector{{app, no_tier}}, labels));
  // Gt is of node selectors only.
  CHECK_FALSE(
      Matches(LabelSelector{{{.key = "n", .op = kGt, .values = {"1"}}}}, StringMap{{"n", "2"}}));
}

TEST_CASE("node affinity: terms are ORed, what is in a term is ANDed", "[unit][kube]") {
  const Node node = MakeNode("node-1", {{"zone", "a"}, {"gpu", "h100"}});
  const Requirement zone_a{.key = "zone", .op = kIn, .values = {"a"}};
  const Requirement zone_b{.key = "zone", .op = kIn, .values = {"b"}};
  const Requirement gpu{.key = "gpu", .op = kExists, .values = {}};
  const Requirement named_1{.key = "metadata.name", .op = kIn, .values = {"node-1"}};
  const Requirement named_2{.key = "metadata.name", .op = kIn, .values = {"node-2"}};
  const Requirement not_2{.key = "metadata.name", .op = kNotIn, .values = {"node-2"}};

  struct Row {
    std::vector<NodeSelectorTerm> terms;
    bool matches;
  };
  const std::vector<Row> rows = {
      {{}, false},
      {{{}}, false},  // An empty term matches nothing,
      {{{}, {.match_expressions = {zone_a}, .match_fields = {}}}, true},  // and hinders nothing.
      {{{.match_expressions = {zone_a, gpu}, .match_fields = {}}}, true},
      {{{.match_expressions = {zone_b, gpu}, .match_fields = {}}}, false},
      {{{.match_expressions = {zone_b}, .match_fields = {}},
        {.match_expressions = {gpu}, .match_fields = {}}},
       true},
      {{{.match_expressions = {}, .match_fields = {named_1}}}, true},
      {{{.match_expressions = {}, .match_fields = {named_2}}}, false},
      {{{.match_expressions = {}, .match_fields = {not_2}}}, true},
      {{{.match_expressions = {zone_b}, .match_fields = {named_1}}}, false},
      // A field takes one value, and there is one field.
      {{{.match_expressions = {},
         .match_fields = {{.key = "metadata.name", .op = kIn, .values = {"node-1", "node-2"}}}}},
       false},
      {{{.match_expressions = {},
         .match_fields = {{.key = "metadata.uid", .op = kNotIn, .values = {"x"}}}}},
       false},
      {{{.match_expressions = {},
         .match_fields = {{.key = "metadata.name", .op = kExists, .values = {}}}}},
       false},
  };
  for (const Row& row : rows) {
    INFO("row " << &row - rows.data());
    CHECK(MatchesNode(row.terms, node) == row.matches);
  }
}

TEST_CASE("a pod wants its node selector and its node affinity", "[unit][kube]") {
  const Node node = MakeNode("node-1", {{"zone", "a"}});
  PodSpec spec;
  CHECK(MatchesNode(spec, node));  // No constraint.

  spec.node_selector = {{"zone", "a"}};
  CHECK(MatchesNode(spec, node));
  spec.node_selector = {{"zone", "a"}, {"gpu", "h100"}};
  CHECK_FALSE(MatchesNode(spec, node));
  spec.node_selector = {{"zone", "b"}};
  CHECK_FALSE(MatchesNode(spec, node));

  spec.node_selector.clear();
  spec.has_required_node_affinity = true;  // Required, but without terms: nothing matches.
  CHECK_FALSE(MatchesNode(spec, node));
  spec.required_node_affinity = {
      {.match_expressions = {{.key = "zone", .op = kIn, .values = {"a"}}}, .match_fields = {}}};
  CHECK(MatchesNode(spec, node));
}

Toleration Tolerate(std::string key, bool exists, std::string value,
                    std::optional<TaintEffect> effect) {
  return {.key = std::move(key), .exists = exists, .value = std::move(value), .effect = effect};
}

TEST_CASE("a toleration matches a taint by key, value and effect", "[unit][kube]") {
  using enum TaintEffect;
  struct Row {
    Toleration toleration;
    bool tolerates;  // gpu=h100:NoSchedule
  };
  const std::vector<Row> rows = {
      {Tolerate("gpu", false, "h100", kNoSchedule), true},
      {Tolerate("gpu", false, "h100", std::nullopt), true},  // Every effect.
      {Tolerate("gpu", false, "h100", kNoExecute), false},
      {Tolerate("gpu", false, "a100", kNoSchedule), false},
      {Tolerate("gpu", false, "", kNoSchedule), false},
      {Tolerate("gpu", true, "", kNoSchedule), true},
      {Tolerate("gpu", true, "", std::nullopt), true},
      {Tolerate("cpu", true, "", std::nullopt), false},
      {Tolerate("", true, "", std::nullopt), true},  // Everything.
      {Tolerate("", true, "", kNoExecute), false},
  };
  const Taint taint{.key = "gpu", .value = "h100", .effect = kNoSchedule};
  for (const Row& row : rows) {
    INFO("row " << &row - rows.data());
    CHECK(Tolerates({row.toleration}, taint) == row.tolerates);
  }
  CHECK_FALSE(Tolerates({}, taint));
  CHECK(Tolerates({rows[8].toleration, rows[0].toleration}, taint));
}

TEST_CASE("the first taint that keeps a pod away", "[unit][kube]") {
  using enum TaintEffect;
  const std::vector<Taint> taints = {{.key = "soft", .value = "", .effect = kPreferNoSchedule},
                                     {.key = "gpu", .value = "", .effect = kNoSchedule},
                                     {.key = "broken", .value = "", .effect = kNoExecute}};
  const Toleration gpu = Tolerate("gpu", true, "", std::nullopt);
  const Toleration broken = Tolerate("broken", true, "", std::nullopt);
  CHECK(FindUntoleratedTaint({}, {}) == nullptr);
  CHECK(FindUntoleratedTaint({}, taints) == &taints[1]);
  CHECK(FindUntoleratedTaint({gpu}, taints) == &taints[2]);
  CHECK(FindUntoleratedTaint({gpu, broken}, taints) == nullptr);
}

TEST_CASE("a cordoned node takes pods that tolerate that", "[unit][kube]") {
  const std::string key = "node.kubernetes.io/unschedulable";
  CHECK_FALSE(ToleratesUnschedulable({}));
  CHECK(ToleratesUnschedulable({Tolerate(key, true, "", TaintEffect::kNoSchedule)}));
  CHECK(ToleratesUnschedulable({Tolerate("", true, "", std::nullopt)}));
  CHECK_FALSE(ToleratesUnschedulable({Tolerate(key, true, "", TaintEffect::kNoExecute)}));
}

TEST_CASE("host ports exclude each other on one address", "[unit][kube]") {
  const auto port = [](std::string ip, std::string protocol, int number) {
    return HostPort{.ip = std::move(ip), .protocol = std::move(protocol), .port = number};
  };
  struct Row {
    HostPort a;
    HostPort b;
    bool conflict;
  };
  const std::vector<Row> rows = {
      {port("", "TCP", 80), port("", "TCP", 80), true},
      {port("", "TCP", 80), port("", "TCP", 81), false},
      {port("", "TCP", 80), port("", "UDP", 80), false},
      {port("", "", 80), port("", "TCP", 80), true},  // TCP is the default.
      {port("10.0.0.1", "TCP", 80), port("10.0.0.2", "TCP", 80), false},
      {port("10.0.0.1", "TCP", 80), port("10.0.0.1", "TCP", 80), true},
      {port("10.0.0.1", "TCP", 80), port("", "TCP", 80), true},
      {port("0.0.0.0", "TCP", 80), port("10.0.0.1", "TCP", 80), true},
      {port("", "TCP", 0), port("", "TCP", 0), false},  // Not a host port.
  };
  for (const Row& row : rows) {
    INFO("row " << &row - rows.data());
    CHECK(HostPortsConflict({row.a}, {row.b}) == row.conflict);
    CHECK(HostPortsConflict({row.b}, {row.a}) == row.conflict);
  }
  CHECK_FALSE(HostPortsConflict({rows[0].a}, {}));
}

}  // namespace
}  // namespace berth::kube
