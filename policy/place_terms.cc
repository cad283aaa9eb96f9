#include "policy/place_terms.h"

#include <algorithm>
#include <set>

namespace berth::policy {

using cluster::DomainId;
using cluster::NodeIndex;
using cluster::NodeInfo;

PlaceTerms::Devices PlaceTerms::DevicesOf(const NodeInfo& node) const {
  Devices devices;
  if (!node.present) return devices;
  for (const cluster::ResourceId id : store_->device_ids()) {
    devices.free += std::max<std::int64_t>(0, node.free(id));
    devices.all += node.allocatable[id];
  }
  return devices;
}

DomainId PlaceTerms::DomainOf(NodeIndex node) const {
  const auto& domains = store_->node(node).domains;
  for (std::size_t level = domains.size(); level-- > 1;) {
    if (domains[level - 1] != cluster::kNoDomain) return domains[level - 1];
  }
  return cluster::kNoDomain;
}

Score PlaceTerms::rank(NodeIndex node) const {
  if (!store_->node(node).present) return 0;
  return -MulDiv(weights_.rank, store_->rank(node),
                 std::max(kRankedNodes, store_->present_nodes()));
}

Score PlaceTerms::domain(NodeIndex node) const {
  const DomainId domain = DomainOf(node);
  if (domain == cluster::kNoDomain) return 0;
  const Devices& devices = domains_[static_cast<std::size_t>(domain)];
  return devices.all == 0 ? 0 : -MulDiv(weights_.domain, devices.free, devices.all);
}

void PlaceTerms::Sum(NodeIndex node) {
  terms_[static_cast<std::size_t>(node)] = rank(node) + domain(node);
}

void PlaceTerms::StartOver(const Weights& weights) {
  weights_ = weights;
  topology_generation_ = store_->topology_generation();
  policy_generation_ = store_->policy_generation();
  counted_.assign(store_->nodes().size(), {});
  domains_.assign(store_->domains().size(), {});
  terms_.assign(store_->nodes().size(), 0);
  for (const auto& node : store_->nodes()) {
    const Devices devices = DevicesOf(*node);
    counted_[static_cast<std::size_t>(node->index)] = devices;
    const DomainId domain = DomainOf(node->index);
    if (domain == cluster::kNoDomain) continue;
    Devices& sum = domains_[static_cast<std::size_t>(domain)];
    sum.free += devices.free;
    sum.all += devices.all;
  }
  for (const auto& node : store_->nodes()) Sum(node->index);
}

void PlaceTerms::CatchUp(const Weights& weights) {
  const cluster::ChangeLog& log = store_->changes();
  const auto changed = log.Since(seen_);
  seen_ = log.end();
  if (!changed || weights != weights_ || counted_.size() != store_->nodes().size() ||
      topology_generation_ != store_->topology_generation() ||
      policy_generation_ != store_->policy_generation()) {
    StartOver(weights);
    return;
  }
  std::set<DomainId> dirty;
  for (const NodeIndex index : *changed) {
    const Devices now = DevicesOf(store_->node(index));
    Devices& before = counted_[static_cast<std::size_t>(index)];
    const DomainId domain = DomainOf(index);
    if (domain == cluster::kNoDomain || (now.free == before.free && now.all == before.all))
      continue;
    Devices& sum = domains_[static_cast<std::size_t>(domain)];
    sum.free += now.free - before.free;
    sum.all += now.all - before.all;
    before = now;
    dirty.insert(domain);
  }
  for (const DomainId domain : dirty) {
    for (const NodeIndex node : store_->domains()[static_cast<std::size_t>(domain)].nodes)
      Sum(node);
  }
}

}  // namespace berth::policy
