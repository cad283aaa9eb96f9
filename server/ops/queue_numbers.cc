#include "server/ops/queue_numbers.h"

#include <algorithm>
#include <map>
#include <utility>

#include "policy/loans.h"

namespace berth::server {
namespace {

/// What a queue uses above its quota of other resources than devices.
kube::ResourceList BorrowedOfOthers(const cluster::Store& store, const cluster::QueueInfo& queue) {
  kube::ResourceList borrowed;
  for (const auto& [name, quota] : queue.config.quota) {
    const auto id = store.resources().Find(name);
    if (!id || std::ranges::find(store.device_ids(), *id) != store.device_ids().end()) continue;
    if (queue.used[*id] > quota) borrowed[name] = queue.used[*id] - quota;
  }
  return borrowed;
}

}  // namespace

std::vector<PartNumbers> PartsOf(const cluster::Store& store, const cluster::QueueInfo& queue) {
  std::map<cluster::ResourceId, std::optional<std::int64_t>> limits;  // with all ids
  for (std::size_t id = 0; id < queue.used.size(); ++id) {
    const auto rid = static_cast<cluster::ResourceId>(id);
    if (queue.used[rid] != 0) limits[rid];
  }
  for (std::size_t id = 0; id < queue.quota.size(); ++id) {
    const auto rid = static_cast<cluster::ResourceId>(id);
    if (queue.quota[rid] != 0) limits[rid];
  }
  for (const auto* caps : {&queue.caps, &queue.non_preemptible_caps}) {
    for (const auto& [id, cap] : *caps) limits[id] = cap;
  }
  std::vector<PartNumbers> parts;
  for (const auto& [id, limit] : limits) {
    const cluster::Part* part = store.resources().FindPart(id);
    if (part == nullptr) continue;
    parts.push_back(
        {.part = *part, .used = queue.used[id], .quota = queue.quota[id], .limit = limit});
  }
  return parts;
}

void QueueReader::Visit(const engine::Engine& engine, const cluster::Workload& workload) {
  demands_.Add(engine.store(), workload, !IsNeverPlaced(engine, workload));
}

bool IsNeverPlaced(const engine::Engine& engine, const cluster::Workload& workload) {
  const cluster::Verdict& verdict = engine.StateOf(workload).verdict;
  return verdict.never || verdict.reason == cluster::ReasonId::kExceedsLimit;
}

QueueTree QueueReader::Read(const InParts& read,
                            const std::function<void(const cluster::Store&)>& also) const {
  QueueTree queues;
  read([&](const engine::Engine& engine, auto) {
    const cluster::Store& store = engine.store();
    if (const auto away = engine.AwayDemand(); away.empty()) {
      queues.tree = demands_.TreeOf(store);
    } else {
      policy::QueueDemands demands = demands_;
      demands.Add(away);
      queues.tree = demands.TreeOf(store);
    }
    for (const cluster::ResourceId id : store.device_ids()) {
      queues.kinds.push_back(store.resources().Name(id));
    }
    also(store);
    return false;
  });
  return queues;
}

void QueueReader::Compute(const InParts& read) {
  const auto [tree, kinds] = Read(read, [this](const cluster::Store& store) {
    for (const cluster::QueueId id : store.queues()) {
      const cluster::QueueInfo& queue = store.queue(id);
      numbers_[queue.config.name].borrowed = BorrowedOfOthers(store, queue);
    }
  });
  const std::vector<policy::Loan> loans = policy::LoansOf(tree);
  const std::vector<policy::DeviceAmounts> shares = policy::FairShares(tree);
  for (std::size_t i = 0; i < shares.size(); ++i) {
    QueueNumbers& numbers = numbers_[tree.queues[i].name];
    for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
      const std::string& name = kinds[kind];
      if (loans[i].borrowed[kind] > 0) numbers.borrowed[name] = loans[i].borrowed[kind];
      if (loans[i].lent[kind] > 0) numbers.lent[name] = loans[i].lent[kind];
      numbers.fair_share[name] = shares[i][kind];
    }
  }
}

const QueueNumbers& QueueReader::Of(const std::string& queue) const {
  static const QueueNumbers kNothing;
  const auto it = numbers_.find(queue);
  return it == numbers_.end() ? kNothing : it->second;
}

}  // namespace berth::server
