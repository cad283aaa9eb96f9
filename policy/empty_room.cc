#include "policy/empty_room.h"

#include <algorithm>

namespace berth::policy {

using cluster::NodeIndex;
using cluster::PodShape;
using cluster::Workload;

EmptyFit EmptyRoom::Count::For(std::ptrdiff_t pods) const {
  if (room >= pods) return EmptyFit::kEnough;
  return matches ? EmptyFit::kTooFew : EmptyFit::kNoMatch;
}

/// Looks at further nodes while there is room for fewer: mostly the first ones are enough.
void EmptyRoom::CountUpTo(std::ptrdiff_t pods, OfFlavor flavor, Count& count) {
  if (count.room >= pods) return;
  const PodShape& shape = *count.shape;
  const auto& nodes = store_->nodes();
  const Overlay base(*store_);
  // Two pods of one host port never share a node.
  const int most = shape.spec->host_ports.empty() ? cluster::kMaxGangSize : 1;
  const auto row = fit_->Row(shape);
  for (; count.room < pods && count.next < nodes.size(); ++count.next) {
    const cluster::NodeInfo& node = *nodes[count.next];
    if (row[static_cast<std::size_t>(node.index)] == 0) continue;
    if (flavor && node.flavor != *flavor) continue;
    count.matches = true;
    count.room += Capacity(shape, base, node.index, most, Looking::kAtEmptyNode);
  }
}

/// The answers of before hold but for those who ask for an amount between the old and the new room;
/// without any room they depend on whether a node matches, too.
void EmptyRoom::CountAgain(OfFlavor flavor, Count& count) {
  const Count before{.room = count.room, .matches = count.matches};
  count.next = 0;
  count.room = 0;
  count.matches = false;
  CountUpTo(count.askers.rbegin()->first, flavor, count);
  const auto [least, most] = std::minmax(count.room, before.room);
  const bool any = count.matches != before.matches;
  for (auto at = any ? count.askers.begin() : count.askers.lower_bound({least + 1, nullptr});
       at != count.askers.end() && (any || at->first <= most); ++at) {
    if (count.For(at->first) != before.For(at->first)) changed_.insert(at->second);
  }
}

void EmptyRoom::CatchUp() {
  const cluster::ChangeLog::Position now = store_->object_changes().end();
  if (std::exchange(seen_, now) == now) return;
  for (auto& [key, count] : counts_) CountAgain(key.second, count);
}

EmptyFit EmptyRoom::Look(const std::shared_ptr<const PodShape>& shape, std::ptrdiff_t pods,
                         OfFlavor flavor, const Workload& asker) {
  CatchUp();
  if (!shape->asks_device) flavor = std::nullopt;
  const Key key{shape.get(), flavor};
  Count& count = counts_[key];
  count.shape = shape;
  CountUpTo(pods, flavor, count);
  count.askers.emplace(pods, &asker);
  asked_[&asker].emplace_back(key, pods);
  return count.For(pods);
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

void EmptyRoom::Clear() {
  counts_.clear();
  asked_.clear();
  changed_.clear();
}

std::vector<const Workload*> EmptyRoom::TakeChanged() {
  CatchUp();
  std::vector<const Workload*> changed(changed_.begin(), changed_.end());
  changed_.clear();
  return changed;
}

}  // namespace berth::policy
