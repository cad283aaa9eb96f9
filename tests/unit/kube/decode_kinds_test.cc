// From the JSON of nodes, Jobs and the small kinds to values; pods are in decode_test.cc.
#include <simdjson.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kube/decode.h"
#include "tests/support/catch.h"
#include "tests/unit/kube/numbered.h"

namespace berth::kube {
namespace {

using nlohmann::json;

std::expected<Node, DecodeError> NodeFrom(const std::string& text) {
  simdjson::dom::parser parser;
  return DecodeNode(text, parser);
}

TEST_CASE("a node: capacity, taints and readiness", "[unit][kube]") {
  const auto node = NodeFrom(R"({
    "metadata": {"name": "node-1", "labels": {"zone": "a"}},
    "spec": {"unschedulable": true, "taints": [
      {"key": "gpu", "value": "h100", "effect": "NoSchedule"},
      {"key": "new", "effect": "NoAdmit"},
      {"key": "gone", "effect": "NoExecute", "timeAdded": "2026-05-01T12:00:00Z"}]},
    "status": {"allocatable": {"cpu": "95500m", "memory": "1Ti", "nvidia.com/gpu": "8",
                               "pods": "110"},
               "capacity": {"cpu": "96"},
               "conditions": [{"type": "MemoryPressure", "status": "False"},
                              {"type": "Ready", "status": "True"}]}})");
  REQUIRE(node.has_value());
  CHECK(node->meta.name == "node-1");
  CHECK(node->unschedulable);
  CHECK(node->ready);
  CHECK(node->taints == std::vector<Taint>{{"gpu", "h100", TaintEffect::kNoSchedule},
                                           {"gone", "", TaintEffect::kNoExecute}});
  CHECK(node->allocatable == ResourceList{{"cpu", 95'500},
                                          {"memory", 1'099'511'627'776},
                                          {"nvidia.com/gpu", 8000},
                                          {"pods", 110}});
}

// Feature discovery writes hundreds of labels, and device plugins dozens of resources.
TEST_CASE("a node is not lost for what it has beyond a bound", "[unit][kube][bug]") {
  const auto node_of = [](int labels, int resources) {
    json allocatable = Numbered("a.com/r", resources, "1");
    allocatable.update({{"cpu", "8"}, {"memory", "1Gi"}, {"pods", "110"}});
    json all = Numbered("l", labels, "v");
    all["nvidia.com/gpu.product"] = "H100";
    return NodeFrom(json({{"metadata", {{"name", "n"}, {"labels", all}}},
                          {"status", {{"allocatable", allocatable}}}})
                        .dump());
  };
  const auto rich = node_of(1'000, 1'000);
  REQUIRE(rich.has_value());
  CHECK(rich->meta.labels.size() == 1'001);
  CHECK(rich->allocatable.size() == 1'003);
  CHECK(rich->meta.left_out.empty());

  const auto absurd = node_of(0, 1'030);
  REQUIRE(absurd.has_value());
  CHECK(absurd->allocatable.size() == kMaxNodeResources + 3);
  CHECK(absurd->allocatable.at("pods") == 110);
  CHECK(absurd->meta.left_out == "status.allocatable[a.com/r1024] and 5 more");

  const auto labelled = node_of(5'000, 0);
  REQUIRE(labelled.has_value());
  CHECK(labelled->meta.labels.size() == kMaxAdminLabels + 1);
  CHECK(labelled->meta.labels.at("nvidia.com/gpu.product") == "H100");
}

TEST_CASE("a node is ready only if it says so", "[unit][kube]") {
  const auto ready = [](const std::string& conditions) {
    return NodeFrom(R"({"metadata": {"name": "n"}, "status": {"conditions": )" + conditions + "}}")
        ->ready;
  };
  CHECK(ready(R"([{"type": "Ready", "status": "True"}])"));
  CHECK_FALSE(ready(R"([{"type": "Ready", "status": "False"}])"));
  CHECK_FALSE(ready(R"([{"type": "Ready", "status": "Unknown"}])"));
  CHECK_FALSE(ready("[]"));
  CHECK(NodeFrom(R"({"metadata": {"name": "n"}, "status": {"conditions": [
    {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}})")
            ->not_ready_reason == "NodeStatusUnknown");
  CHECK_FALSE(NodeFrom(R"({"metadata": {"name": "n"}})")->ready);
}

TEST_CASE("any problem fails what is not a pod", "[unit][kube]") {
  const auto error = [](const std::string& text) { return NodeFrom(text).error().ToString(); };
  CHECK(error("{}") == "metadata.name: missing");
  CHECK(error(R"({"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "x"}}})") ==
        "status.allocatable.cpu: not a quantity (no digits)");
  CHECK(error(R"({"metadata": {"name": "n"}, "spec": {"taints": {}}})") ==
        "spec.taints: not a list");
  CHECK(error(R"({"metadata": {"name": "n"}, "spec": {"taints": [1]}})") ==
        "spec.taints[0]: not an object");
  CHECK(error(R"({"metadata": {"name": "n"}, "spec": {"unschedulable": "yes"}})") ==
        "spec.unschedulable: not true or false");
  CHECK(error(R"({"metadata": {"name": "n", "creationTimestamp": "today"}})") ==
        "metadata.creationTimestamp: not a timestamp");
}

TEST_CASE("the small kinds", "[unit][kube]") {
  simdjson::dom::parser parser;
  CHECK(DecodeNamespace(R"({"metadata": {"name": "team-a", "labels": {"a": "b"}}})", parser)
            ->meta.labels.at("a") == "b");

  const auto high = DecodePriorityClass(
      R"({"metadata": {"name": "high"}, "value": -5, "globalDefault": true})", parser);
  CHECK(high->value == -5);
  CHECK(high->global_default);
  CHECK(DecodePriorityClass(R"({"metadata": {"name": "x"}, "value": 3000000000})", parser)
            .error()
            .ToString() == "value: not a 32-bit integer");

  const auto config =
      DecodeConfigMap(R"({"metadata": {"name": "c"}, "data": {"policy.yaml": "a: b\n"}})", parser);
  CHECK(config->data == StringMap{{"policy.yaml", "a: b\n"}});
}

TEST_CASE("a disruption budget: no selector is nothing, an empty one everything", "[unit][kube]") {
  simdjson::dom::parser parser;
  const auto budget = DecodePodDisruptionBudget(
      R"({"metadata": {"name": "b", "namespace": "ns"},
          "spec": {"selector": {"matchLabels": {"app": "a"}}},
          "status": {"disruptionsAllowed": 2}})",
      parser);
  CHECK(budget->disruptions_allowed == 2);
  CHECK(budget->selector == LabelSelector{{{"app", SelectorOperator::kIn, {"a"}}}});
  const auto spec = [&](const std::string& text) {
    return DecodePodDisruptionBudget(R"({"metadata": {"name": "b"}, "spec": )" + text + "}", parser)
        ->selector;
  };
  CHECK_FALSE(spec("{}").has_value());
  CHECK(spec(R"({"selector": {}})") == LabelSelector{});
}

