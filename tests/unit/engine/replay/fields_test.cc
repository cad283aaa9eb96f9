// What Writer writes, Reader reads into an equal value: every field, at another than its usual
// value.
#include "engine/replay/fields.h"

#include <simdjson.h>

#include "tests/support/catch.h"

namespace berth::replay {
namespace {

template <typename T>
T Back(const T& value) {
  const std::string text = Writer::Encode(value).dump();
  simdjson::dom::parser parser;
  T back{};
  const std::string error = Reader::Decode(parser.parse(text), back);
  INFO(text);
  REQUIRE(error.empty());
  CHECK(Writer::Encode(back).dump() == text);
  return back;
}

kube::ObjectMeta Meta() {
  return {.name = "n",
          .ns = "ns",
          .uid = "u",
          .resource_version = "7",
          .creation = -5,
          .deletion = 0,  // not the same as absent
          .labels = {{"a", ""}, {"b", "\"\\\n\xc3\xa9"}},
          .annotations = {{"berth.dev/gang-size", "4"}},
          .left_out = "metadata.labels.x"};
}

void CheckMeta(const kube::ObjectMeta& meta) {
  const kube::ObjectMeta want = Meta();
  CHECK(meta.name == want.name);
  CHECK(meta.ns == want.ns);
  CHECK(meta.uid == want.uid);
  CHECK(meta.resource_version == want.resource_version);
  CHECK(meta.creation == want.creation);
  CHECK(meta.deletion == want.deletion);
  CHECK(meta.labels == want.labels);
  CHECK(meta.annotations == want.annotations);
  CHECK(meta.left_out == want.left_out);
}

kube::LabelSelector Selector() {
  return {.requirements = {{.key = "k", .op = kube::SelectorOperator::kGt, .values = {"1", ""}}}};
}

TEST_CASE("a pod comes back as it was", "[replay]") {
  const kube::PodAffinityTerm term{.label_selector = Selector(),
                                   .namespaces = {"a", "b"},
                                   .namespace_selector = kube::LabelSelector{},
                                   .topology_key = "zone",
                                   .match_label_keys = {"x"},
                                   .mismatch_label_keys = {"y"}};
  const kube::PodSpec spec{.requests = {{"cpu", 0}, {"memory", INT64_MAX}},
                           .node_selector = {{"disk", "ssd"}},
                           .required_node_affinity = {{.match_expressions = Selector().requirements,
                                                       .match_fields = Selector().requirements},
                                                      {}},
                           .has_required_node_affinity = true,
                           .required_pod_affinity = {term},
                           .required_pod_anti_affinity = {{}, term},
                           .topology_spread = {{.max_skew = 3,
                                                .topology_key = "t",
                                                .label_selector = kube::LabelSelector{},
                                                .min_domains = 2,
                                                .match_label_keys = {"m"}}},
                           .tolerations = {{.key = "k",
                                            .exists = true,
                                            .value = "v",
                                            .effect = kube::TaintEffect::kNoSchedule},
                                           {}},
                           .host_ports = {{.ip = "1.2.3.4", .protocol = "UDP", .port = 65535}}};
  const kube::Pod pod{
      .meta = Meta(),
      .spec = std::make_shared<kube::PodSpec>(spec),
      .node_name = "node",
      .scheduler_name = "berth",
      .priority_class = "high",
      .priority = -3,
      .preempt_never = true,
      .scheduling_gates = {"g", "h"},
      .scheduling_group = "group",
      .controller = kube::OwnerReference{"batch/v1", "Job", "j", "ju", true},
      .phase = kube::PodPhase::kFailed,
      .status_reason = "Evicted",
      .nominated_node = "other",
      .pod_scheduled = kube::PodScheduled{true, "r", "m", 1'777'636'800'000},
      .invalid_request = "why",
      .device_requests = {{.container = "main", .resource = "x/y", .amount = 2000, .init = true}},
      .needs = {{.kind = kube::NeededKind::kDeviceClaim, .name = "nic"}}};
  const kube::Pod back = Back(pod);
  CheckMeta(back.meta);
  CHECK(*back.spec == spec);
  CHECK(back.node_name == pod.node_name);
  CHECK(back.needs == pod.needs);
  CHECK(back.scheduler_name == pod.scheduler_name);
  CHECK(back.priority_class == pod.priority_class);
  CHECK(back.priority == pod.priority);
  CHECK(back.preempt_never);
  CHECK(back.scheduling_gates == pod.scheduling_gates);
  CHECK(back.scheduling_group == pod.scheduling_group);
  REQUIRE(back.controller);
  CHECK(back.controller->api_version == "batch/v1");
  CHECK(back.controller->kind == "Job");
  CHECK(back.controller->name == "j");
  CHECK(back.controller->uid == "ju");
  CHECK(back.controller->controller);
  CHECK(back.phase == pod.phase);
  CHECK(back.status_reason == pod.status_reason);
  CHECK(back.nominated_node == pod.nominated_node);
  CHECK(back.pod_scheduled == pod.pod_scheduled);
  CHECK(back.invalid_request == pod.invalid_request);
  CHECK(back.device_requests == pod.device_requests);
  CHECK(*Back(kube::Pod{}).spec == kube::PodSpec{});
}

TEST_CASE("a condition that was recorded without its time is read", "[replay]") {
  simdjson::dom::parser parser;
  kube::PodScheduled condition{.status = false, .reason = {}, .message = {}, .since = 5};
  const std::string text = R"({"status":true,"reason":"r"})";
  CHECK(Reader::Decode(parser.parse(text), condition).empty());
  CHECK(condition == kube::PodScheduled{true, "r", {}, 0});
}

TEST_CASE("the other objects come back as they were", "[replay]") {
  const kube::Node node{.meta = Meta(),
                        .unschedulable = true,
                        .ready = false,
                        .not_ready_reason = {},  // no decision looks at it
                        .taints = {{"k", "v", kube::TaintEffect::kNoExecute}, {}},
                        .allocatable = {{"nvidia.com/gpu", 8000}}};
  const kube::Node node_back = Back(node);
  CheckMeta(node_back.meta);
  CHECK(node_back.unschedulable);
  CHECK_FALSE(node_back.ready);
  CHECK(node_back.taints == node.taints);
  CHECK(node_back.allocatable == node.allocatable);
  CHECK(Back(kube::Node{}).ready);
  CheckMeta(Back(kube::Namespace{.meta = Meta()}).meta);
  const kube::PodDisruptionBudget budget{
      .meta = Meta(), .selector = Selector(), .disruptions_allowed = -1};
  const auto budget_back = Back(budget);
  CheckMeta(budget_back.meta);
  CHECK(budget_back.selector == budget.selector);
  CHECK(budget_back.disruptions_allowed == -1);
  CHECK_FALSE(Back(kube::PodDisruptionBudget{}).selector);
  const engine::VictimMap victims{{"n", {.uids = {"a", "b"}, .pdb_violations = 2}}, {"m", {}}};
  const auto victims_back = Back(victims);
  REQUIRE(victims_back.size() == 2);
  CHECK(victims_back.at("n").uids == victims.at("n").uids);
  CHECK(victims_back.at("n").pdb_violations == 2);
  CHECK(victims_back.at("m").uids.empty());
}

}  // namespace
}  // namespace berth::replay
