// From the API server's JSON to values, and what becomes of JSON that it would never send.
#include "kube/decode.h"

#include <simdjson.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/unit/kube/numbered.h"

namespace berth::kube {
namespace {

using nlohmann::json;

std::expected<Pod, DecodeError> PodFrom(const json& object) {
  simdjson::dom::parser parser;
  return DecodePod(object.dump(), parser);
}

/// A pod with nothing but what it must have, changed by a merge patch.
json MinimalPod(const json& patch = json::object()) {
  json pod = {{"metadata", {{"name", "p"}, {"namespace", "ns"}, {"uid", "u1"}}}};
  pod.merge_patch(patch);
  return pod;
}

/// A pod that has every field that is read.
json FullPod() {
  return json::parse(R"({
    "apiVersion": "v1", "kind": "Pod",
    "metadata": {
      "name": "train-0", "namespace": "team-a", "uid": "5b8f0c55", "resourceVersion": "1234",
      "creationTimestamp": "2026-05-01T12:00:00Z", "deletionTimestamp": "2026-05-01T12:00:30Z",
      "labels": {"app": "train", "rank": "0"},
      "annotations": {"berth.dev/gang": "train", "example.com/notes": "dropped",
                      "kueue.x-k8s.io/queue-name": "q"},
      "ownerReferences": [
        {"kind": "Thing", "name": "other", "uid": "o0"},
        {"kind": "Job", "name": "train", "uid": "o1", "controller": true}],
      "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {}}}]
    },
    "spec": {
      "nodeName": "node-1", "schedulerName": "berth", "priority": 1000,
      "priorityClassName": "high", "preemptionPolicy": "Never",
      "schedulingGates": [{"name": "berth.dev/gang"}],
      "schedulingGroup": {"podGroupName": "train"},
      "nodeSelector": {"gpu": "h100"},
      "affinity": {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
          {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]},
                                {"key": "slots", "operator": "Gt", "values": ["3"]}],
           "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n9"]}]}]}},
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
          {"topologyKey": "rack", "labelSelector": {"matchLabels": {"app": "train"}},
           "namespaces": ["team-a"], "matchLabelKeys": ["rank"]}]},
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
          {"topologyKey": "host", "mismatchLabelKeys": ["app"], "namespaceSelector": {},
           "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}}]}
      },
      "topologySpreadConstraints": [
        {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
         "labelSelector": {}, "minDomains": 3, "matchLabelKeys": ["app"]},
        {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule",
         "nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor"},
        {"maxSkew": 1, "topologyKey": "host", "whenUnsatisfiable": "ScheduleAnyway"}],
      "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"},
                      {"key": "team", "value": "a"}],
      "containers": [
        {"name": "main", "ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 8081,
                                    "hostIP": "10.0.0.1", "protocol": "TCP"}],
         "resources": {"requests": {"cpu": "1500m", "memory": "2Gi", "nvidia.com/gpu": "8"},
                       "limits": {"nvidia.com/gpu": "8"}}}],
      "initContainers": [
        {"name": "proxy", "restartPolicy": "Always", "ports": [{"hostPort": 9000}],
         "resources": {"requests": {"cpu": "500m"}}},
        {"name": "setup", "ports": [{"hostPort": 9001}],
         "resources": {"requests": {"cpu": "1"}}}],
      "volumes": [{"name": "a", "emptyDir": {}},
                  {"name": "b", "persistentVolumeClaim": {"claimName": "data"}}],
      "resourceClaims": [{"name": "x", "resourceClaimName": "nic"},
                         {"name": "y", "resourceClaimTemplateName": "gpus"}],
      "overhead": {"cpu": "250m"},
      "resources": {}
    },
    "status": {
      "phase": "Running", "reason": "Because", "nominatedNodeName": "node-2",
      "conditions": [{"type": "Ready", "status": "True"},
                     {"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                      "lastTransitionTime": "2026-05-01T12:00:09Z",
                      "message": "0/3 nodes are available"}],
      "containerStatuses": [{"name": "main", "allocatedResources": {"cpu": "2"},
                             "resources": {"requests": {"cpu": "1750m"}}}],
      "initContainerStatuses": [{"name": "proxy"}]
    }
  })");
}