TEST_CASE("a Job, and a list of Jobs", "[unit][kube]") {
  simdjson::dom::parser parser;
  const std::string text =
      R"({"metadata": {"name": "j", "namespace": "ns", "uid": "u", "resourceVersion": "7",
          "labels": {"berth.dev/suspended": "true"},
          "ownerReferences": [{"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "o"},
                              {"apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": "cu", "controller": true}]},
          "spec": {"suspend": true, "parallelism": 3, "completions": 5, "managedBy": "x/y"},
          "status": {"succeeded": 2}})";
  const auto jobs = DecodeJobs(text, parser);
  REQUIRE(jobs);
  REQUIRE(jobs->jobs.size() == 1);
  CHECK(jobs->next.empty());
  const Job& job = jobs->jobs.front();
  CHECK_FALSE(job.finished);
  CHECK(job.meta.uid == "u");
  CHECK(job.meta.resource_version == "7");
  CHECK(job.meta.labels.contains("berth.dev/suspended"));
  CHECK(job.suspended);
  CHECK(job.most_pods == 3);
  CHECK(job.managed_by == "x/y");
  REQUIRE(job.controller);
  CHECK(job.controller->api_version == "batch/v1");
  CHECK(job.controller->kind == "CronJob");

  const auto list =
      DecodeJobs(R"({"metadata": {"continue": "there"}, "items": [)" + text + R"(, {"metadata": {}},
          {"metadata": {"name": "k"}, "status": {"conditions": [{"type": "Complete", "status": "True"}]}}]})",
                 parser);
  REQUIRE(list);
  CHECK(list->next == "there");
  REQUIRE(list->jobs.size() == 2);  // one that cannot be read hides no other
  const Job& last = list->jobs.back();
  CHECK_FALSE(last.suspended);
  CHECK(last.most_pods == 1);
  CHECK(last.finished);
  CHECK(DecodeJobs(R"({"items": []})", parser)->jobs.empty());
  const auto none = DecodeJobs(R"({"metadata": {}, "items": null})", parser);
  REQUIRE(none);
  CHECK(none->jobs.empty());
  CHECK_FALSE(
      DecodeJobs(R"({"metadata": {"name": "k"}, "spec": {"parallelism": "many"}})", parser));
}

TEST_CASE("how many pods a Job may have that have not ended", "[unit][kube]") {
  struct Row {
    const char* spec;
    const char* status;
    std::int64_t pods;
  };
  const auto row = GENERATE(values<Row>({
      {"{}", "{}", 1},
      {R"({"parallelism": 4})", R"({"succeeded": 3})", 4},  // any number may succeed
      {R"({"parallelism": 4, "completions": 9})", R"({"succeeded": 3})", 4},
      {R"({"parallelism": 4, "completions": 5})", R"({"succeeded": 3})", 2},
      {R"({"parallelism": 4, "completions": 5})", R"({"succeeded": 6})", 0},
      {R"({"parallelism": -4, "completions": 5})", R"({"succeeded": -2147483648})", 0},
  }));
  INFO(row.spec << ' ' << row.status);
  simdjson::dom::parser parser;
  const auto job = DecodeJobs(std::string(R"({"metadata": {"name": "j"}, "spec": )") + row.spec +
                                  R"(, "status": )" + row.status + "}",
                              parser);
  REQUIRE(job);
  CHECK(job->jobs.front().most_pods == row.pods);
}

TEST_CASE("a JobSet is read as a Job is", "[unit][kube]") {
  simdjson::dom::parser parser;
  const bool completed = GENERATE(false, true);
  const auto set =
      DecodeJobs(std::string(R"({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
          "metadata": {"name": "s", "uid": "u", "ownerReferences": [
            {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "t", "uid": "t",
             "controller": true}]},
          "spec": {"suspend": true, "managedBy": "x/y", "replicatedJobs": [{"name": "workers"}]},
          "status": {"conditions": [{"type": "Completed", "status": ")") +
                     (completed ? "True" : "False") + R"("}]}})",
                 parser);
  REQUIRE(set);
  CHECK(set->jobs.front().suspended);
  CHECK(set->jobs.front().managed_by == "x/y");
  CHECK(set->jobs.front().controller->kind == "TrainJob");
  CHECK(set->jobs.front().finished == completed);
}

}  // namespace
}  // namespace berth::kube
