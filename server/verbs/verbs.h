// The extender verbs as values: the result of decoding a request, and the input of encoding an
// answer. Types follow k8s.io/kube-scheduler/extender/v1 (types.go); the codec is in wire.h.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace berth::server {

/// ExtenderArgs, for filter and prioritize. Views point into the request body, which must outlive
/// it.
struct ExtenderArgs {
  std::string_view pod_name;
  std::string_view pod_namespace;
  std::string_view pod_uid;
  std::string_view pod_json;  ///< The raw pod object; decoded only when the informer lacks the pod.
  std::vector<std::string_view> node_names;  ///< In the order they were offered.
};

/// Why a node is not kept, by the effect on kube-scheduler.
enum class Refusal : std::uint8_t {
  kFailed,        ///< Evicting lower-priority pods there could help: preemption may try it.
  kUnresolvable,  ///< Evicting could not help: preemption skips the node.
};

/// ExtenderFilterResult. One text for every refused node: kube-scheduler aggregates the texts, and
/// a text that changes from call to call makes the pod re-queue itself for ever.
struct FilterResult {
  std::vector<std::string_view> kept;  ///< A subset of the offer, best first.
  Refusal refusal = Refusal::kUnresolvable;
  std::string_view reason;  ///< A constant that outlives the answer; for all nodes not kept.
  std::string error;        ///< Not empty: the whole call failed.
};

/// An element of HostPriorityList: the score of a node.
struct HostPriority {
  std::string_view host;
  std::int64_t score = 0;  ///< 0..10.
};

/// ExtenderBindingArgs. Views as in ExtenderArgs.
struct BindArgs {
  std::string_view pod_name;
  std::string_view pod_namespace;
  std::string_view pod_uid;
  std::string_view node;
  /// True once the caller has hung up, so that no call stays parked without a caller. Costs one
  /// poll(2). Empty where there is no connection to check; valid only while Bind runs.
  std::function<bool()> client_gone = {};
};

/// MetaVictims: the pods to be evicted on one node.
struct Victims {
  std::vector<std::string> pod_uids;
  std::int64_t num_pdb_violations = 0;
};

/// ExtenderPreemptionArgs, with victims by UID. Views as in ExtenderArgs.
struct PreemptionArgs {
  std::string_view pod_name;
  std::string_view pod_namespace;
  std::string_view pod_uid;
  std::map<std::string, Victims, std::less<>> node_to_victims;
};

/// There is no answer now (not ready, not the leader): a non-200 status with no body.
struct Unavailable {
  int http_status = 503;
};

/// Answers the verbs. Called from many threads at once; Bind may block, the others must not.
class VerbHandler {
 public:
  VerbHandler() = default;
  VerbHandler(const VerbHandler&) = delete;
  VerbHandler& operator=(const VerbHandler&) = delete;
  virtual ~VerbHandler() = default;

  virtual std::expected<FilterResult, Unavailable> Filter(const ExtenderArgs& args) = 0;
  virtual std::expected<std::vector<HostPriority>, Unavailable> Prioritize(
      const ExtenderArgs& args) = 0;
  /// Empty string: bound. Otherwise the text of ExtenderBindingResult.Error.
  virtual std::expected<std::string, Unavailable> Bind(const BindArgs& args) = 0;
  /// Node to victims to keep; an absent node is refused. No victim list in it is empty.
  virtual std::expected<std::map<std::string, Victims, std::less<>>, Unavailable> Preempt(
      const PreemptionArgs& args) = 0;
};

}  // namespace berth::server
