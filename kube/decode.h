// From JSON to the objects of objects.h. The input is untrusted: decoding never throws, never reads
// out of bounds, and keeps bounded amounts.
//
//  - `null` is the same as absent. Unknown fields are skipped. An unknown name in an enumeration
//    (a taint effect or operator of a later Kubernetes) takes no effect: the taint is dropped, the
//    requirement or toleration matches nothing.
//  - Of labels beyond a bound, and of a node's resources beyond one, the rest is left out, and
//    ObjectMeta::left_out says so. Keys that Berth reads by name are never left out, whatever other
//    keys there are.
//  - A wrong type, an unreadable amount or any other bound exceeded is a problem. It fails the
//    object, with one exception:
//  - A pod is only refused if its metadata.name, namespace or uid are unusable. A pod that is not
//    counted would have its devices given away twice, so everything else is decoded as far as
//    possible and the first problem is put into Pod::invalid_request: the pod is counted where it
//    is bound, and not scheduled. An amount that cannot be read counts as absent there: the limit
//    is used for an unreadable request, and zero if both are unreadable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "kube/objects.h"
#include "kube/simdjson_fwd.h"

namespace berth::kube {

inline constexpr std::size_t kMaxObjectBytes = 16 * 1024 * 1024;  ///< For the text overloads.
inline constexpr std::size_t kMaxLabels = 256;          ///< Besides those that Berth reads by name.
inline constexpr std::size_t kMaxAdminLabels = 4096;    ///< The same for nodes and namespaces.
inline constexpr std::size_t kMaxContainers = 256;      ///< Also init containers.
inline constexpr std::size_t kMaxResources = 64;        ///< Names in one resource list of a pod.
inline constexpr std::size_t kMaxNodeResources = 1024;  ///< Of a node, besides Kubernetes' own.
inline constexpr std::size_t kMaxItems = 1024;          ///< In any other list.

/// Why an object cannot be used, and the field that is to blame.
struct DecodeError {
  std::string path;  ///< As in `spec.containers[0].resources.limits.cpu`; empty: the whole object.
  std::string text;  ///< As in `not a quantity (unknown suffix)`.

  /// "path: text".
  std::string ToString() const;
};

/// Who may write an object: any user of a namespace, or only administrators and the cluster itself.
enum class Author : std::uint8_t { kUser, kAdmin };

/// How many bytes ObjectMeta keeps of the annotation; 0: the annotation is not read.
std::size_t AnnotationLimit(std::string_view key, Author author);
/// Whether the label is read by its name, so that it is kept beyond any bound.
bool IsReadLabel(std::string_view key);

/// Each decodes one object. Nothing of the result points into `json`.
std::expected<Pod, DecodeError> DecodePod(simdjson::dom::element json);
std::expected<Node, DecodeError> DecodeNode(simdjson::dom::element json);
std::expected<Namespace, DecodeError> DecodeNamespace(simdjson::dom::element json);
std::expected<PriorityClass, DecodeError> DecodePriorityClass(simdjson::dom::element json);
std::expected<PodDisruptionBudget, DecodeError> DecodePodDisruptionBudget(
    simdjson::dom::element json);
std::expected<ConfigMap, DecodeError> DecodeConfigMap(simdjson::dom::element json);
std::expected<Job, DecodeError> DecodeJob(simdjson::dom::element json);

// The same from text. The parser is scratch space: reuse it, one per thread.
std::expected<Pod, DecodeError> DecodePod(std::string_view json, simdjson::dom::parser& parser);
std::expected<Node, DecodeError> DecodeNode(std::string_view json, simdjson::dom::parser& parser);
std::expected<Namespace, DecodeError> DecodeNamespace(std::string_view json,
                                                      simdjson::dom::parser& parser);
std::expected<PriorityClass, DecodeError> DecodePriorityClass(std::string_view json,
                                                              simdjson::dom::parser& parser);
std::expected<PodDisruptionBudget, DecodeError> DecodePodDisruptionBudget(
    std::string_view json, simdjson::dom::parser& parser);
std::expected<ConfigMap, DecodeError> DecodeConfigMap(std::string_view json,
                                                      simdjson::dom::parser& parser);
/// A part of a list of Jobs or JobSets.
struct JobList {
  std::vector<Job> jobs;
  std::string next;  ///< Where the next part of the list begins; empty: this is the last.
};
/// A Job or JobSet, or a list of them without those that cannot be read.
std::expected<JobList, DecodeError> DecodeJobs(std::string_view json,
                                               simdjson::dom::parser& parser);

}  // namespace berth::kube
