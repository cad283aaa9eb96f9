// Scores by pod shape, remembered for every state that a node was seen in, and the search for the
// best node.
#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "policy/berth_scorer.h"
#include "policy/neighbour_counts.h"
#include "policy/place_terms.h"

namespace berth::policy {

/// Where pods of one shape fit, and how well: by node for the store as it is, and by node state, so
/// that equal nodes are scored once and what-if changes cost no more.
class ShapeScores {
 public:
  /// Used in place of a score.
  static constexpr Score kNoRoom = std::numeric_limits<Score>::min();

  ShapeScores(std::shared_ptr<const cluster::PodShape> shape, const cluster::Store& store,
              const NodeScorer& scorer)
      : shape_(std::move(shape)), store_(&store), scorer_(&scorer) {}

  /// Applies the changes. `fits` is by node.
  void CatchUp(const NodeStates& states, std::span<const std::uint8_t> fits);
  /// By node: kNoRoom, or the score without PlaceTerms. Valid until CatchUp.
  std::span<const Score> by_node() const { return by_node_; }

  /// kNoRoom, or the score without PlaceTerms.
  Score Of(NodeStates::Id id, const NodeStates& states) { return Judged(id, states).score; }
  /// How many pods of the shape fit, ignoring host ports and neighbours.
  int Room(NodeStates::Id id, const NodeStates& states) { return Judged(id, states).room; }
  /// See Scored::devices.
  topology::DeviceMask Devices(NodeStates::Id id, const NodeStates& states) {
    return Judged(id, states).devices;
  }

  std::size_t bytes() const {
    return entries_.capacity() * sizeof(Entry) + by_node_.capacity() * sizeof(Score);
  }

  void Forget() {
    by_node_.clear();
    entries_.clear();
  }

 private:
  static constexpr std::int32_t kUnknown = -1;
  struct Entry {
    Score score = kNoRoom;
    std::int32_t room = kUnknown;
    topology::DeviceMask devices = 0;
  };

  const Entry& Judged(NodeStates::Id id, const NodeStates& states) {
    return id < entries_.size() && entries_[id].room != kUnknown ? entries_[id] : Rate(id, states);
  }
  const Entry& Rate(NodeStates::Id id, const NodeStates& states);
  int CountRoom(const NodeState& state) const;

  std::shared_ptr<const cluster::PodShape> shape_;
  const cluster::Store* store_;
  const NodeScorer* scorer_;
  std::vector<Entry> entries_;  ///< By state.
  std::vector<Score> by_node_;
  cluster::ChangeLog::Position seen_ = 0;
};

/// The mix, the scores and other data remembered between placements: one per engine.
class Scorer {
 public:
  static constexpr std::size_t kMaxShapes = 512;
  /// For all score tables together. The least recently used shapes lose theirs first.
  static constexpr std::size_t kMaxBytes = std::size_t{128} << 20;

  /// With Berth's own policy.
  explicit Scorer(const cluster::Store& store);
  /// With another policy.
  Scorer(const cluster::Store& store, std::unique_ptr<const NodeScorer> policy);

  WorkloadMix& mix() { return mix_; }
  /// A pod of this shape arrived: see WorkloadMix::Advance.
  void Observe(std::shared_ptr<const cluster::PodShape> shape) {
    mix_.Observe(std::move(shape));
    mix_.Advance(*store_, fit_);
  }
  FitCache& fit() { return fit_; }
  NeighbourCache& neighbours() { return neighbours_; }
  /// Memory that the score tables take.
  std::size_t bytes() const;

  /// Applies arrivals and changes. Call before a batch of the calls below.
  void Refresh();

  /// One shape on one overlay.
  class View {
   public:
    /// No room, or the node does not match: kNoRoom. Otherwise higher is better; on equal scores
    /// the lower Store::rank wins.
    Score Of(cluster::NodeIndex node) const {
      if (fits_[static_cast<std::size_t>(node)] == 0) return ShapeScores::kNoRoom;
      const Score base = scores_->Of(StateOf(node), *states_);
      return WithPlace(base, static_cast<std::size_t>(node));
    }
    /// The same for an overlay that touches nothing. `node` is below nodes().
    Score Untouched(std::size_t node) const { return WithPlace(scores_->by_node()[node], node); }
    std::size_t nodes() const { return fits_.size(); }
    /// How many pods of the shape fit on the node.
    int Room(cluster::NodeIndex node) const {
      if (fits_[static_cast<std::size_t>(node)] == 0) return 0;
      return scores_->Room(StateOf(node), *states_);
    }
    /// See Scored::devices.
    topology::DeviceMask Devices(cluster::NodeIndex node) const {
      return scores_->Devices(StateOf(node), *states_);
    }
    /// Free thousandths, or units, of a resource.
    std::int64_t Free(cluster::NodeIndex node, cluster::ResourceId id) const {
      return states_->free(StateOf(node), id);
    }

   private:
    friend class Scorer;
    NodeStates::Id StateOf(cluster::NodeIndex node) const {
      return overlay_->Touched(node) ? states_->of(*overlay_, node) : states_->of(node);
    }
    Score WithPlace(Score base, std::size_t node) const {
      return base == ShapeScores::kNoRoom ? base : base + place_terms_[node];
    }
    const Overlay* overlay_ = nullptr;
    ShapeScores* scores_ = nullptr;
    NodeStates* states_ = nullptr;
    std::span<const std::uint8_t> fits_;
    std::span<const Score> place_terms_;
  };

  /// Valid until the store changes or Refresh; `overlay` may change meanwhile.
  View For(const std::shared_ptr<const cluster::PodShape>& shape, const Overlay& overlay);

  /// One node's score, Refresh() included.
  std::optional<Score> Of(const std::shared_ptr<const cluster::PodShape>& shape,
                          const Overlay& overlay, cluster::NodeIndex node);

  /// Each weighted term of a score by name, for the decision log; PlaceTerms included.
  std::map<std::string, Score> Terms(const cluster::PodShape& shape, const Overlay& overlay,
                                     cluster::NodeIndex node);

 private:
  struct Known {
    ShapeScores scores;
    std::uint64_t used = 0;  ///< The Refresh after which it was last asked for.
  };

  void Shrink();

  const cluster::Store* store_;
  WorkloadMix mix_;
  FitCache fit_;
  NeighbourCache neighbours_;
  std::unique_ptr<const NodeScorer> policy_;
  NodeStates states_;
  std::unordered_map<const cluster::PodShape*, Known> shapes_;
  std::uint64_t refreshes_ = 0;
  PlaceTerms place_terms_;
  std::uint64_t epoch_ = 0;  ///< Of the states that the scores belong to.
  std::uint64_t mix_generation_ = 0;
  std::optional<std::uint64_t> policy_generation_;
};

}  // namespace berth::policy
