// Selectors, node affinity, taints and host ports: the yes/no questions of kube-scheduler's filter
// plugins, answered as Kubernetes 1.36 answers them. A requirement that the API server would refuse
// (no values for `In`, text for `Gt`) matches nothing, as upstream's parse errors do.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "kube/objects.h"

namespace berth::kube {

/// metav1.LabelSelector: all requirements hold. `Gt` and `Lt` do not exist there: they never hold.
bool Matches(const LabelSelector& selector, const StringMap& labels);

/// An absent selector matches nothing.
bool Matches(const std::optional<LabelSelector>& selector, const StringMap& labels);

/// One node selector requirement, including `Gt` and `Lt` on labels that are integers.
bool MatchesNode(const Requirement& requirement, const StringMap& labels);

/// All of a term's expressions and fields hold. An empty term matches nothing.
bool MatchesNode(const NodeSelectorTerm& term, const Node& node);

/// Any term matches. No terms match nothing.
bool MatchesNode(const std::vector<NodeSelectorTerm>& terms, const Node& node);

/// spec.nodeSelector and required node affinity both accept the node.
bool MatchesNode(const PodSpec& spec, const Node& node);

/// Whether one of the tolerations tolerates the taint, whatever the taint's effect.
bool Tolerates(const std::vector<Toleration>& tolerations, const Taint& taint);

/// The first taint that keeps the pod away: NoSchedule or NoExecute, and not tolerated. nullptr if
/// there is none. PreferNoSchedule is only a preference.
const Taint* FindUntoleratedTaint(const std::vector<Toleration>& tolerations,
                                  const std::vector<Taint>& taints);

/// Whether the pod may go to a cordoned node (spec.unschedulable).
bool ToleratesUnschedulable(const std::vector<Toleration>& tolerations);

/// Whether two pods with these host ports exclude each other on one node.
bool HostPortsConflict(const std::vector<HostPort>& a, const std::vector<HostPort>& b);

}  // namespace berth::kube
