// The canonical form: what is written reads back as the same policy.
#include <rapidcheck.h>

#include <algorithm>
#include <chrono>

#include "config/decode.h"
#include "tests/support/catch.h"
#include "tests/unit/config/policies.h"

namespace berth::config {
namespace {

using std::chrono::milliseconds;

/// Names that look like something else in YAML, and ordinary ones.
rc::Gen<std::string> Label() {
  return rc::gen::oneOf(
      rc::gen::element<std::string>("no", "on", "off", "y", "n", "null", "true", "auto", "1", "010",
                                    "1e3", "0x1f", "1-2", "e1", "a"),
      rc::gen::map(rc::gen::container<std::string>(rc::gen::element('a', 'z', '0', '9', '-')),
                   [](const std::string& middle) { return "a" + middle.substr(0, 40) + "z"; }));
}

/// Distinct labels, from one to as many as every list may have.
rc::Gen<std::vector<std::string>> Labels() {
  return rc::gen::map(rc::gen::container<std::vector<std::string>>(Label()),
                      [](std::vector<std::string> labels) {
                        labels.push_back("last");
                        std::ranges::sort(labels);
                        labels.erase(std::ranges::unique(labels).begin(), labels.end());
                        if (labels.size() > 60) labels.resize(60);
                        return labels;
                      });
}

std::int64_t Within(std::int64_t min, std::int64_t max) {
  return *rc::gen::inRange<std::int64_t>(min, max + 1);
}

kube::ResourceList Amounts(const std::vector<DeviceResource>& devices) {
  kube::ResourceList amounts;
  if (*rc::gen::arbitrary<bool>()) amounts["cpu"] = Within(0, 1'000'000);
  if (*rc::gen::arbitrary<bool>()) amounts["memory"] = Within(0, std::int64_t{1} << 50);
  if (*rc::gen::arbitrary<bool>()) amounts["hugepages-2Mi"] = Within(0, 1 << 20) << 21;
  for (const DeviceResource& device : devices) {
    if (*rc::gen::arbitrary<bool>()) amounts[device.name] = Within(0, 100'000) * 1000;
  }
  return amounts;
}

/// At least the quota where both are there.
kube::ResourceList LimitAbove(const kube::ResourceList& quota, kube::ResourceList limit) {
  for (auto& [resource, amount] : limit) {
    const auto found = quota.find(resource);
    if (found != quota.end()) amount = std::max(amount, found->second);
  }
  return limit;
}

/// Few: each queue names each of them, or not.
std::vector<std::string> FewLabels() {
  std::vector<std::string> labels = *Labels();
  labels.resize(std::min<std::size_t>(labels.size(), 3));
  return labels;
}

std::vector<Flavor> Flavors() {
  std::vector<Flavor> flavors;
  for (const std::string& name : FewLabels()) {
    Flavor flavor{.name = name};
    if (*rc::gen::arbitrary<bool>()) flavor.node_selector["example.com/gpu"] = name;
    if (*rc::gen::arbitrary<bool>()) flavor.node_selector["zone"] = "";
    flavors.push_back(std::move(flavor));
  }
  return flavors;
}

std::vector<WorkloadClass> Classes() {
  std::vector<WorkloadClass> classes;
  for (const std::string& name : FewLabels()) {
    classes.push_back({.name = name, .preemptible = *rc::gen::arbitrary<bool>()});
    classes.back().min_run_time = std::chrono::milliseconds{Within(0, 30LL * 24 * 3'600'000)};
  }
  return classes;
}

/// What a queue admits, and its amounts by flavor.
void FillByName(Queue& queue, const PolicyConfiguration& policy) {
  if (*rc::gen::arbitrary<bool>()) queue.order = Order::kPredictedService;
  if (*rc::gen::arbitrary<bool>()) queue.preemption.within = Within::kNever;
  if (*rc::gen::arbitrary<bool>()) queue.preemption.reclaim = Reclaim::kNever;
  queue.fair_within = static_cast<FairWithin>(Within(0, 2));
  if (*rc::gen::arbitrary<bool>()) queue.max_jobs_per_user = static_cast<int>(Within(1, 1'000'000));
  queue.min_run_time = std::chrono::milliseconds{Within(0, 30LL * 24 * 3'600'000)};
  queue.non_preemptible = *rc::gen::arbitrary<bool>();
  if (*rc::gen::arbitrary<bool>()) queue.priority_classes = FewLabels();
  if (*rc::gen::arbitrary<bool>()) {
    queue.classes.emplace();
    for (const WorkloadClass& known : policy.classes) {
      if (*rc::gen::arbitrary<bool>()) queue.classes->push_back(known.name);
    }
  }
  for (const Flavor& flavor : policy.flavors) {
    if (Within(0, 3) != 0) continue;
    FlavorQuota amounts{.flavor = flavor.name, .quota = Amounts(policy.devices)};
    amounts.limit = LimitAbove(amounts.quota, Amounts(policy.devices));
    queue.quotas.push_back(std::move(amounts));
  }
}

std::vector<Queue> Queues(const PolicyConfiguration& policy) {
  const std::vector<DeviceResource>& devices = policy.devices;
  std::vector<Queue> queues;
  for (const std::string& name : *Labels()) {
    Queue queue{.name = name};
    if (!queues.empty() && *rc::gen::arbitrary<bool>()) queue.parent = queues.back().name;
    if (*rc::gen::arbitrary<bool>()) {
      queue.namespaces = *Labels();
      if (*rc::gen::arbitrary<bool>()) queue.namespaces->push_back("*");
      if (Within(0, 4) == 0) queue.namespaces->clear();
    }
    queue.quota = Amounts(devices);
    queue.limit = LimitAbove(queue.quota, Amounts(devices));
    queue.weight = Within(1, 1'000'000);
    FillByName(queue, policy);
    queues.push_back(std::move(queue));
  }
  return queues;
}

/// Any policy that a file can give.
PolicyConfiguration AnyPolicy() {
  const auto dialect = [] { return static_cast<DialectSwitch>(Within(0, 2)); };
  PolicyConfiguration policy;
  policy.mode = static_cast<Mode>(Within(0, 1));
  policy.scheduler_names = *Labels();
  policy.dialects = {.kueue = dialect(),
                     .volcano = dialect(),
                     .kai = dialect(),
                     .koordinator = dialect(),
                     .scheduler_plugins = dialect(),
                     .in_tree = dialect()};
  policy.devices.clear();
  for (const std::string& name : *Labels()) {
    policy.devices.push_back(
        {.name = name + "/" + name, .kind = static_cast<DeviceKind>(Within(0, 1))});
  }
  policy.levels.clear();
  for (const std::string& name : *Labels()) {
    if (policy.levels.size() == 15) break;
    policy.levels.push_back({.name = name, .node_label = name == "e1" ? "NULL" : name});
  }
  policy.levels.push_back({.name = "z-host", .node_label = "kubernetes.io/hostname"});
  policy.placement.max_nodes_returned = static_cast<int>(Within(1, 100));
  policy.placement.score = {.fragmentation = Within(0, 1'000'000),
                            .stranding = Within(0, 1000),
                            .rank = Within(0, 10),
                            .scarcity = Within(0, 5000),
                            .odd_remainder = Within(0, 5000),
                            .empty_node = Within(0, 5000),
                            .topology = Within(0, 5000)};
  policy.gang.bind_timeout = milliseconds{Within(1000, 300'000)};
  policy.gang.plan_timeout = milliseconds{Within(policy.gang.bind_timeout.count(), 86'400'000)};
  policy.gang.max_standing = static_cast<int>(Within(1, 100'000));
  policy.borrowing = *rc::gen::arbitrary<bool>();
  policy.flavors = Flavors();
  policy.classes = Classes();
  policy.queues = Queues(policy);
  return policy;
}

TEST_CASE("what is written reads back as the same policy") {
  CHECK(rc::check("Decode(Encode(p)) == p", [] {
    const PolicyConfiguration policy = AnyPolicy();
    const std::string text = EncodePolicy(policy);
    RC_LOG(text);
    const auto decoded = DecodePolicy(text, "p");
    if (!decoded) RC_FAIL(decoded.error().front().ToString());
    RC_ASSERT(*decoded == policy);
    RC_ASSERT(EncodePolicy(*decoded) == text);
  }));
}

TEST_CASE("the canonical form is for people") {
  CHECK(EncodePolicy({}) ==
        "apiVersion: berth.dev/v1alpha1\n"
        "kind: PolicyConfiguration\n"
        "mode: enforce\n"
        "schedulerNames: [default-scheduler, berth]\n"
        "dialects:\n"
        "  kueue: auto\n"
        "  volcano: auto\n"
        "  kai: auto\n"
        "  koordinator: auto\n"
        "  schedulerPlugins: on\n"
        "  inTree: on\n"
        "resources:\n"
        "  devices:\n"
        "  - name: nvidia.com/gpu\n"
        "    kind: whole\n"
        "topology:\n"
        "  levels:\n"
        "  - name: block\n"
        "    nodeLabel: cloud.provider.com/topology-block\n"
        "  - name: rack\n"
        "    nodeLabel: cloud.provider.com/topology-rack\n"
        "  - name: host\n"
        "    nodeLabel: kubernetes.io/hostname\n"
        "placement:\n"
        "  maxNodesReturned: 1\n"
        "  score:\n"
        "    fragmentation: 1\n"
        "    stranding: 0.6\n"
        "    rank: 5\n"
        "    scarcity: 1.2\n"
        "    oddRemainder: 0.5\n"
        "    emptyNode: 1\n"
        "    topology: 1\n"
        "gang:\n"
        "  planTimeout: 1m0s\n"
        "  bindTimeout: 20s\n"
        "  maxStanding: 4096\n"
        "borrowing: on\n"
        "fairness:\n"
        "  halfLife: 0s\n"
        "eviction:\n"
        "  by: eviction\n"
        "  stuckAfter: 10m0s\n"
        "  warning: 0s\n"
        "autoscaler:\n"
        "  show: withinQuota\n"
        "queues:\n"
        "- name: default\n"
        "  namespaces: [\"*\"]\n"
        "  weight: 1\n"
        "  priority: 0\n"
        "  hold: none\n"
        "  order: fifo\n"
        "  preemption:\n"
        "    within: lower\n"
        "    reclaim: any\n"
        "  fairWithin: none\n"
        "  minRunTime: 0s\n"
        "  nonPreemptible: allow\n");
}

}  // namespace
}  // namespace berth::config
