#include "policy/empty_room.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "policy/node_groups.h"

namespace berth::policy {

using cluster::PodShape;
using cluster::Workload;

EmptyFit EmptyRoom::Count::For(std::ptrdiff_t pods) const {
  if (room >= pods) return EmptyFit::kEnough;
  return matching > 0 ? EmptyFit::kTooFew : EmptyFit::kNoMatch;
}

bool EmptyRoom::Count::Exclude(std::size_t node) {
  if (!matches[node]) return false;
  matches[node] = false;
  --matching;
  const auto held = std::ranges::lower_bound(holds, node, {}, &Held::node);
  if (held == holds.end() || held->node != node) return false;
  const bool was_best = held->domain->second == room;
  held->domain->second -= held->pods;
  if (held->domain->second == 0) rooms.erase(held->domain);
  holds.erase(held);
  return was_best;
}

/// `fits`: by its selectors and tolerations. REQUIRES: the node is not included.
void EmptyRoom::Include(std::size_t node, bool fits, const Place& place, Count& count) const {
  const cluster::NodeInfo& info = *store_->nodes()[node];
  if (!fits || (place.flavor && info.flavor != *place.flavor)) return;
  count.matches[node] = true;
  ++count.matching;
  std::string_view domain;
  if (!place.level.empty()) {
    const auto group = GroupOf(*store_, place.level, info);
    if (!group) return;
    domain = *group;
  }
  // Two pods of one host port never share a node.
  const int most = count.shape->spec->host_ports.empty() ? cluster::kMaxGangSize : 1;
  const int pods =
      Capacity(*count.shape, Overlay(*store_), info.index, most, Looking::kAtEmptyNode);
  if (pods == 0) return;
  auto at = count.rooms.find(domain);
  if (at == count.rooms.end()) at = count.rooms.emplace(domain, 0).first;
  at->second += pods;
  count.room = std::max(count.room, at->second);
  count.holds.insert(std::ranges::lower_bound(count.holds, node, {}, &Held::node),
                     {.node = node, .pods = pods, .domain = at});
}

/// Looks at further nodes while there is room for fewer: mostly the first ones are enough. Which
/// nodes are the smallest, only all of them tell.
void EmptyRoom::CountUpTo(std::ptrdiff_t pods, const Place& place, Count& count) {
  const std::size_t nodes = store_->nodes().size();
  if (count.shape->whole_node) pods = std::numeric_limits<std::ptrdiff_t>::max();
  if (count.room >= pods || count.matches.size() == nodes) return;
  const auto row = fit_->Row(*count.shape);
  while (count.room < pods && count.matches.size() < nodes) {
    const std::size_t node = count.matches.size();
    count.matches.push_back(false);
    Include(node, row[node] != 0, place, count);
  }
}

/// Earlier answers still hold, but not for workloads that ask for an amount between the old and the
/// new room; without any room they depend on whether a node matches, too.
void EmptyRoom::LookAgain(std::span<const std::size_t> nodes, const Place& place, Count& count) {
  const Count before{.matching = count.matching, .room = count.room};
  bool is_less = false;
  bool matched = false;
  for (const std::size_t node : nodes) {
    if (node >= count.matches.size()) break;
    matched |= count.matches[node];
    is_less |= count.Exclude(node);
    Include(node, FitsNode(*count.shape->spec, *store_->nodes()[node]), place, count);
    matched |= count.matches[node];
  }
  if (is_less) {
    count.room = 0;
    for (const auto& [domain, room] : count.rooms) count.room = std::max(count.room, room);
  }
  const std::ptrdiff_t looked_at = count.matching;
  CountUpTo(count.askers.rbegin()->first, place, count);
  matched |= count.matching != looked_at;
  if (matched && count.shape->whole_node) {  // a size may be another one
    for (const auto& [pods, asker] : count.askers) changed_.insert(asker);
    return;
  }
  const auto [least, most] = std::minmax(count.room, before.room);
  const bool any = (count.matching > 0) != (before.matching > 0);
  for (auto at = any ? count.askers.begin() : count.askers.lower_bound({least + 1, nullptr});
       at != count.askers.end() && (any || at->first <= most); ++at) {
    if (count.For(at->first) != before.For(at->first)) changed_.insert(at->second);
  }
}

void EmptyRoom::CatchUp() {
  const cluster::ChangeLog& log = store_->object_changes();
  const auto seen = std::exchange(seen_, log.end());
  if (seen == seen_ || counts_.empty()) return;
  std::vector<std::size_t> nodes;
  if (const auto changed = log.Since(seen)) {
    nodes.assign(changed->begin(), changed->end());
    std::ranges::sort(nodes);
    const auto repeated = std::ranges::unique(nodes);
    nodes.erase(repeated.begin(), repeated.end());
  } else {
    nodes.resize(store_->nodes().size());
    std::iota(nodes.begin(), nodes.end(), std::size_t{0});
  }
  for (auto it = counts_.lower_bound(Key{.term = term_}); it != counts_.end(); ++it) {
    LookAgain(nodes, it->first.place, it->second);
  }
}

EmptyRoom::Count& EmptyRoom::CountFor(const std::shared_ptr<const PodShape>& shape,
                                      std::ptrdiff_t pods, Place place, const Workload& asker) {
  CatchUp();
  const Key key{.term = term_, .shape = shape.get(), .place = std::move(place)};
  Count& count = counts_[key];
  count.shape = shape;
  CountUpTo(pods, key.place, count);
  if (count.askers.emplace(pods, &asker).second) asked_[&asker].emplace_back(key, pods);
  return count;
}

EmptyFit EmptyRoom::Ask(const std::shared_ptr<const PodShape>& shape, std::ptrdiff_t pods,
                        Place place, const Workload& asker) {
  if (!shape->asks_device) place.flavor = std::nullopt;
  return CountFor(shape, pods, std::move(place), asker).For(pods);
}

std::vector<cluster::Demand> EmptyRoom::LeastDemands(const std::shared_ptr<const PodShape>& shape,
                                                     std::size_t pods, const Workload& asker) {
  if (!shape->whole_node) return std::vector(pods, shape->demand);
  std::vector<std::pair<std::int64_t, cluster::Demand>> sizes;
  for (const Held& held : CountFor(shape, static_cast<std::ptrdiff_t>(pods), {}, asker).holds) {
    cluster::Demand demand = store_->DemandOn(*shape, *store_->nodes()[held.node]);
    std::int64_t devices = 0;
    for (const auto& [id, amount] : demand) {
      const auto& ids = store_->device_ids();
      if (std::ranges::find(ids, id) != ids.end()) devices += amount;
    }
    sizes.emplace_back(devices, std::move(demand));
  }
  pods = std::min(pods, sizes.size());
  std::ranges::partial_sort(sizes, sizes.begin() + static_cast<std::ptrdiff_t>(pods));
  std::vector<cluster::Demand> least;
  for (std::size_t i = 0; i < pods; ++i) least.push_back(std::move(sizes[i].second));
  return least;
}

void EmptyRoom::Forget(const Workload& asker) {
  changed_.erase(&asker);
  const auto asked = asked_.extract(&asker);
  if (asked.empty()) return;
  for (const auto& [key, pods] : asked.mapped()) {
    const auto count = counts_.find(key);
    if (count == counts_.end()) continue;
    count->second.askers.erase({pods, &asker});
    if (count->second.askers.empty()) counts_.erase(count);
  }
}

std::vector<const Workload*> EmptyRoom::TakeChanged() {
  CatchUp();
  std::vector<const Workload*> changed(changed_.begin(), changed_.end());
  changed_.clear();
  return changed;
}

}  // namespace berth::policy
