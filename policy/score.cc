#include "policy/score.h"

#include <algorithm>

namespace berth::policy {

using cluster::NodeIndex;
using cluster::PodShape;

namespace {

/// The tables grow by the states of one placement between two checks.
constexpr std::uint64_t kShrinkEvery = 32;

}  // namespace

// --- One shape -----------------------------------------------------------------------------------

int ShapeScores::CountRoom(const NodeState& state) const {
  const PodShape& shape = *shape_;
  std::int64_t count = cluster::kMaxGangSize;
  if (shape.whole_node) {
    count = 1;
    for (const cluster::ResourceId device : store_->device_ids()) {
      if (store_->IsWholeDevice(device) && state.free(device) < state.all(device)) return 0;
    }
  }
  for (const auto& [id, amount] : shape.demand) {
    const std::int64_t free = state.free(id);
    if (free < amount) return 0;
    count = std::min(count, free / amount);
  }
  if (state.devices.size() > 0 && shape.device == store_->device_ids().front()) {
    count = std::min(count, DeviceCapacity(shape, state.devices));
  }
  return static_cast<int>(count);
}

const ShapeScores::Entry& ShapeScores::Rate(NodeStates::Id id, const NodeStates& states) {
  if (id >= entries_.size()) entries_.resize(states.size());
  const NodeState state = states.state(id);
  Entry& entry = entries_[id];
  entry.room = CountRoom(state);
  if (entry.room > 0) {
    const Scored scored = scorer_->Of(*shape_, state);
    entry.score = scored.score;
    entry.devices = scored.devices;
  }
  return entry;
}

void ShapeScores::CatchUp(const NodeStates& states, std::span<const std::uint8_t> fits) {
  const cluster::ChangeLog& log = store_->changes();
  if (by_node_.size() == fits.size() && seen_ == states.seen()) return;
  const auto judge = [&](std::size_t node) {
    by_node_[node] =
        fits[node] == 0 ? kNoRoom : Of(states.of(static_cast<NodeIndex>(node)), states);
  };
  const auto changed = log.Since(seen_);
  const bool all = by_node_.empty() || !changed || changed->size() >= fits.size();
  by_node_.resize(fits.size(), kNoRoom);
  if (all) {
    for (std::size_t node = 0; node < fits.size(); ++node) judge(node);
  } else {
    for (const NodeIndex node : *changed) judge(static_cast<std::size_t>(node));
  }
  seen_ = states.seen();
}

// --- All shapes ----------------------------------------------------------------------------------

Scorer::Scorer(const cluster::Store& store)
    : store_(&store),
      fit_(store),
      neighbours_(store),
      policy_(std::make_unique<BerthScorer>(store, mix_)),
      states_(store, policy_->LooksAtHosted()),
      place_terms_(store) {}

Scorer::Scorer(const cluster::Store& store, std::unique_ptr<const NodeScorer> policy)
    : store_(&store),
      fit_(store),
      neighbours_(store),
      policy_(std::move(policy)),
      states_(store, policy_->LooksAtHosted()),
      place_terms_(store) {}

void Scorer::Refresh() {
  fit_.Trim();
  neighbours_.Trim();
  mix_.Refresh(*store_, fit_);
  states_.CatchUp(mix_);
  const bool forget = epoch_ != states_.epoch() || mix_generation_ != mix_.generation() ||
                      policy_generation_ != store_->policy_generation();
  if (shapes_.size() > kMaxShapes) shapes_.clear();
  if (++refreshes_ % kShrinkEvery == 0 && bytes() > kMaxBytes) Shrink();
  if (forget) {
    for (auto& [shape, known] : shapes_) known.scores.Forget();
  }
  // First-fit keeps nodes whole while a cluster fills up. Where pods leave as fast as they come, it
  // only keeps other pods from the gaps that they fit best (docs/simulator.md, `departures`).
  place_terms_.CatchUp({.rank = MulDiv(policy_->RankWeight(), mix_.growth(), cluster::kMilli),
                        .domain = policy_->DomainWeight()});
  epoch_ = states_.epoch();
  mix_generation_ = mix_.generation();
  policy_generation_ = store_->policy_generation();
}

std::size_t Scorer::bytes() const {
  std::size_t sum = 0;
  for (const auto& [shape, known] : shapes_) sum += known.scores.bytes();
  return sum;
}

/// Shrinks to half of the bound, so that the check is not repeated at once.
void Scorer::Shrink() {
  std::vector<std::pair<std::uint64_t, const PodShape*>> order;
  for (const auto& [shape, known] : shapes_) order.emplace_back(known.used, shape);
  std::ranges::sort(order);
  std::size_t left = bytes();
  for (const auto& [used, shape] : order) {
    if (left <= kMaxBytes / 2) return;
    const auto it = shapes_.find(shape);
    left -= it->second.scores.bytes();
    shapes_.erase(it);
  }
}

Scorer::View Scorer::For(const std::shared_ptr<const PodShape>& shape, const Overlay& overlay) {
  auto it = shapes_.find(shape.get());
  if (it == shapes_.end()) {
    it = shapes_.emplace(shape.get(), Known{ShapeScores(shape, *store_, *policy_)}).first;
  }
  it->second.used = refreshes_;
  ShapeScores& scores = it->second.scores;
  const auto fits = fit_.Row(*shape);
  scores.CatchUp(states_, fits);
  View view;
  view.overlay_ = &overlay;
  view.scores_ = &scores;
  view.states_ = &states_;
  view.fits_ = fits;
  view.place_terms_ = place_terms_.by_node();
  return view;
}

std::optional<Score> Scorer::Of(const std::shared_ptr<const PodShape>& shape,
                                const Overlay& overlay, NodeIndex node) {
  Refresh();
  const Score score = For(shape, overlay).Of(node);
  if (score == ShapeScores::kNoRoom) return std::nullopt;
  return score;
}

std::map<std::string, Score> Scorer::Terms(const PodShape& shape, const Overlay& overlay,
                                           NodeIndex node) {
  Refresh();
  auto terms = policy_->Terms(shape, states_.state(states_.of(overlay, node)));
  terms["rank"] = place_terms_.rank(node);
  terms["domain"] = place_terms_.domain(node);
  return terms;
}

}  // namespace berth::policy
