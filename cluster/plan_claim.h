// The value of the annotation `berth.dev/plan`: opaque to users, versioned. On rebuild it is only a
// claim (docs/architecture.md, "What is believed"): the reader checks it against bound members and
// free room.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "kube/objects.h"

namespace berth::cluster {

/// On a pod that Berth released, and on its Binding: a PlanClaim.
inline constexpr std::string_view kPlanAnnotation = "berth.dev/plan";
/// On a pod that Berth evicts: an EvictionMark. Written before the eviction, so that another
/// process knows which workload gets the room.
inline constexpr std::string_view kEvictedForAnnotation = "berth.dev/evicted-for";
/// On a pod that is to be evicted: when, RFC 3339. It may run on if less will do by then.
inline constexpr std::string_view kEvictionTimeAnnotation = "berth.dev/eviction-time";
/// A label on a Job that Berth has suspended, and resumes once its pods have ended.
inline constexpr std::string_view kSuspendedLabel = "berth.dev/suspended";
/// On a pod: thousandths of one device that it asks for (StoreOptions::shares).
inline constexpr std::string_view kShareAnnotation = "berth.dev/gpu-milli";
/// The scheduling gate behind which pods wait until Berth releases them.
inline constexpr std::string_view kAdmissionGate = "berth.dev/admission";

/// The place that a plan gives to a pod, and what the pod was charged for it.
struct PlanClaim {
  std::string plan;
  std::string node;
  std::string queue;  ///< The queue that was charged; stays fixed over label edits and restarts.
  int rank = 0;
  /// For a whole-node pod: the devices that it was charged, thousandths by resource name.
  std::map<std::string, std::int64_t, std::less<>> charge{};
  /// Whether the pod may be evicted for other work. None: written by a release that did not know.
  std::optional<bool> preemptible{};
  /// The user that was charged in the queue; empty: the pod's namespace.
  std::string user{};
  /// How often Berth has evicted the job before, and the age that orders it (milliseconds since
  /// 1970), which is older than its pods then.
  int evictions = 0;
  kube::Millis since = 0;
  bool operator==(const PlanClaim&) const = default;
};

/// `v1;plan=...;node=...;queue=...;rank=...`, for a whole-node pod `;charge=NAME:AMOUNT,...`,
/// `;preemptible=true` or `=false`, `;user=...`, and of what was evicted before
/// `;evictions=...;since=...`.
std::string EncodePlanClaim(const PlanClaim& claim);

/// nullopt: another version, or malformed. Unknown fields are skipped (version N reads N-1's).
std::optional<PlanClaim> DecodePlanClaim(std::string_view text);

/// The claim in the pod's annotation; nullopt: none, or malformed.
std::optional<PlanClaim> ClaimOf(const kube::Pod& pod);
/// The claim under which the pod was bound; nullopt: it is not bound, or the claim is not of this
/// Binding, as another scheduler chose the node.
std::optional<PlanClaim> BoundClaimOf(const kube::Pod& pod);

/// For what a pod is evicted.
struct EvictionMark {
  std::string workload;  ///< The key of the workload that it makes room for.
  bool surplus = false;  ///< Its gang goes on with its minimum; otherwise the whole gang ends.
};

/// `KEY`, or `KEY surplus`.
std::string EncodeEvictionMark(const EvictionMark& mark);
/// The mark in the pod's annotation; nullopt: none.
std::optional<EvictionMark> EvictionMarkOf(const kube::Pod& pod);

}  // namespace berth::cluster
