// A store, and what tests ask of it.
#pragma once

#include <string>
#include <utility>

#include "cluster/store.h"

namespace berth::cluster {

class StoreTest {
 public:
  explicit StoreTest(config::PolicyConfiguration policy = {}) : store(std::move(policy)) {}

  std::int64_t Gpus(const std::string& node) {
    const NodeIndex index = store.FindNode(node);
    return index == kNoNode ? 0 : store.node(index).used[store.device_ids().front()] / 1000;
  }
  std::int64_t QueueGpus(std::size_t queue) {
    return store.queue(store.queues()[queue]).used[store.device_ids().front()] / 1000;
  }
  const PodInfo& pod(const std::string& name) { return *store.FindPod("uid-" + name); }
  NodeIndex node(const std::string& name) { return store.FindNode(name); }

  Store store;
};

}  // namespace berth::cluster
