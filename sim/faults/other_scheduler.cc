#include "sim/faults/other_scheduler.h"

#include <algorithm>

#include "kube/selector.h"
#include "sim/world/pods.h"

namespace berth::sim {

OtherScheduler::OtherScheduler(Environment& env) : env_(env), usage_(env) {
  env_.api.Subscribe(Kind::kPod, life_.alive(), [this] { Arm(); });
  env_.api.Subscribe(Kind::kNode, life_.alive(), [this] { Arm(); });
}

/// Any change makes it examine all its pods a little later.
void OtherScheduler::Arm() {
  const bool waits = std::ranges::any_of(env_.api.pods(), [](const auto& entry) {
    return entry.second->scheduler_name == kOtherScheduler && entry.second->node_name.empty();
  });
  if (armed_ || !waits) return;
  armed_ = true;
  env_.timeline.After(env_.ties.Between(50, 1'000), life_.Guard([this] {
    armed_ = false;
    Try();
  }));
}

void OtherScheduler::Try() {
  for (const auto& [key, pod] : env_.api.pods()) {
    if (pod->scheduler_name != kOtherScheduler || !pod->node_name.empty()) continue;
    for (const auto& [name, node] : env_.api.nodes()) {
      if (!Fits(*pod, *node)) continue;
      env_.api.Bind(RefOf(*pod), name, {});
      return;  // its Binding is a change, so the next pod follows when this one is counted
    }
  }
}

bool OtherScheduler::Fits(const kube::Pod& pod, const kube::Node& node) const {
  if (node.unschedulable || !kube::MatchesNode(*pod.spec, node) ||
      kube::FindUntoleratedTaint(pod.spec->tolerations, node.taints) != nullptr) {
    return false;
  }
  const Usage::Room& room = usage_.RoomOf(node.meta.name);
  const auto free = [&](const char* name) {
    return AmountOf(node.allocatable, name) - AmountOf(room.used, name);
  };
  return free("pods") >= 1 && room.whole_node == 0 &&
         std::ranges::all_of(pod.spec->requests, [&](const auto& asked) {
           return free(asked.first.c_str()) >= asked.second;
         });
}

}  // namespace berth::sim