TEST_CASE("a pod: identity, place and state", "[unit][kube]") {
  const auto pod = PodFrom(FullPod());
  REQUIRE(pod.has_value());
  CHECK(pod->meta.name == "train-0");
  CHECK(pod->meta.ns == "team-a");
  CHECK(pod->meta.uid == "5b8f0c55");
  CHECK(pod->meta.resource_version == "1234");
  CHECK(pod->meta.creation == 1'777'636'800'000);
  CHECK(pod->meta.deletion == 1'777'636'830'000);
  CHECK(pod->meta.labels == StringMap{{"app", "train"}, {"rank", "0"}});
  CHECK(pod->meta.annotations ==
        StringMap{{"berth.dev/gang", "train"}, {"kueue.x-k8s.io/queue-name", "q"}});
  CHECK(pod->needs ==
        std::vector<NeededObject>{{.kind = NeededKind::kVolumeClaim, .name = "data"},
                                  {.kind = NeededKind::kDeviceClaim, .name = "nic"},
                                  {.kind = NeededKind::kDeviceClaimTemplate, .name = "gpus"}});
  REQUIRE(pod->controller.has_value());
  CHECK(pod->controller->kind == "Job");
  CHECK(pod->controller->uid == "o1");
  CHECK(pod->node_name == "node-1");
  CHECK(pod->scheduler_name == "berth");
  CHECK(pod->priority_class == "high");
  CHECK(pod->priority == 1000);
  CHECK(pod->preempt_never);
  CHECK(pod->scheduling_gates == std::vector<std::string>{"berth.dev/gang"});
  CHECK(pod->scheduling_group == "train");
  CHECK(pod->phase == PodPhase::kRunning);
  CHECK(pod->status_reason == "Because");
  CHECK(pod->nominated_node == "node-2");
  CHECK(pod->pod_scheduled == PodScheduled{.status = false,
                                           .reason = "Unschedulable",
                                           .message = "0/3 nodes are available",
                                           .since = 1'777'636'809'000});
  CHECK(pod->invalid_request.empty());
}

