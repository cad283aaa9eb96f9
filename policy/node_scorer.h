// The interface between the search and the scoring policy: Berth's own sum (berth_scorer.h), or
// another policy that is compared with it.
#pragma once

#include <map>
#include <string>

#include "policy/node_states.h"

namespace berth::policy {

/// Higher is better. Berth's own scores are in millionths: 1'000'000 is the value of one device.
using Score = std::int64_t;

struct Scored {
  Score score = 0;
  /// For a share of a device: the devices that are equally good. Not set for other pods, which take
  /// the fully free devices of the lowest index.
  topology::DeviceMask devices = 0;
};

/// Pure: the same arguments give the same answer, whatever was asked before.
class NodeScorer {
 public:
  NodeScorer() = default;
  NodeScorer(const NodeScorer&) = delete;
  NodeScorer& operator=(const NodeScorer&) = delete;
  virtual ~NodeScorer() = default;

  /// How good it is to put a pod of `shape` on a node in this state. REQUIRES: it fits there.
  virtual Scored Of(const cluster::PodShape& shape, const NodeState& node) const = 0;

  /// How much the last node of the one node order scores below the first, in millionths; 0: the
  /// order only breaks ties.
  virtual Score RankWeight() const { return 0; }
  /// How much a node in a wholly free rack scores below one in a full rack, in millionths; 0: the
  /// rack does not matter for single pods.
  virtual Score DomainWeight() const { return 0; }
  /// Whether NodeState::hosted is read.
  virtual bool LooksAtHosted() const { return false; }
  /// The weighted parts of Of, by name, for the decision log; may be empty.
  virtual std::map<std::string, Score> Terms(const cluster::PodShape& /*shape*/,
                                             const NodeState& /*node*/) const {
    return {};
  }
};

}  // namespace berth::policy
