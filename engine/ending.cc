#include "engine/ending.h"

#include <algorithm>

#include "engine/decide.h"

namespace berth::engine {

using cluster::PodInfo;

bool Ends(const View& view, const PodInfo& pod) {
  if (pod.terminating()) return !IsStuck(view, pod);
  const MemberState& state = view.states.At(pod);
  return !state.victim_of.empty() && (state.victim_of != kDrain || state.drained);
}

void Ended::Place(const policy::Placed& placed) {
  const cluster::PodInfo& pod = *placed.pod;
  const cluster::Store& store = room_.store();
  room_.Place(pod, placed.node, placed.devices);
  quota_.Take(pod.queue, store.QueueChargeOn(pod, store.node(placed.node)));
}

TimePoint StuckAt(const cluster::Store& store, const PodInfo& pod) {
  return *pod.object.meta.deletion + store.policy().eviction.stuck_after.count();
}

bool IsStuck(const View& view, const PodInfo& pod) {
  return pod.terminating() && StuckAt(view.store, pod) < view.now;
}

Evicting StageOf(const View& view, const PodInfo& pod) {
  const cluster::Workload* of = view.store.FindWorkload(view.states.At(pod).victim_of);
  if (of == nullptr) return Evicting::kNo;
  const std::optional<Plan>& plan = view.states.At(*of).plan;
  return plan ? plan->evictions.stage : Evicting::kNo;
}

const Ending& EndingCache::Of(const View& view) {
  const Key key{view.store.generation(), view.states.victim_changes(), view.now};
  if (known_ && key_ == key) return *known_;
  view.work += std::ssize(view.store.pods());
  key_ = key;
  known_.emplace(Ending{.ended = Ended(view.store),
                        .use = policy::QuotaView(view.store),
                        .running = policy::QuotaView(view.store)});
  for (const auto& node : view.store.nodes()) {
    for (const PodInfo* pod : node->pods) {
      const bool ends = Ends(view, *pod);
      if (ends) {
        known_->pods.push_back(pod);
        known_->ended.Add(*pod);
        known_->by_node[node->index].push_back(pod);
      }
      const bool leaves = ends || pod->terminating();
      if (leaves) known_->use.GiveBack(*pod);
      const bool drained = view.states.At(*pod).victim_of == kDrain;
      if (leaves || drained || pod->charge == cluster::Charge::kPlanned) {
        known_->running.GiveBack(*pod);
      }
    }
  }
  std::ranges::sort(known_->pods, {},
                    [](const PodInfo* pod) -> const std::string& { return pod->object.meta.uid; });
  return *known_;
}

}  // namespace berth::engine