TEST_CASE("a pod: where it may run", "[unit][kube]") {
  const auto pod = PodFrom(FullPod());
  REQUIRE(pod.has_value());
  const PodSpec& spec = *pod->spec;
  // cpu: main max(1500, 1750, 2000) = 2000; with proxy 2500; setup + proxy = 1500; overhead 250.
  CHECK(spec.requests ==
        ResourceList{{"cpu", 2750}, {"memory", 2'147'483'648}, {"nvidia.com/gpu", 8000}});
  CHECK(spec.node_selector == StringMap{{"gpu", "h100"}});
  CHECK(spec.has_required_node_affinity);
  CHECK(spec.required_node_affinity ==
        std::vector<NodeSelectorTerm>{
            {.match_expressions = {{"zone", SelectorOperator::kIn, {"a", "b"}},
                                   {"slots", SelectorOperator::kGt, {"3"}}},
             .match_fields = {{"metadata.name", SelectorOperator::kNotIn, {"n9"}}}}});
  CHECK(spec.required_pod_affinity ==
        std::vector<PodAffinityTerm>{
            {.label_selector = LabelSelector{{{"app", SelectorOperator::kIn, {"train"}}}},
             .namespaces = {"team-a"},
             .namespace_selector = std::nullopt,
             .topology_key = "rack",
             .match_label_keys = {"rank"},
             .mismatch_label_keys = {}}});
  CHECK(spec.required_pod_anti_affinity ==
        std::vector<PodAffinityTerm>{
            {.label_selector = LabelSelector{{{"app", SelectorOperator::kExists, {}}}},
             .namespaces = {},
             .namespace_selector = LabelSelector{},  // Empty, not absent: every namespace.
             .topology_key = "host",
             .match_label_keys = {},
             .mismatch_label_keys = {"app"}}});
  CHECK(spec.topology_spread ==
        std::vector<TopologySpreadConstraint>{{.max_skew = 2,
                                               .topology_key = "zone",
                                               .label_selector = LabelSelector{},
                                               .min_domains = 3,
                                               .match_label_keys = {"app"}},
                                              {.max_skew = 1,
                                               .topology_key = "rack",
                                               .label_selector = std::nullopt,
                                               .min_domains = 1,
                                               .match_label_keys = {},
                                               .honors_affinity = false,
                                               .honors_taints = true}});
  CHECK(spec.tolerations ==
        std::vector<Toleration>{
            {.key = "gpu", .exists = true, .value = "", .effect = TaintEffect::kNoSchedule},
            {.key = "team", .exists = false, .value = "a", .effect = std::nullopt}});
  // Of the init containers only the sidecar's port stays open.
  CHECK(spec.host_ports == std::vector<HostPort>{{"10.0.0.1", "TCP", 8081}, {"", "", 9000}});
}

TEST_CASE("a pod: what is absent or null has its default", "[unit][kube]") {
  json nulls = FullPod();
  for (auto& [key, value] : nulls["spec"].items()) value = nullptr;
  for (auto& [key, value] : nulls["status"].items()) value = nullptr;
  for (const json& object :
       {MinimalPod(), nulls, MinimalPod({{"spec", {{"containers", {nullptr}}}}})}) {
    const auto pod = PodFrom(object);
    REQUIRE(pod.has_value());
    CHECK(pod->scheduler_name == "default-scheduler");
    CHECK(pod->node_name.empty());
    CHECK(pod->phase == PodPhase::kPending);
    CHECK(pod->priority == 0);
    CHECK_FALSE(pod->preempt_never);
    CHECK_FALSE(pod->pod_scheduled.has_value());
    CHECK(*pod->spec == PodSpec{});
    CHECK(pod->invalid_request.empty());
  }
}

TEST_CASE("a pod: required node affinity without terms is a constraint", "[unit][kube]") {
  const auto pod = PodFrom(MinimalPod(json::parse(R"({"spec": {"affinity": {"nodeAffinity":
      {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}}})")));
  CHECK(pod->spec->has_required_node_affinity);
  CHECK(pod->spec->required_node_affinity.empty());
}

TEST_CASE("a pod: names of a later Kubernetes take no effect", "[unit][kube]") {
  const auto pod = PodFrom(MinimalPod(json::parse(R"({
    "spec": {
      "tolerations": [{"key": "a", "operator": "Gt", "value": "3"},
                      {"key": "b", "operator": "Exists", "effect": "NoAdmit"}],
      "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        {"nodeSelectorTerms": [{"matchExpressions": [
          {"key": "zone", "operator": "Like", "values": ["a*"]}]}]}}}},
    "status": {"phase": "Dreaming"}})")));
  CHECK(pod->spec->tolerations.empty());
  CHECK(pod->spec->required_node_affinity[0].match_expressions[0] ==
        Requirement{"zone", SelectorOperator::kIn, {}});  // `In` nothing never holds.
  CHECK(pod->phase == PodPhase::kUnknown);
  CHECK(pod->invalid_request.empty());
}

TEST_CASE("a pod without identity is refused", "[unit][kube]") {
  struct Row {
    json patch;
    std::string error;
  };
  const std::vector<Row> rows = {
      {{{"metadata", {{"name", nullptr}}}}, "metadata.name: missing"},
      {{{"metadata", {{"name", ""}}}}, "metadata.name: missing"},
      {{{"metadata", {{"name", 7}}}}, "metadata.name: not a string"},
      {{{"metadata", {{"name", "../nodes/n"}}}}, "metadata.name: not a name"},
      {{{"metadata", {{"name", ".."}}}}, "metadata.name: not a name"},
      {{{"metadata", {{"name", std::string(254, 'a')}}}}, "metadata.name: longer than 253 bytes"},
      {{{"metadata", {{"namespace", "a/b"}}}}, "metadata.namespace: not a name"},
      {{{"metadata", {{"uid", nullptr}}}}, "metadata.uid: missing"},
      {{{"metadata", {{"uid", json::array()}}}}, "metadata.uid: not a string"},
      {{{"metadata", "text"}}, "metadata: not an object"},
      {{{"metadata", nullptr}}, "metadata.name: missing"},
  };
  for (const Row& row : rows) {
    const auto pod = PodFrom(MinimalPod(row.patch));
    INFO(row.error);
    REQUIRE_FALSE(pod.has_value());
    CHECK(pod.error().ToString() == row.error);
  }
  CHECK(PodFrom(json::array()).error().ToString() == "not an object");
}

