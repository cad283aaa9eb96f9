#include "engine/places.h"

#include <algorithm>
#include <ranges>
#include <set>

namespace berth::engine {

using cluster::PodInfo;

Places::Places(const View& view, const std::shared_ptr<const cluster::PodShape>& shape,
               const Ending& ending, int most)
    : view_(view), shape_(shape), ending_(ending), most_(most) {
  view.scorer.Refresh();
  const policy::Scorer::View room = view.scorer.For(shape, ending.ended.room());
  for (const auto& node : view.store.nodes()) all_ += std::min(most, room.Room(node->index));
}

template <typename Nodes>
int Places::Sum(const Nodes& nodes, const policy::Overlay& overlay) const {
  view_.scorer.Refresh();
  const policy::Scorer::View room = view_.scorer.For(shape_, overlay);
  int sum = 0;
  for (const cluster::NodeIndex node : nodes) sum += std::min(most_, room.Room(node));
  return sum;
}

Places::Freed Places::With(std::span<const VictimJob* const> jobs) const {
  Freed freed;
  for (const VictimJob* job : jobs) {
    for (const PodInfo* pod : job->pods) freed.ended[pod->node].push_back(pod);
  }
  policy::Overlay before(view_.store);
  policy::Overlay after(view_.store);
  for (auto& [node, pods] : freed.ended) {
    if (const auto known = ending_.by_node.find(node); known != ending_.by_node.end()) {
      for (const PodInfo* pod : known->second) before.Remove(*pod);
      pods.insert(pods.end(), known->second.begin(), known->second.end());
    }
    for (const PodInfo* pod : pods) after.Remove(*pod);
  }
  const auto nodes = std::views::keys(freed.ended);
  freed.places = all_ + Sum(nodes, after) - Sum(nodes, before);
  return freed;
}

int Places::Without(const VictimJob& job, const Freed& freed) const {
  const std::set<cluster::NodeIndex> nodes = NodesOf(job);
  policy::Overlay before(view_.store);
  policy::Overlay after(view_.store);
  for (const cluster::NodeIndex node : nodes) {
    for (const PodInfo* pod : freed.ended.at(node)) {
      before.Remove(*pod);
      if (std::ranges::find(job.pods, pod) == job.pods.end()) after.Remove(*pod);
    }
  }
  return freed.places + Sum(nodes, after) - Sum(nodes, before);
}

}  // namespace berth::engine
