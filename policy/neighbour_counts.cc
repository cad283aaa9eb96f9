#include "policy/neighbour_counts.h"

#include <algorithm>

#include "kube/selector.h"
#include "policy/same_labels.h"

namespace berth::policy {

using cluster::NodeIndex;
using cluster::PodInfo;

namespace {

/// Whether the term of a pod in `owner` looks at pods in `ns`.
bool InNamespaces(const kube::PodAffinityTerm& term, const std::string& owner,
                  const std::string& ns, const cluster::Store& store) {
  if (term.namespaces.empty() && !term.namespace_selector) return ns == owner;
  if (std::ranges::find(term.namespaces, ns) != term.namespaces.end()) return true;
  if (!term.namespace_selector) return false;
  const kube::StringMap* labels = store.NamespaceLabels(ns);
  return labels != nullptr && kube::Matches(term.namespace_selector, *labels);
}

void AddKeys(const kube::PodAffinityTerm& term, std::set<std::string>& keys) {
  keys.insert(term.match_label_keys.begin(), term.match_label_keys.end());
  keys.insert(term.mismatch_label_keys.begin(), term.mismatch_label_keys.end());
  if (!term.label_selector) return;
  for (const auto& requirement : term.label_selector->requirements) keys.insert(requirement.key);
}

}  // namespace

bool Selects(const kube::PodAffinityTerm& term, Selectable owner, Selectable other,
             const cluster::Store& store) {
  if (!InNamespaces(term, owner.ns, other.ns, store)) return false;
  if (!kube::Matches(term.label_selector, other.labels)) return false;
  const auto same_value = [&](const std::string& key) {
    const auto a = owner.labels.find(key);
    const auto b = other.labels.find(key);
    return a == owner.labels.end() || (b != other.labels.end() && a->second == b->second);
  };
  if (!std::ranges::all_of(term.match_label_keys, same_value)) return false;
  return std::ranges::none_of(term.mismatch_label_keys, [&](const std::string& key) {
    const auto a = owner.labels.find(key);
    const auto b = other.labels.find(key);
    return a != owner.labels.end() && b != other.labels.end() && a->second == b->second;
  });
}

kube::PodAffinityTerm AsTerm(const kube::TopologySpreadConstraint& constraint) {
  return {.label_selector = constraint.label_selector,
          .namespaces = {},
          .namespace_selector = std::nullopt,
          .topology_key = constraint.topology_key,
          .match_label_keys = constraint.match_label_keys,
          .mismatch_label_keys = {}};
}

// --- Counter -------------------------------------------------------------------------------------

NeighbourCounter::NeighbourCounter(NeighbourKind kind, const cluster::Store& store)
    : kind_(std::move(kind)), store_(&store) {
  for (const auto& constraint : kind_.shape->spec->topology_spread) {
    spread_terms_.push_back(AsTerm(constraint));
  }
}

NeighbourTally NeighbourCounter::Empty() const {
  const kube::PodSpec& spec = *kind_.shape->spec;
  NeighbourTally tally;
  tally.anti_affinity.resize(spec.required_pod_anti_affinity.size());
  tally.affinity.resize(spec.required_pod_affinity.size());
  tally.spread.resize(spec.topology_spread.size());
  tally.spread_nodes.resize(spec.topology_spread.size());
  return tally;
}

/// As kube-scheduler counts: only a pod that satisfies every affinity term counts for any of them.
bool NeighbourCounter::Attracts(const PodInfo& other) const {
  return std::ranges::all_of(kind_.shape->spec->required_pod_affinity,
                             [&](const auto& term) { return SelectsOwn(term, other); });
}

bool NeighbourCounter::HasSpreadLabels(NodeIndex node) const {
  return std::ranges::all_of(spread_terms_, [&](const kube::PodAffinityTerm& term) {
    return Label(node, term.topology_key) != nullptr;
  });
}

bool NeighbourCounter::Counts(std::size_t constraint, NodeIndex node) const {
  const kube::PodSpec& spec = *kind_.shape->spec;
  const kube::Node& object = store_->node(node).object;
  const kube::TopologySpreadConstraint& spread = spec.topology_spread[constraint];
  if (spread.honors_affinity && !kube::MatchesNode(spec, object)) return false;
  return !spread.honors_taints ||
         kube::FindUntoleratedTaint(spec.tolerations, object.taints) == nullptr;
}

void NeighbourCounter::AddOwnKeys(std::set<std::string>& keys) const {
  const kube::PodSpec& spec = *kind_.shape->spec;
  for (const auto& term : spec.required_pod_anti_affinity) AddKeys(term, keys);
  for (const auto& term : spec.required_pod_affinity) AddKeys(term, keys);
  for (const auto& term : spread_terms_) AddKeys(term, keys);
}

void NeighbourCounter::AddKeysOf(const PodInfo& other, std::set<std::string>& keys) const {
  for (const auto& term : other.object.spec->required_pod_anti_affinity) {
    if (InNamespaces(term, other.object.meta.ns, kind_.ns, *store_)) AddKeys(term, keys);
  }
}

// --- Row -----------------------------------------------------------------------------------------

NeighbourRow::NeighbourRow(NeighbourKind kind, const cluster::Store& store)
    : store_(&store), counter_(std::move(kind), store), tally_(counter_.Empty()) {
  counter_.AddOwnKeys(keys_);
}

void NeighbourRow::CatchUp() {
  const cluster::ChangeLog& log = store_->neighbour_changes();
  const bool same_namespaces =
      std::exchange(namespaces_, store_->namespace_generation()) == store_->namespace_generation();
  if (!counted_ || !same_namespaces) return CountAll();
  if (seen_ == log.end()) return;
  const auto changes = log.Since(seen_);
  if (!changes || changes->size() >= store_->nodes().size()) return CountAll();
  seen_ = log.end();
  for (const NodeIndex node : *changes) Recount(node);
}

void NeighbourRow::CountAll() {
  counted_ = true;
  seen_ = store_->neighbour_changes().end();
  parts_.clear();
  parts_count_ = 0;
  tally_ = counter_.Empty();
  for (const auto& node : store_->nodes()) Recount(node->index);
}

void NeighbourRow::Recount(NodeIndex node) {
  const auto before = parts_.find(node);
  if (before != parts_.end()) {
    for (const Part& part : before->second) {
      const auto it = part.counts->find(*part.value);
      if (--it->second == 0) part.counts->erase(it);
    }
    parts_count_ -= before->second.size();
    parts_.erase(before);
  }
  std::vector<Part> parts;
  const auto raise = [&parts](DomainCounts& counts, const std::string& value) {
    const auto it = counts.try_emplace(value, 0).first;
    ++it->second;
    parts.push_back({.counts = &counts, .value = &it->first});
  };
  counter_.ForNode(node, tally_, raise);
  for (const PodInfo* pod : store_->node(node).pods) {
    counter_.ForPod(*pod, node, tally_, raise);
    counter_.AddKeysOf(*pod, keys_);
  }
  if (parts.empty()) return;
  parts_count_ += parts.size();
  parts_.emplace(node, std::move(parts));
}

bool NeighbourRow::Serves(const PodInfo& pod) const {
  const NeighbourKind& kind = counter_.kind();
  return pod.shape == kind.shape && pod.object.meta.ns == kind.ns &&
         SameLabels(keys_, kind.labels, pod.object.meta.labels);
}

// --- Cache ---------------------------------------------------------------------------------------

void NeighbourCache::CatchUp(NeighbourRow& row) {
  parts_ -= row.parts();
  row.CatchUp();
  parts_ += row.parts();
}

std::shared_ptr<const NeighbourRow> NeighbourCache::Row(const PodInfo& pod) {
  Rows& rows = rows_[{pod.shape.get(), pod.object.meta.ns}];
  for (const auto& row : rows) {
    if (!row->Serves(pod)) continue;
    CatchUp(*row);
    if (row->Serves(pod)) return row;  // it may have found terms that distinguish the two
  }
  if (rows.size() == kMaxAlike) {
    parts_ -= rows.front()->parts();
    rows.erase(rows.begin());
    --count_;
  }
  const NeighbourKind kind{
      .shape = pod.shape, .ns = pod.object.meta.ns, .labels = pod.object.meta.labels};
  rows.push_back(std::make_shared<NeighbourRow>(kind, *store_));
  ++count_;
  CatchUp(*rows.back());
  return rows.back();
}

void NeighbourCache::Trim() {
  if (count_ <= kMaxRows && parts_ <= kMaxParts) return;
  rows_.clear();
  count_ = 0;
  parts_ = 0;
}

}  // namespace berth::policy