TEST_CASE("a pod that cannot be read in full is counted, but not scheduled", "[unit][kube]") {
  struct Row {
    json spec;
    std::string problem;
  };
  const auto with = [](const json& resources) {
    return json{{"containers", {{{"name", "main"}, {"resources", resources}}}}};
  };
  const std::vector<Row> rows = {
      {with({{"limits", {{"cpu", "many"}, {"memory", "1Gi"}}}}),
       "spec.containers[0].resources.limits.cpu: not a quantity (no digits)"},
      {with({{"requests", {{"nvidia.com/gpu", "-8"}, {"memory", "1Gi"}}}}),
       "spec.containers[0].resources.requests[nvidia.com/gpu]: negative"},
      {with({{"requests", {{"cpu", 1.5}, {"memory", "1Gi"}}}}),
       "spec.containers[0].resources.requests.cpu: not a quantity"},
      {with({{"requests", {{"memory", "1Gi"}}}, {"limits", {{"ev\nil", "x"}}}}),
       "spec.containers[0].resources.limits[ev?il]: not a quantity (no digits)"},
  };
  for (const Row& row : rows) {
    json spec = row.spec;
    spec["nodeName"] = "node-1";
    const auto pod = PodFrom(MinimalPod({{"spec", spec}}));
    REQUIRE(pod.has_value());
    CHECK(pod->invalid_request == row.problem);
    CHECK(pod->node_name == "node-1");
    CHECK(pod->spec->requests == ResourceList{{"memory", 1'073'741'824}});
  }
}

TEST_CASE("a pod: an unreadable request is stood in for by its limit", "[unit][kube]") {
  const auto pod = PodFrom(MinimalPod(json::parse(R"({"spec": {"containers": [{"resources":
      {"requests": {"nvidia.com/gpu": "x"}, "limits": {"nvidia.com/gpu": 2}}}]}})")));
  CHECK(pod->spec->requests == ResourceList{{"nvidia.com/gpu", 2000}});
  CHECK_FALSE(pod->invalid_request.empty());
}

TEST_CASE("a pod: devices with request != limit are named", "[unit][kube]") {
  const auto pod = PodFrom(MinimalPod(json::parse(R"({"spec": {"containers": [{"resources":
      {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "2"}}}]}})")));
  CHECK(pod->invalid_request == "containers[0]: nvidia.com/gpu: request 1 is not limit 2");
}

TEST_CASE("a pod: amounts are bounded", "[unit][kube]") {
  json labels = json::object();
  json resources = json::object();
  for (int i = 0; i < 1000; ++i) labels["l" + std::to_string(i)] = "v";
  for (int i = 0; i < 1000; ++i) resources["v.com/r" + std::to_string(i)] = "1";
  json containers = json::array();
  for (int i = 0; i < 1000; ++i) containers.push_back({{"name", "c"}});
  containers[0]["resources"]["requests"] = resources;

  auto pod = PodFrom(MinimalPod({{"metadata", {{"labels", labels}}}}));
  CHECK(pod->meta.labels.size() == kMaxLabels);
  CHECK(pod->meta.left_out == "metadata.labels.l329 and 743 more");
  CHECK(pod->invalid_request.empty());
  pod = PodFrom(MinimalPod({{"spec", {{"containers", containers}}}}));
  CHECK(pod->spec->requests.size() == kMaxResources);
  CHECK(pod->invalid_request ==
        "spec.containers[0].resources.requests[v.com/r156]: more than 64 entries");
  containers[0].erase("resources");
  pod = PodFrom(MinimalPod({{"spec", {{"containers", containers}}}}));
  CHECK(pod->invalid_request == "spec.containers: more than 256 entries");
}

/// Calls `visit` with every value inside `value`.
template <typename Visit>
void ForEveryValue(json& value, const Visit& visit) {
  if (value.is_structured()) {
    for (json& child : value) ForEveryValue(child, visit);
  }
  visit(value);
}

