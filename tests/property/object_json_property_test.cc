// Checks what the simulated API server sends (sim/world/object_json.h) with the decoders of kube/.
#include <rapidcheck.h>
#include <simdjson.h>

#include <set>

#include "kube/decode.h"
#include "sim/world/object_json.h"
#include "tests/support/catch.h"

namespace berth::sim {
namespace {

using nlohmann::json;

rc::Gen<std::string> Text() {
  const auto piece = rc::gen::element<std::string>("a", "b/c", "7", ".", "\"", "\\", "\n", "\x01",
                                                   "]}", "\xC3\xA9", "\xF0\x9F\x98\x80", "\x7F");
  return rc::gen::resize(
      6, rc::gen::map(rc::gen::container<std::vector<std::string>>(piece), [](const auto& pieces) {
        std::string text;
        for (const auto& one : pieces) text += one;
        return text;
      }));
}

std::string Name() {
  return *rc::gen::element<std::string>("a", "worker-0", "n00.example", "A_b:c", "x-1");
}

bool Coin() { return *rc::gen::arbitrary<bool>(); }

template <typename T>
T Pick(std::initializer_list<T> values) {
  return *rc::gen::elementOf(std::vector<T>(values));
}

template <typename Make>
auto Some(Make make) {
  std::vector<decltype(make())> items(*rc::gen::inRange<std::size_t>(0, 4));
  for (auto& item : items) item = make();
  return items;
}

std::vector<std::string> Texts() {
  return Some([] { return *Text(); });
}

kube::StringMap TextMap(const std::string& prefix) {
  kube::StringMap map;
  for (const std::string& key : Texts()) map[prefix + key] = *Text();
  return map;
}

kube::ResourceList Amounts() {
  kube::ResourceList amounts;
  const auto any = [] { return *rc::gen::inRange<std::int64_t>(0, std::int64_t{1} << 50); };
  for (const char* name : {"cpu", "memory", "ephemeral-storage", "hugepages-2Mi"}) {
    if (Coin()) amounts[name] = Coin() ? any() : any() / 1024 * 1024;
  }
  for (const char* name : {"nvidia.com/gpu", "example.com/nic"}) {
    if (Coin()) amounts[name] = *rc::gen::inRange<std::int64_t>(0, 1'000) * 1'000;
  }
  return amounts;
}

kube::ObjectMeta Meta() {
  kube::ObjectMeta meta;
  meta.name = Name();
  meta.ns = Name();
  meta.uid = "uid-" + *Text();
  meta.resource_version = *Text();
  meta.creation = *rc::gen::inRange<std::int64_t>(0, 4'000'000'000) * 1'000;
  if (Coin()) meta.deletion = *rc::gen::inRange<std::int64_t>(1, 4'000'000'000) * 1'000;
  meta.labels = TextMap("");
  for (const char* key : {"berth.dev/gang-size", "berth.dev/plan", "kueue.x-k8s.io/queue-name"}) {
    if (Coin()) meta.annotations[key] = *Text();
  }
  return meta;
}

std::vector<kube::Requirement> Requirements() {
  using enum kube::SelectorOperator;
  return Some([] {
    return kube::Requirement{.key = *Text(),
                             .op = Pick({kIn, kNotIn, kExists, kDoesNotExist, kGt, kLt}),
                             .values = Texts()};
  });
}

std::optional<kube::LabelSelector> Selector() {
  if (Coin()) return std::nullopt;
  return kube::LabelSelector{.requirements = Requirements()};
}

std::vector<kube::PodAffinityTerm> PodTerms() {
  return Some([] {
    return kube::PodAffinityTerm{.label_selector = Selector(),
                                 .namespaces = Texts(),
                                 .namespace_selector = Selector(),
                                 .topology_key = *Text(),
                                 .match_label_keys = Texts(),
                                 .mismatch_label_keys = Texts()};
  });
}

kube::TaintEffect Effect() {
  using enum kube::TaintEffect;
  return Pick({kNoSchedule, kPreferNoSchedule, kNoExecute});
}

std::shared_ptr<const kube::PodSpec> Spec() {
  kube::PodSpec spec;
  spec.requests = Amounts();
  spec.node_selector = TextMap("");
  spec.has_required_node_affinity = Coin();
  if (spec.has_required_node_affinity) {
    spec.required_node_affinity = Some([] {
      return kube::NodeSelectorTerm{.match_expressions = Requirements(),
                                    .match_fields = Requirements()};
    });
  }
  spec.required_pod_affinity = PodTerms();
  spec.required_pod_anti_affinity = PodTerms();
  spec.topology_spread = Some([] {
    return kube::TopologySpreadConstraint{.max_skew = *rc::gen::arbitrary<std::int32_t>(),
                                          .topology_key = *Text(),
                                          .label_selector = Selector(),
                                          .min_domains = *rc::gen::arbitrary<std::int32_t>(),
                                          .match_label_keys = Texts(),
                                          .honors_affinity = Coin(),
                                          .honors_taints = Coin()};
  });
  spec.tolerations = Some([] {
    return kube::Toleration{.key = *Text(),
                            .exists = Coin(),
                            .value = *Text(),
                            .effect = Coin() ? std::nullopt : std::optional(Effect())};
  });
  spec.host_ports = Some([] {
    return kube::HostPort{.ip = *Text(), .protocol = *Text(), .port = *rc::gen::inRange(1, 65536)};
  });
  return std::make_shared<const kube::PodSpec>(std::move(spec));
}

kube::Pod AnyPod() {
  using enum kube::PodPhase;
  kube::Pod pod;
  pod.meta = Meta();
  pod.spec = Spec();
  pod.node_name = *Text();
  pod.scheduler_name = Pick<std::string>({"default-scheduler", "gpu \"scheduler\""});
  pod.priority_class = *Text();
  pod.priority = *rc::gen::arbitrary<std::int32_t>();
  pod.preempt_never = Coin();
  pod.scheduling_gates = Texts();
  pod.scheduling_group = *Text();
  if (Coin()) {
    pod.controller = kube::OwnerReference{.api_version = *Text(),
                                          .kind = *Text(),
                                          .name = *Text(),
                                          .uid = *Text(),
                                          .controller = true};
  }
  pod.phase = Pick({kPending, kRunning, kSucceeded, kFailed, kUnknown});
  pod.status_reason = *Text();
  pod.nominated_node = *Text();
  if (Coin()) {
    pod.pod_scheduled = kube::PodScheduled{.status = Coin(), .reason = *Text(), .message = *Text()};
    pod.pod_scheduled->since = *rc::gen::inRange<std::int64_t>(0, 4'000'000'000) * 1'000;
  }
  return pod;
}

kube::Node AnyNode() {
  kube::Node node;
  node.meta = Meta();
  node.unschedulable = Coin();
  node.ready = Coin();
  node.taints =
      Some([] { return kube::Taint{.key = *Text(), .value = *Text(), .effect = Effect()}; });
  node.allocatable = Amounts();
  return node;
}

void Check(const char* what, auto property) { REQUIRE(rc::check(what, property)); }

TEST_CASE("a pod is decoded as it was before it was encoded", "[wire][property]") {
  simdjson::dom::parser parser;
  Check("decode(encode(pod)) = pod", [&parser] {
    const kube::Pod pod = AnyPod();
    const auto decoded = kube::DecodePod(Bytes(PodJson(pod)), parser);
    RC_ASSERT(decoded.has_value());
    RC_ASSERT(Difference(pod, *decoded) == "");
  });
}

TEST_CASE("a node is decoded as it was before it was encoded", "[wire][property]") {
  simdjson::dom::parser parser;
  Check("decode(encode(node)) = node", [&parser] {
    const kube::Node node = AnyNode();
    const auto decoded = kube::DecodeNode(Bytes(NodeJson(node)), parser);
    RC_ASSERT(decoded.has_value());
    RC_ASSERT(Difference(node, *decoded) == "");
  });
}

/// A pod in which no field has its default value.
kube::Pod FullPod() {
  const std::vector<kube::Requirement> needs{
      {.key = "k", .op = kube::SelectorOperator::kNotIn, .values = {"v"}}};
  const kube::PodAffinityTerm term{.label_selector = kube::LabelSelector{needs},
                                   .namespaces = {"ns"},
                                   .namespace_selector = kube::LabelSelector{needs},
                                   .topology_key = "zone",
                                   .match_label_keys = {"a"},
                                   .mismatch_label_keys = {"b"}};
  kube::PodSpec spec;
  spec.requests = {{"cpu", 1'500}, {"nvidia.com/gpu", 8'000}};
  spec.node_selector = {{"disk", "fast"}};
  spec.has_required_node_affinity = true;
  spec.required_node_affinity = {{.match_expressions = needs, .match_fields = needs}};
  spec.required_pod_affinity = {term};
  spec.required_pod_anti_affinity = {term};
  spec.topology_spread = {{.max_skew = 2,
                           .topology_key = "zone",
                           .label_selector = kube::LabelSelector{needs},
                           .min_domains = 3,
                           .match_label_keys = {"c"},
                           .honors_affinity = false,
                           .honors_taints = true}};
  spec.tolerations = {
      {.key = "k", .exists = true, .value = "v", .effect = kube::TaintEffect::kNoExecute}};
  spec.host_ports = {{.ip = "10.0.0.1", .protocol = "UDP", .port = 80}};
  kube::Pod pod;
  pod.meta = {.name = "p",
              .ns = "team",
              .uid = "u",
              .resource_version = "7",
              .creation = 1'000,
              .deletion = 2'000,
              .labels = {{"l", "v"}},
              .annotations = {{"berth.dev/gang-size", "v"}},
              .left_out = {}};
  pod.spec = std::make_shared<const kube::PodSpec>(std::move(spec));
  pod.node_name = "n1";
  pod.scheduler_name = "other";
  pod.priority_class = "high";
  pod.priority = 10;
  pod.preempt_never = true;
  pod.scheduling_gates = {"gate"};
  pod.scheduling_group = "group";
  pod.controller = {
      .api_version = "batch/v1", .kind = "Job", .name = "j", .uid = "ju", .controller = true};
  pod.phase = kube::PodPhase::kRunning;
  pod.status_reason = "Because";
  pod.nominated_node = "n2";
  pod.pod_scheduled =
      kube::PodScheduled{.status = true, .reason = "r", .message = "m", .since = 1'000};
  return pod;
}

/// The paths of all scalar values of a document.
std::vector<std::string> Leaves(const json& document) {
  std::vector<std::string> paths;
  const json flat = document.flatten();
  for (const auto& [path, value] : flat.items()) paths.push_back(path);
  return paths;
}

void Remove(json& document, const std::string& path) {
  const json::json_pointer pointer(path);
  json& parent = document.at(pointer.parent_pointer());
  if (parent.is_array()) {
    parent.erase(std::stoul(pointer.back()));
  } else {
    parent.erase(pointer.back());
  }
}

TEST_CASE("no field of a pod gets lost unseen", "[wire]") {
  // Fields that Berth does not read; a device's request and its limit are interchangeable.
  const std::set<std::string> unread{"/apiVersion",
                                     "/kind",
                                     "/spec/containers/0/name",
                                     "/spec/containers/0/ports/0/containerPort",
                                     "/spec/containers/0/resources/requests/nvidia.com~1gpu",
                                     "/spec/containers/0/resources/limits/nvidia.com~1gpu"};
  const kube::Pod pod = FullPod();
  const json whole = PodJson(pod);
  simdjson::dom::parser parser;
  REQUIRE(Difference(pod, *kube::DecodePod(whole.dump(), parser)) == "");
  for (const std::string& path : Leaves(whole)) {
    INFO(path);
    json without = whole;
    Remove(without, path);
    const auto decoded = kube::DecodePod(without.dump(), parser);
    const bool seen = !decoded || !Difference(pod, *decoded).empty();
    CHECK(seen != unread.contains(path));
  }
}

TEST_CASE("no field of a node gets lost unseen", "[wire]") {
  const kube::Node node{
      .meta = FullPod().meta,
      .unschedulable = true,
      .ready = true,
      .not_ready_reason = {},
      .taints = {{.key = "k", .value = "v", .effect = kube::TaintEffect::kPreferNoSchedule}},
      .allocatable = {{"cpu", 64'000}, {"memory", 1'024}}};
  const json whole = NodeJson(node);
  simdjson::dom::parser parser;
  REQUIRE(Difference(node, *kube::DecodeNode(whole.dump(), parser)) == "");
  for (const std::string& path : Leaves(whole)) {
    INFO(path);
    json without = whole;
    Remove(without, path);
    const auto decoded = kube::DecodeNode(without.dump(), parser);
    const bool seen = !decoded || !Difference(node, *decoded).empty();
    CHECK(seen != (path == "/apiVersion" || path == "/kind"));
  }
}

}  // namespace
}  // namespace berth::sim
