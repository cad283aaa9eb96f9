// Objects for tests, one line each, as in kube-scheduler's own tests:
//   MakePod("a").Gpu(8).Gang("g", 4).Min(2).Queue("q").Gated()
//   MakeNode("n1").Gpu(8).Cpu(128).Rack("r1")
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/policy_configuration.h"
#include "kube/objects.h"

namespace berth::testing {

inline constexpr const char* kGpu = "nvidia.com/gpu";

/// Namespace `default`, UID `uid-NAME`, created at 1000, no requests.
class PodBuilder {
 public:
  explicit PodBuilder(std::string name);

  PodBuilder& Ns(std::string ns);
  PodBuilder& Uid(std::string uid);
  PodBuilder& Created(kube::Millis at);
  PodBuilder& Gpu(int devices) { return Request(kGpu, std::to_string(devices)); }
  PodBuilder& Cpu(const std::string& cores) { return Request("cpu", cores); }
  PodBuilder& Memory(const std::string& amount) { return Request("memory", amount); }
  PodBuilder& Request(const std::string& resource, const std::string& quantity);
  PodBuilder& Gang(const std::string& name, int size);
  PodBuilder& Min(int members);
  /// The batch/v1 Job `name`, whose UID is `uid-NAME`, controls it.
  PodBuilder& OfJob(const std::string& name);
  PodBuilder& Queue(const std::string& queue) { return Label("berth.dev/queue", queue); }
  PodBuilder& Rank(int index);
  /// A share in thousandths of one GPU.
  PodBuilder& Share(int milli);
  PodBuilder& WholeNode() { return Annotation("berth.dev/whole-node", "true"); }
  PodBuilder& Required(const std::string& level);
  PodBuilder& Preferred(const std::string& level);
  PodBuilder& Label(const std::string& key, const std::string& value);
  PodBuilder& Annotation(const std::string& key, const std::string& value);
  PodBuilder& Gated() { return Gate("berth.dev/admission"); }
  PodBuilder& Gate(const std::string& gate);
  /// The pod has a volume of that PersistentVolumeClaim.
  PodBuilder& Volume(std::string claim) {
    pod_.needs.push_back({.kind = kube::NeededKind::kVolumeClaim, .name = std::move(claim)});
    return *this;
  }
  PodBuilder& Priority(int priority);
  PodBuilder& Scheduler(const std::string& name);
  PodBuilder& On(const std::string& node);
  PodBuilder& Nominated(const std::string& node);
  PodBuilder& Terminating(kube::Millis at = 2000);
  PodBuilder& Phase(kube::PodPhase phase);
  PodBuilder& Invalid(const std::string& why);
  /// The claim that a Binding by Berth leaves on a pod.
  PodBuilder& Claim(const std::string& plan, const std::string& node, const std::string& queue,
                    int rank = 0);

  PodBuilder& Selector(const std::string& key, const std::string& value);
  PodBuilder& Tolerate(const std::string& key);
  PodBuilder& HostPort(int port);
  /// Terms over pods with label key=value of the pod's own namespace.
  PodBuilder& Near(const std::string& key, const std::string& value, const std::string& topology);
  PodBuilder& NotNear(const std::string& key, const std::string& value,
                      const std::string& topology);
  PodBuilder& Spread(const std::string& key, const std::string& value, const std::string& topology,
                     int skew = 1, int min_domains = 1);

  kube::PodSpec& spec() { return spec_; }
  kube::Pod Build() const;
  operator kube::Pod() const { return Build(); }  // NOLINT(google-explicit-constructor)

 private:
  kube::Pod pod_;
  kube::PodSpec spec_;
};

inline PodBuilder MakePod(std::string name) { return PodBuilder(std::move(name)); }

/// 64 cores, 1 Ti, 110 pods, and a label with its own host name; no devices.
class NodeBuilder {
 public:
  explicit NodeBuilder(std::string name);

  NodeBuilder& Gpu(int devices) { return Allocatable(kGpu, devices * 1000LL); }
  NodeBuilder& Cpu(int cores) { return Allocatable("cpu", cores * 1000LL); }
  NodeBuilder& Pods(int pods) { return Allocatable("pods", pods); }
  NodeBuilder& Memory(const std::string& amount);
  NodeBuilder& Allocatable(const std::string& resource, std::int64_t amount);
  NodeBuilder& Block(const std::string& block);
  NodeBuilder& Rack(const std::string& rack);
  NodeBuilder& Model(const std::string& product);
  NodeBuilder& Label(const std::string& key, const std::string& value);
  NodeBuilder& Annotation(const std::string& key, const std::string& value);
  NodeBuilder& Taint(const std::string& key,
                     kube::TaintEffect effect = kube::TaintEffect::kNoSchedule);
  NodeBuilder& Cordoned();
  NodeBuilder& NotReady();

  kube::Node Build() const { return node_; }
  operator kube::Node() const { return node_; }  // NOLINT(google-explicit-constructor)

 private:
  kube::Node node_;
};

inline NodeBuilder MakeNode(std::string name) { return NodeBuilder(std::move(name)); }

/// A known machine with 8 GPUs on two sockets. `selects`: device indices are honoured there, so
/// that its devices are tracked one by one.
NodeBuilder MakeDgx(const std::string& name, bool selects = true);

kube::Namespace MakeNamespace(const std::string& name, kube::StringMap labels = {});
kube::PodDisruptionBudget MakeBudget(const std::string& name, const std::string& key,
                                     const std::string& value, int allowed);

/// `namespaces` may be {"*"}; GPUs < 0: not set.
config::Queue MakeQueue(const std::string& name, std::vector<std::string> namespaces,
                        int limit_gpus = -1, int quota_gpus = -1);

/// The defaults; if any `queues` are given, they replace the queue `default`.
config::PolicyConfiguration MakePolicy(std::vector<config::Queue> queues = {});
/// The same, with borrowing.
config::PolicyConfiguration MakeBorrowing(std::vector<config::Queue> queues);

}  // namespace berth::testing
