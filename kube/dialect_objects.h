// Objects of other projects that Berth reads: the PodGroups of each, and Kueue's LocalQueues, cut
// down to what they say about a gang and its queue. Their kinds are in one table
// (kDialectResources), and their names are those of Volcano 1.13, Kueue 0.15, KAI 0.17,
// scheduler-plugins 0.33, Koordinator 1.7 and Kubernetes 1.37. Bounded and never throwing, like
// decode.h.
#pragma once

#include <array>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

#include "kube/decode.h"
#include "kube/objects.h"
#include "kube/simdjson_fwd.h"

namespace berth::kube {

enum class DialectKind : std::uint8_t {
  kVolcanoPodGroup,
  kKaiPodGroup,
  kSchedulerPluginsPodGroup,
  kSigsPodGroup,  ///< Koordinator's, and scheduler-plugins' before it was renamed.
  kInTreePodGroup,
  kKueueLocalQueue,
};
inline constexpr std::size_t kDialectKinds = 6;

/// Where the API server serves a kind.
struct DialectResource {
  DialectKind kind;
  std::string_view group;
  std::array<std::string_view, 3> versions;  ///< The newest first; unused ones are empty.
  std::string_view plural;
  std::string_view object_kind;  ///< `PodGroup`.

  /// `podgroups.scheduling.volcano.sh`, as a CRD is named.
  std::string Name() const;
};

/// In the order of DialectKind.
inline constexpr std::array<DialectResource, kDialectKinds> kDialectResources{{
    {DialectKind::kVolcanoPodGroup, "scheduling.volcano.sh", {"v1beta1"}, "podgroups", "PodGroup"},
    {DialectKind::kKaiPodGroup, "scheduling.run.ai", {"v2alpha2"}, "podgroups", "PodGroup"},
    {DialectKind::kSchedulerPluginsPodGroup,
     "scheduling.x-k8s.io",
     {"v1alpha1"},
     "podgroups",
     "PodGroup"},
    {DialectKind::kSigsPodGroup, "scheduling.sigs.k8s.io", {"v1alpha1"}, "podgroups", "PodGroup"},
    {DialectKind::kInTreePodGroup,
     "scheduling.k8s.io",
     {"v1beta1", "v1alpha3", "v1alpha2"},
     "podgroups",
     "PodGroup"},
    {DialectKind::kKueueLocalQueue,
     "kueue.x-k8s.io",
     {"v1beta2", "v1beta1"},
     "localqueues",
     "LocalQueue"},
}};

constexpr const DialectResource& ResourceOf(DialectKind kind) {
  return kDialectResources[static_cast<std::size_t>(kind)];
}

/// The kind of an object by its `apiVersion` and `kind`; nullopt: not a kind that is read.
std::optional<DialectKind> DialectKindOf(std::string_view api_version,
                                         std::string_view object_kind);

/// A PodGroup or LocalQueue. Fields that it does not have are empty or 0.
struct DialectObject {
  DialectKind kind = DialectKind::kVolcanoPodGroup;
  std::string ns{};
  std::string name{};
  std::string uid{};
  std::int32_t min_member = 0;       ///< As written: may be out of any range. In-tree `basic`: 1.
  bool gang = true;                  ///< False: an in-tree group of policy `basic`, no gang.
  std::int32_t size = 0;             ///< Koordinator's total-number.
  std::string queue{};               ///< LocalQueue: the ClusterQueue it leads to.
  std::string topology_required{};   ///< Node label key or level name.
  std::string topology_preferred{};  ///< Likewise.
  /// Volcano's highestTierAllowed; 1 is the narrowest HyperNode. 0: not given.
  std::int32_t tier_required = 0;
  std::int32_t tier_preferred = 0;
  std::string invalid{};  ///< Not empty: which part cannot be read, or cannot be honoured.

  bool operator==(const DialectObject&) const = default;
};

/// An error only if its metadata cannot be used; other problems are in `invalid`.
std::expected<DialectObject, DecodeError> DecodeDialectObject(DialectKind kind,
                                                              simdjson::dom::element json);

struct GatherLevels {
  std::string required;   ///< The layer of MustGather; empty: none.
  std::string preferred;  ///< The layer of PreferGather.
};
/// Koordinator's annotation `network-topology-spec`. Of several layers the last one counts, as they
/// are listed from wide to narrow. Error: what is wrong with the text.
std::expected<GatherLevels, std::string> ReadGatherStrategy(std::string_view json);

}  // namespace berth::kube
