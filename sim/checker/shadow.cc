#include "sim/checker/shadow.h"

#include <algorithm>
#include <vector>

namespace berth::sim {
namespace {

using cluster::Charge;
using cluster::PodInfo;
using cluster::ResourceId;
using cluster::Store;

bool Planned(const PodInfo& pod) {
  return pod.charge == Charge::kPlanned || pod.charge == Charge::kBinding;
}

kube::Node NodeObject(const cluster::NodeInfo& node) {
  kube::Node object = node.object;
  object.meta.name = node.name;
  return object;
}

/// Compares amounts of two stores that may have numbered resources in a different order.
bool SameAmounts(const cluster::Amounts& a, const Store& of_a, const cluster::Amounts& b,
                 const std::vector<ResourceId>& ids) {
  for (std::size_t id = 0; id < of_a.resources().size(); ++id) {
    if (a[static_cast<ResourceId>(id)] != b[ids[id]]) return false;
  }
  return true;
}

/// Compares what users have of a queue.
bool SameUsers(const cluster::QueueInfo& a, const Store& of_a, const cluster::QueueInfo& b,
               const std::vector<ResourceId>& ids) {
  const auto same = [&](const auto& share, const auto& other) {
    return share.first == other.first && share.second.pods == other.second.pods &&
           SameAmounts(share.second.used, of_a, other.second.used, ids);
  };
  return a.jobs == b.jobs && std::ranges::equal(a.shares, b.shares, same);
}

std::string_view QueueOf(const PodInfo& pod, const Store& store) {
  if (pod.charged_queue == cluster::kNoQueue) return {};
  return store.queue(pod.charged_queue).config.name;
}

}  // namespace

void Shadow::FollowNodes(const Store& store) {
  std::map<std::string, std::string> present;
  for (const auto& node : store.nodes()) {
    if (!node->present) continue;
    const std::string& version = node->object.meta.resource_version;
    present.emplace(node->name, version);
    const auto known = nodes_.find(node->name);
    if (known == nodes_.end() || known->second != version) shadow_->UpsertNode(NodeObject(*node));
  }
  for (const auto& [name, version] : nodes_) {
    if (!present.contains(name)) shadow_->DeleteNode(name);
  }
  nodes_ = std::move(present);
}

/// The node that a plan or a Binding under way names; if it is gone, the shadow may not know it.
cluster::NodeIndex Shadow::NodeOf(const cluster::NodeInfo& node) {
  if (shadow_->FindNode(node.name) == cluster::kNoNode) {
    shadow_->UpsertNode(NodeObject(node));
    shadow_->DeleteNode(node.name);
  }
  return shadow_->FindNode(node.name);
}

void Shadow::FollowPods(const Store& store) {
  std::vector<std::string> gone;
  for (const auto& [uid, pod] : shadow_->pods()) {
    if (store.FindPod(uid) == nullptr) gone.push_back(uid);
  }
  for (const std::string& uid : gone) shadow_->DeletePod(uid);
  std::map<std::string, const PodInfo*> changed;
  for (const auto& [uid, pod] : store.pods()) {
    const PodInfo* known = shadow_->FindPod(uid);
    if (known == nullptr ||
        known->object.meta.resource_version != pod.object.meta.resource_version) {
      changed.emplace(uid, &pod);
    }
  }
  for (const auto& [uid, pod] : changed) {
    shadow_->DeletePod(uid);  // also releases what it held
    shadow_->UpsertPod(pod->object);
  }
}

void Shadow::FollowPlans(const Store& store) {
  std::map<std::string, const PodInfo*> planned;
  for (const auto& [uid, pod] : store.pods()) {
    const PodInfo& mine = *shadow_->FindPod(uid);
    if (Planned(pod)) {
      planned.emplace(uid, &pod);
    } else if (Planned(mine) && mine.workload != nullptr) {
      shadow_->Unreserve(mine);
    }
    // Devices may have been exchanged between pods: those that change release theirs first.
    if (Planned(pod) && Planned(mine) && mine.devices != pod.devices) shadow_->Unreserve(mine);
  }
  for (const bool chosen : {true, false}) {
    for (const auto& [uid, pod] : planned) {
      if ((pod->devices != 0) != chosen) continue;
      const PodInfo& mine = *shadow_->FindPod(uid);
      shadow_->SetTerms(mine, pod->fixed, shadow_->FindQueue(QueueOf(*pod, store)),
                        pod->non_preemptible, pod->user);
      shadow_->SetCharge(mine, NodeOf(store.node(pod->node)), pod->charge, pod->devices);
    }
  }
}

bool Shadow::Same(const Store& store) const {
  std::vector<ResourceId> ids;
  for (std::size_t id = 0; id < store.resources().size(); ++id) {
    ids.push_back(shadow_->resources().Intern(store.resources().Name(static_cast<ResourceId>(id))));
  }
  for (const auto& [uid, pod] : store.pods()) {
    const PodInfo& mine = *shadow_->FindPod(uid);
    if (pod.charge != mine.charge) return false;
    if (pod.charge == Charge::kNone) continue;
    if (store.node(pod.node).name != shadow_->node(mine.node).name ||
        QueueOf(pod, store) != QueueOf(mine, *shadow_)) {
      return false;
    }
  }
  // With shares of devices, who has which depends on the order of events; the amounts do not.
  const bool by_history = store.options().shares;
  const bool nodes = std::ranges::all_of(store.nodes(), [&](const auto& node) {
    if (!node->present && node->pods.empty()) return true;  // the node is gone and holds no pods
    const auto mine = shadow_->FindNode(node->name);
    return mine != cluster::kNoNode &&
           SameAmounts(node->used, store, shadow_->node(mine).used, ids) &&
           node->track == shadow_->node(mine).track &&
           (by_history || node->devices == shadow_->node(mine).devices);
  });
  return nodes && std::ranges::all_of(store.queues(), [&](cluster::QueueId id) {
           const cluster::QueueInfo& queue = store.queue(id);
           const cluster::QueueId mine = shadow_->FindQueue(queue.config.name);
           return mine != cluster::kNoQueue &&
                  SameAmounts(queue.used, store, shadow_->queue(mine).used, ids) &&
                  SameUsers(queue, store, shadow_->queue(mine), ids);
         });
}

void Shadow::Follow(const Store& store) {
  if (shadow_ == nullptr) shadow_ = std::make_unique<Store>(store.policy(), store.options());
  if (!(shadow_->policy() == store.policy())) shadow_->SetPolicy(store.policy());
  FollowNodes(store);
  FollowPods(store);
  shadow_->Refresh();
  FollowPlans(store);
}

std::string Shadow::Difference(const Store& store) {
  if (store.reading()) return {};  // some pods are still charged under the last policy
  Follow(store);
  if (Same(store)) return {};
  return "the ledger is\n" + store.LedgerString() + "but its objects and plans say\n" +
         shadow_->LedgerString();
}

std::string Shadow::Rebuilt(const Store& store) {
  Shadow fresh;
  fresh.Follow(store);
  return fresh.shadow_->LedgerString();
}

}  // namespace berth::sim