TEST_CASE("a pod: a wrong type anywhere else does not lose the pod", "[unit][kube]") {
  const std::vector<json> wrong = {nullptr,
                                   true,
                                   0,
                                   -1,
                                   1e300,
                                   "",
                                   "x",
                                   json::array(),
                                   json::object(),
                                   json::array({json::array()}),
                                   json::object({{"x", json::object()}})};
  const json original = FullPod();
  json mutated = original;
  int lost = 0;
  int decoded = 0;
  ForEveryValue(mutated, [&](json& value) {
    const json before = value;
    for (const json& replacement : wrong) {
      value = replacement;
      (PodFrom(mutated).has_value() ? decoded : lost)++;
    }
    value = before;
  });
  REQUIRE(mutated == original);
  // The whole object and metadata never do (2 * 11). Of the texts "", "x" a name, a namespace and
  // a uid can be "x": each of the three is lost with 10 of 11.
  CHECK(lost == 2 * 11 + 3 * 10);
  CHECK(decoded > 1000);
}

TEST_CASE("text that is not JSON is an error", "[unit][kube]") {
  simdjson::dom::parser parser;
  const std::string full = FullPod().dump();
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("null"), std::string("[]"),
        std::string("\xff"), full.substr(0, full.size() - 1), full + "}", std::string(100'000, '['),
        R"({"metadata": {"name": ")" + std::string("\xff\xfe") + R"("}})"}) {
    CHECK_FALSE(DecodePod(text, parser).has_value());
  }
  // Every prefix, too: nothing is read beyond the end.
  for (std::size_t size = 0; size < full.size(); ++size) {
    CHECK_FALSE(DecodePod(std::string_view(full).substr(0, size), parser).has_value());
  }
  CHECK(DecodePod(std::string(kMaxObjectBytes + 1, ' '), parser).error().text ==
        "larger than 16 MiB");
  CHECK(DecodePod(full, parser).has_value());  // The parser is still good.
}

TEST_CASE("only annotations that are read are kept", "[unit][kube]") {
  CHECK(AnnotationLimit("berth.dev/gang", Author::kUser) == 4096);
  CHECK(AnnotationLimit("volcano.sh/task-index", Author::kUser) == 4096);
  for (const char* key : {"kubectl.kubernetes.io/last-applied-configuration", "notberth.dev/gang",
                          "berth.dev", "berth.dev/made-up", "", "zzz", "runai/queue"}) {
    CHECK(AnnotationLimit(key, Author::kUser) == 0);
  }
  // What nodes say of their hardware may be large, and is nothing for users to fill memory with.
  CHECK(AnnotationLimit("hami.io/node-nvidia-score", Author::kAdmin) == 256 * 1024);
  CHECK(AnnotationLimit("hami.io/node-nvidia-score", Author::kUser) == 0);
}

// A user may add labels and annotations to a pod that runs. Its queue and its charge are read from
// labels and annotations.
TEST_CASE("a flood of labels and annotations hides nothing that is read", "[unit][kube][bug]") {
  json labels = Numbered("aaa.io/l", 300, "v");
  labels["berth.dev/queue"] = "research";
  labels["zzz"] = "also beyond";
  json annotations = Numbered("batch.kubernetes.io/a", 300, "v");
  annotations.update(Numbered("berth.dev/a", 300, "v"));
  annotations["berth.dev/plan"] = "v1;plan=a;node=n;queue=research;rank=0";
  annotations["berth.dev/whole-node"] = "true";
  const auto pod =
      PodFrom(MinimalPod({{"metadata", {{"labels", labels}, {"annotations", annotations}}}}));
  REQUIRE(pod.has_value());
  CHECK(pod->invalid_request.empty());
  CHECK(pod->meta.labels.at("berth.dev/queue") == "research");
  CHECK(pod->meta.labels.size() == kMaxLabels + 1);
  CHECK(pod->meta.annotations == StringMap{{"berth.dev/plan", annotations["berth.dev/plan"]},
                                           {"berth.dev/whole-node", "true"}});
  CHECK(pod->meta.left_out == "metadata.labels[aaa.io/l0256] and 44 more");
}

TEST_CASE("a pod with more selectors than are read is refused, not cut", "[unit][kube][bug]") {
  const auto pod = PodFrom(MinimalPod({{"spec", {{"nodeSelector", Numbered("s", 1'025, "v")}}}}));
  CHECK(pod->invalid_request == "spec.nodeSelector.s1024: more than 1024 entries");
}

}  // namespace
}  // namespace berth::kube
