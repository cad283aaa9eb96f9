#include "tests/support/builders.h"

#include <stdexcept>

#include "cluster/plan_claim.h"
#include "kube/quantity.h"

namespace berth::testing {
namespace {

std::int64_t Amount(const std::string& resource, const std::string& quantity) {
  const auto amount = kube::ParseFor(resource, quantity);
  if (!amount) throw std::invalid_argument(resource + ": " + quantity);
  return *amount;
}

kube::LabelSelector Selecting(const std::string& key, const std::string& value) {
  return {.requirements = {{.key = key, .op = kube::SelectorOperator::kIn, .values = {value}}}};
}

kube::PodAffinityTerm Term(const std::string& key, const std::string& value,
                           const std::string& topology) {
  kube::PodAffinityTerm term;
  term.label_selector = Selecting(key, value);
  term.topology_key = topology;
  return term;
}

}  // namespace

PodBuilder::PodBuilder(std::string name) {
  pod_.meta.uid = "uid-" + name;
  pod_.meta.name = std::move(name);
  pod_.meta.ns = "default";
  pod_.meta.creation = 1000;
  pod_.scheduler_name = "default-scheduler";
}

PodBuilder& PodBuilder::Ns(std::string ns) {
  pod_.meta.ns = std::move(ns);
  return *this;
}
PodBuilder& PodBuilder::Uid(std::string uid) {
  pod_.meta.uid = std::move(uid);
  return *this;
}
PodBuilder& PodBuilder::Created(kube::Millis at) {
  pod_.meta.creation = at;
  return *this;
}
PodBuilder& PodBuilder::Request(const std::string& resource, const std::string& quantity) {
  spec_.requests[resource] = Amount(resource, quantity);
  return *this;
}
PodBuilder& PodBuilder::Gang(const std::string& name, int size) {
  Label("berth.dev/gang", name);
  return Annotation("berth.dev/gang-size", std::to_string(size));
}
PodBuilder& PodBuilder::OfJob(const std::string& name) {
  pod_.controller = {.api_version = "batch/v1",
                     .kind = "Job",
                     .name = name,
                     .uid = "uid-" + name,
                     .controller = true};
  return *this;
}

PodBuilder& PodBuilder::Min(int members) {
  return Annotation("berth.dev/gang-min-member", std::to_string(members));
}
PodBuilder& PodBuilder::Rank(int index) {
  return Label("batch.kubernetes.io/job-completion-index", std::to_string(index));
}
PodBuilder& PodBuilder::Share(int milli) {
  return Gpu(1).Annotation("berth.dev/gpu-milli", std::to_string(milli));
}

PodBuilder& PodBuilder::Required(const std::string& level) {
  return Annotation("berth.dev/topology-required", level);
}
PodBuilder& PodBuilder::Preferred(const std::string& level) {
  return Annotation("berth.dev/topology-preferred", level);
}
PodBuilder& PodBuilder::Label(const std::string& key, const std::string& value) {
  pod_.meta.labels[key] = value;
  return *this;
}
PodBuilder& PodBuilder::Annotation(const std::string& key, const std::string& value) {
  pod_.meta.annotations[key] = value;
  return *this;
}
PodBuilder& PodBuilder::Gate(const std::string& gate) {
  pod_.scheduling_gates.push_back(gate);
  return *this;
}
PodBuilder& PodBuilder::Priority(int priority) {
  pod_.priority = priority;
  return *this;
}
PodBuilder& PodBuilder::Scheduler(const std::string& name) {
  pod_.scheduler_name = name;
  return *this;
}
PodBuilder& PodBuilder::On(const std::string& node) {
  pod_.node_name = node;
  return *this;
}
PodBuilder& PodBuilder::Nominated(const std::string& node) {
  pod_.nominated_node = node;
  return *this;
}
PodBuilder& PodBuilder::Terminating(kube::Millis at) {
  pod_.meta.deletion = at;
  return *this;
}
PodBuilder& PodBuilder::Phase(kube::PodPhase phase) {
  pod_.phase = phase;
  return *this;
}
PodBuilder& PodBuilder::Invalid(const std::string& why) {
  pod_.invalid_request = why;
  return *this;
}
PodBuilder& PodBuilder::Claim(const std::string& plan, const std::string& node,
                              const std::string& queue, int rank) {
  return Annotation(
      std::string(cluster::kPlanAnnotation),
      cluster::EncodePlanClaim({.plan = plan, .node = node, .queue = queue, .rank = rank}));
}
PodBuilder& PodBuilder::Selector(const std::string& key, const std::string& value) {
  spec_.node_selector[key] = value;
  return *this;
}
PodBuilder& PodBuilder::Tolerate(const std::string& key) {
  spec_.tolerations.push_back({.key = key, .exists = true, .value = {}, .effect = {}});
  return *this;
}
PodBuilder& PodBuilder::HostPort(int port) {
  spec_.host_ports.push_back({.ip = {}, .protocol = "TCP", .port = port});
  return *this;
}
PodBuilder& PodBuilder::Near(const std::string& key, const std::string& value,
                             const std::string& topology) {
  spec_.required_pod_affinity.push_back(Term(key, value, topology));
  return *this;
}
PodBuilder& PodBuilder::NotNear(const std::string& key, const std::string& value,
                                const std::string& topology) {
  spec_.required_pod_anti_affinity.push_back(Term(key, value, topology));
  return *this;
}
PodBuilder& PodBuilder::Spread(const std::string& key, const std::string& value,
                               const std::string& topology, int skew, int min_domains) {
  spec_.topology_spread.push_back({.max_skew = skew,
                                   .topology_key = topology,
                                   .label_selector = Selecting(key, value),
                                   .min_domains = min_domains,
                                   .match_label_keys = {}});
  return *this;
}

kube::Pod PodBuilder::Build() const {
  kube::Pod pod = pod_;
  pod.spec = std::make_shared<const kube::PodSpec>(spec_);
  if (const auto gpus = spec_.requests.find(kGpu); gpus != spec_.requests.end()) {
    pod.device_requests = {{.container = "main", .resource = kGpu, .amount = gpus->second}};
  }
  return pod;
}

NodeBuilder::NodeBuilder(std::string name) {
  node_.meta.uid = "uid-node-" + name;
  node_.meta.labels["kubernetes.io/hostname"] = name;
  node_.meta.name = std::move(name);
  Cpu(64).Memory("1Ti").Pods(110);
}

NodeBuilder& NodeBuilder::Memory(const std::string& amount) {
  return Allocatable("memory", Amount("memory", amount));
}
NodeBuilder& NodeBuilder::Allocatable(const std::string& resource, std::int64_t amount) {
  node_.allocatable[resource] = amount;
  return *this;
}
NodeBuilder& NodeBuilder::Block(const std::string& block) {
  return Label("cloud.provider.com/topology-block", block);
}
NodeBuilder& NodeBuilder::Rack(const std::string& rack) {
  return Label("cloud.provider.com/topology-rack", rack);
}
NodeBuilder& NodeBuilder::Model(const std::string& product) {
  return Label("nvidia.com/gpu.product", product);
}
NodeBuilder& NodeBuilder::Label(const std::string& key, const std::string& value) {
  node_.meta.labels[key] = value;
  return *this;
}
NodeBuilder& NodeBuilder::Annotation(const std::string& key, const std::string& value) {
  node_.meta.annotations[key] = value;
  return *this;
}
NodeBuilder& NodeBuilder::Taint(const std::string& key, kube::TaintEffect effect) {
  node_.taints.push_back({.key = key, .value = {}, .effect = effect});
  return *this;
}
NodeBuilder& NodeBuilder::Cordoned() {
  node_.unschedulable = true;
  return *this;
}
NodeBuilder& NodeBuilder::NotReady() {
  node_.ready = false;
  return *this;
}

NodeBuilder MakeDgx(const std::string& name, bool selects) {
  NodeBuilder node = MakeNode(name).Gpu(8).Label("nvidia.com/gpu.machine", "DGXH100");
  if (selects) node.Annotation("berth.dev/device-selection", "annotation");
  return node;
}

kube::Namespace MakeNamespace(const std::string& name, kube::StringMap labels) {
  kube::Namespace ns;
  ns.meta.name = name;
  ns.meta.uid = "uid-ns-" + name;
  ns.meta.labels = std::move(labels);
  return ns;
}

kube::PodDisruptionBudget MakeBudget(const std::string& name, const std::string& key,
                                     const std::string& value, int allowed) {
  kube::PodDisruptionBudget budget;
  budget.meta.name = name;
  budget.meta.ns = "default";
  budget.meta.uid = "uid-pdb-" + name;
  budget.selector = Selecting(key, value);
  budget.disruptions_allowed = allowed;
  return budget;
}

config::Queue MakeQueue(const std::string& name, std::vector<std::string> namespaces,
                        int limit_gpus, int quota_gpus) {
  config::Queue queue{.name = name, .namespaces = std::move(namespaces)};
  if (limit_gpus >= 0) queue.limit[kGpu] = limit_gpus * 1000LL;
  if (quota_gpus >= 0) queue.quota[kGpu] = quota_gpus * 1000LL;
  return queue;
}

config::PolicyConfiguration MakePolicy(std::vector<config::Queue> queues) {
  config::PolicyConfiguration policy;
  policy.borrowing = false;
  if (!queues.empty()) policy.queues = std::move(queues);
  return policy;
}

config::PolicyConfiguration MakeBorrowing(std::vector<config::Queue> queues) {
  config::PolicyConfiguration policy = MakePolicy(std::move(queues));
  policy.borrowing = true;
  return policy;
}

}  // namespace berth::testing
