// Berth's own policy: one sum of fixed-point terms that avoids breaking into whole nodes
// (docs/policy.md explains each weight).
//
//   + fragmentation * (F - F')        F: free devices that a typical pod cannot use there
//   - stranding     * (S' - S)        S: free devices beyond what the node's free CPU can serve
//   - scarcity      * price * devices price: how sought-after the node's device model is
//   - oddRemainder  * (odd' - odd)    odd: 1 if 1, 3, 5 or 7 whole devices stay free
//   - emptyNode     * opened          opened: 1 if an untouched node is broken into
//   - topology      * (loss + broken) / 2   on nodes whose devices are tracked individually. loss:
//                                     how far the links of the devices it would get are from the
//                                     best to the worst possible, 0..1; broken: 1 if a whole socket
//                                     is broken into
//   - rank          * growth * rank / nodes   graded first-fit over one hashed order, rack by
//                                     rack, as far as the cluster fills up (WorkloadMix::growth);
//                                     also the tie-break
//   - topology      * share of free devices in the rack, 0..1: keeps racks whole for gangs;
//                                     `domain` in the decision log
//
// Where devices are kept one by one (StoreOptions::shares), oddRemainder and emptyNode are 0: on
// the openb lists, where every other pod takes a share, emptyNode alone costs half a percent of all
// devices. A pod without devices goes where few devices are free: - 0.2 * free, under emptyNode.
//
// F is the fragmentation measure of Weng et al., "Beware of Fragmentation" (USENIX ATC 2023); the
// other terms follow reference measurements over its 17 pod lists.
#pragma once

#include "policy/node_scorer.h"

namespace berth::policy {

class BerthScorer : public NodeScorer {
 public:
  /// Uses the weights of the store's policy; both arguments must outlive the scorer.
  BerthScorer(const cluster::Store& store, const WorkloadMix& mix) : store_(&store), mix_(&mix) {}

  Scored Of(const cluster::PodShape& shape, const NodeState& node) const override;
  Score RankWeight() const override;
  Score DomainWeight() const override;
  std::map<std::string, Score> Terms(const cluster::PodShape& shape,
                                     const NodeState& node) const override;

 private:
  struct Parts;
  Parts Evaluate(const cluster::PodShape& shape, const NodeState& node) const;

  const cluster::Store* store_;
  const WorkloadMix* mix_;
};

}  // namespace berth::policy
