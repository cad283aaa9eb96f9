// The seam between the search and what it prefers: Berth's own sum (berth_scorer.h), or another
// policy that is compared with it.
#pragma once

#include <map>
#include <string>

#include "policy/node_states.h"

namespace berth::policy {

/// Higher is better. Berth's own are millionths: 1'000'000 is one device's worth.
using Score = std::int64_t;
inline constexpr Score kOne = 1'000'000;

struct Scored {
  Score score = 0;
  /// For a share of a device: the devices that are equally good; of others nothing is said, they
  /// take the fully free ones of the lowest index.
  topology::DeviceMask devices = 0;
};

/// Pure: the same arguments, the same answer, whatever was asked before.
class NodeScorer {
 public:
  NodeScorer() = default;
  NodeScorer(const NodeScorer&) = delete;
  NodeScorer& operator=(const NodeScorer&) = delete;
  virtual ~NodeScorer() = default;

  /// How good it is to put a pod of `shape` on a node in this state. REQUIRES: it fits there.
  virtual Scored Of(const cluster::PodShape& shape, const NodeState& node) const = 0;

  /// What the last node of the one order has less than the first, in millionths; 0: the order only
  /// breaks ties.
  virtual Score RankWeight() const { return 0; }
  /// What a node in a wholly free rack has less than one in a full rack, in millionths; 0: racks of
  /// single pods are all the same.
  virtual Score DomainWeight() const { return 0; }
  /// Whether NodeState::hosted is read.
  virtual bool LooksAtHosted() const { return false; }
  /// The weighted parts of Of by name, for the decision log; may be empty.
  virtual std::map<std::string, Score> Terms(const cluster::PodShape& /*shape*/,
                                             const NodeState& /*node*/) const {
    return {};
  }
};

}  // namespace berth::policy
