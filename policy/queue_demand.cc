#include "policy/queue_demand.h"

#include <algorithm>

#include "cluster/plan_claim.h"
#include "policy/quota.h"
#include "policy/rank_order.h"

namespace berth::policy {
namespace {

using cluster::Charge;
using cluster::PodInfo;
using cluster::QueueId;
using cluster::Store;
using cluster::Workload;

DeviceAmounts DevicesOf(const Store& store, const cluster::Demand& demand) {
  const auto& ids = store.device_ids();
  DeviceAmounts devices(ids.size());
  for (const auto& [id, amount] : demand) {
    const auto it = std::ranges::find(ids, id);
    if (it != ids.end()) devices[static_cast<std::size_t>(it - ids.begin())] += amount;
  }
  return devices;
}

void AddTo(DeviceAmounts& sum, const DeviceAmounts& devices) {
  for (std::size_t kind = 0; kind < sum.size(); ++kind) sum[kind] += devices[kind];
}

bool IsNothing(const DeviceAmounts& devices) {
  return std::ranges::all_of(devices, [](std::int64_t amount) { return amount == 0; });
}

bool CanBePlaced(const PodInfo& pod) {
  return std::ranges::all_of(pod.object.scheduling_gates, [](const std::string& gate) {
    return gate == cluster::kAdmissionGate;
  });
}

/// Which members come first is of account only where they ask for different amounts.
std::vector<const PodInfo*> InTurns(const std::vector<const PodInfo*>& members) {
  const bool alike = std::ranges::all_of(
      members, [&](const PodInfo* pod) { return pod->shape == members.front()->shape; });
  return alike ? members : RankOrder(members);
}

/// How many of `count` such jobs fit into what is `left` of the quota, and takes them from it. A
/// quota of 0 does not restrict.
std::int64_t Within(const DeviceAmounts& quota, const DeviceAmounts& job, std::int64_t count,
                    DeviceAmounts& left) {
  const std::size_t kinds = std::min(job.size(), quota.size());
  for (std::size_t kind = 0; kind < kinds; ++kind) {
    if (job[kind] > 0 && quota[kind] > 0) count = std::min(count, left[kind] / job[kind]);
  }
  for (std::size_t kind = 0; kind < kinds; ++kind) left[kind] -= count * job[kind];
  return count;
}

using Pods = std::vector<const PodInfo*>;
using PodSet = QueueDemands::PodSet;

/// Whether empty nodes of this flavor, and of one domain where a gang that starts requires that,
/// could hold the groups, each by itself: the least answer.
EmptyFit FitOf(const std::vector<ShapeGroup>& groups, const Workload& workload,
               EmptyRoom::OfFlavor flavor, EmptyRoom& room) {
  // The members of a gang that runs follow the others, wherever these are.
  const bool by_level = !workload.started && !workload.in_tree;
  const EmptyRoom::Place place{.flavor = flavor,
                               .level = by_level ? workload.topology_required : std::string()};
  EmptyFit least = EmptyFit::kEnough;
  for (const ShapeGroup& group : groups) {
    EmptyFit fit = room.Ask(group.shape, std::ssize(group.pods), place, workload);
    // Pods without devices speak neither for nor against a flavor.
    if (flavor && !group.shape->asks_device && fit == EmptyFit::kNoMatch) fit = EmptyFit::kTooFew;
    least = std::min(least, fit);
  }
  return least;
}

/// Whether empty nodes could hold the pods: those of any one flavor, in a queue with amounts of
/// single flavors, and else all nodes together. This follows engine::DecideStart.
bool CouldHold(const Store& store, const Pods& pods, const Workload& workload, EmptyRoom& room) {
  const std::vector<ShapeGroup> groups = GroupByShape(pods);
  const bool by_flavor =
      store.queue(workload.queue).by_flavor && !workload.started && !workload.in_tree;
  bool matched = false;
  if (by_flavor) {
    const auto flavors = static_cast<cluster::FlavorId>(store.policy().flavors.size());
    for (cluster::FlavorId i = 0; i <= flavors; ++i) {
      const EmptyFit fit = FitOf(groups, workload, i == flavors ? cluster::kNoFlavor : i, room);
      if (fit == EmptyFit::kEnough) return true;
      matched |= fit == EmptyFit::kTooFew;
    }
  }
  // Members that demand several flavors start without regard to them.
  return !matched && FitOf(groups, workload, std::nullopt, room) == EmptyFit::kEnough;
}

/// Of the members that wait, those that would take the places that the minimum lacks; empty: they
/// cannot.
Pods PodsFor(const Store& store, int lacked, Pods pods, const Workload& workload, EmptyRoom& room) {
  // Any member of a gang that runs may take a place; of more members than announced, the likely.
  if (workload.started || HasMoreThanAnnounced(workload)) {
    const auto possible = [&](const std::shared_ptr<const cluster::PodShape>& shape) {
      return room.Ask(shape, 1, {}, workload) == EmptyFit::kEnough;
    };
    PutUnlikelyLast(possible, pods);
  }
  pods.resize(static_cast<std::size_t>(lacked));
  return CouldHold(store, pods, workload, room) ? pods : Pods();
}

/// `choose(lacked, pods)`: which of the pods, of which there are enough, count for the places that
/// the minimum lacks.
std::vector<QueueJob> JobsBy(const auto& choose, const Store& store, const Workload& workload,
                             const PodSet& given_up) {
  std::vector<QueueJob> jobs;
  const auto add = [&](QueueId queue, DeviceAmounts devices, bool preemptible) {
    if (queue == cluster::kNoQueue || IsNothing(devices)) return;
    jobs.push_back({.queue = queue, .devices = std::move(devices), .preemptible = preemptible});
  };
  DeviceAmounts job(store.device_ids().size());
  int missing = workload.min_member - workload.finished;
  const auto add_held = [&](const PodInfo& pod) {
    if (pod.charge == Charge::kNone || given_up.contains(&pod)) return;
    DeviceAmounts devices = DevicesOf(store, pod.charged);
    if (pod.charged_queue == workload.queue && missing > 0) {
      AddTo(job, devices);
      --missing;
    } else {
      add(pod.charged_queue, std::move(devices), !pod.non_preemptible);
    }
  };
  for (const PodInfo* pod : InTurns(workload.members)) add_held(*pod);
  for (const PodInfo* pod : workload.faulty) add_held(*pod);
  if (workload.queue == cluster::kNoQueue) return jobs;
  const bool held = store.queue(workload.queue).held_by != cluster::kNoQueue;
  if (missing > 0 && (workload.started || !held)) {
    Pods pods = workload.Unplaced();
    pods.insert(pods.end(), given_up.begin(), given_up.end());
    std::erase_if(pods, [](const PodInfo* pod) { return !CanBePlaced(*pod); });
    if (std::ssize(pods) >= missing) {
      for (const PodInfo* pod : choose(missing, InTurns(pods))) {
        AddTo(job, DevicesOf(store, store.LeastDemandOf(*pod->shape)));
      }
    }
  }
  const std::size_t before = jobs.size();
  add(workload.queue, std::move(job),
      std::ranges::none_of(workload.members, &PodInfo::non_preemptible));
  const bool capped = store.queue(workload.queue).config.max_jobs_per_user > 0 &&
                      !QuotaView(store).HasJob(workload.queue, workload.user, workload.key);
  if (capped && jobs.size() > before) jobs.back().capped_user = workload.user;
  return jobs;
}

}  // namespace

std::vector<QueueJob> JobsOf(const Store& store, const Workload& workload, EmptyRoom& room,
                             const PodSet& given_up) {
  const auto choose = [&](int lacked, Pods pods) {
    return PodsFor(store, lacked, std::move(pods), workload, room);
  };
  return JobsBy(choose, store, workload, given_up);
}

std::vector<QueueJob> JobsOf(const Store& store, const Workload& workload, bool placeable) {
  const auto choose = [&](int lacked, Pods pods) {
    pods.resize(placeable ? static_cast<std::size_t>(lacked) : 0);
    return pods;
  };
  return JobsBy(choose, store, workload, {});
}

QueueDemands QueueDemands::Of(const Store& store, FitCache& fit) {
  QueueDemands demands;
  EmptyRoom room(store, fit);
  for (const auto& [key, workload] : store.workloads()) demands.Add(JobsOf(store, workload, room));
  return demands;
}

void QueueDemands::Add(const std::vector<QueueJob>& jobs, std::int64_t count) {
  const auto add = [count](auto& table, const auto& key, const auto& size) {
    auto& sizes = table[key];
    std::int64_t& known = sizes[size];
    known += count;
    if (known == 0) sizes.erase(size);
    if (sizes.empty()) table.erase(key);
  };
  for (const QueueJob& job : jobs) {
    if (job.capped_user) {
      add(capped_, std::pair(job.queue, *job.capped_user), std::pair(job.devices, job.preemptible));
    } else {
      add(job.preemptible ? jobs_ : non_preemptible_, job.queue, job.devices);
    }
  }
}

void QueueDemands::SetJobs(const Store& store, FairTree& tree) const {
  Jobs preemptible = jobs_;
  Jobs non_preemptible = non_preemptible_;
  const QuotaView view(store);
  const std::set<QueueId> present(store.queues().begin(), store.queues().end());
  for (const auto& [owner, sizes] : capped_) {
    const auto& [queue, user] = owner;
    if (!present.contains(queue)) continue;  // the policy has changed since it was read
    const std::int64_t most = store.queue(queue).config.max_jobs_per_user;
    std::int64_t left = std::max<std::int64_t>(0, most - view.Jobs(queue, user));
    for (const auto& [job, count] : sizes) {
      const std::int64_t counted = std::min(left, count);
      left -= counted;
      if (counted > 0) (job.second ? preemptible : non_preemptible)[queue][job.first] += counted;
    }
  }
  for (FairQueue& queue : tree.queues) {
    Sizes jobs;
    if (const auto it = preemptible.find(queue.id); it != preemptible.end()) jobs = it->second;
    if (const auto it = non_preemptible.find(queue.id); it != non_preemptible.end()) {
      DeviceAmounts left = queue.quota;
      for (const auto& [devices, count] : it->second) {
        jobs[devices] += Within(queue.quota, devices, count, left);
      }
    }
    for (const auto& [devices, count] : jobs) {
      if (count == 0) continue;
      queue.jobs.push_back({.devices = devices, .count = count});
      queue.jobs.back().devices.resize(tree.pool.size());
    }
  }
}

namespace {

/// What is charged twice: to plans whose members wait on full nodes for the end of others.
DeviceAmounts HeldTwice(const Store& store) {
  const auto& ids = store.device_ids();
  DeviceAmounts twice(ids.size());
  for (const auto& node : store.nodes()) {
    for (std::size_t kind = 0; kind < ids.size(); ++kind) {
      const std::int64_t over = -node->free(ids[kind]);
      if (over <= 0) continue;
      std::int64_t planned = 0;
      for (const PodInfo* pod : node->pods) {
        if (pod->charge == Charge::kPlanned) planned += DevicesOf(store, pod->charged)[kind];
      }
      twice[kind] += std::min(over, planned);
    }
  }
  return twice;
}

}  // namespace

FairTree QueueDemands::TreeOf(const Store& store) const {
  const auto& ids = store.device_ids();
  const auto by_kind = [&](const cluster::Amounts& amounts) {
    DeviceAmounts result;
    for (const cluster::ResourceId id : ids) result.push_back(amounts[id]);
    return result;
  };
  const auto fill = [&](const auto& entries, DeviceAmounts& amounts) {
    for (const auto& [id, amount] : entries) {
      const auto it = std::ranges::find(ids, id);
      if (it != ids.end()) amounts[static_cast<std::size_t>(it - ids.begin())] = amount;
    }
  };
  FairTree tree{.total = by_kind(store.total_devices()),
                .pool = by_kind(store.free_devices()),
                .borrowing = store.policy().borrowing};
  std::map<QueueId, int> places;
  for (const QueueId id : store.queues()) places.emplace(id, static_cast<int>(places.size()));
  for (const QueueId id : store.queues()) {
    const cluster::QueueInfo& info = store.queue(id);
    FairQueue queue{.name = info.config.name,
                    .id = id,
                    .parent = info.path.size() < 2 ? -1 : places.at(info.path[1]),
                    .quota = by_kind(info.quota),
                    .limit = DeviceAmounts(ids.size(), kNoLimit),
                    .kept = DeviceAmounts(ids.size()),
                    .used = by_kind(info.used),
                    .weight = info.config.weight,
                    .priority = info.config.priority};
    fill(info.caps, queue.limit);
    fill(info.kept, queue.kept);
    if (queue.parent < 0) AddTo(tree.pool, queue.used);
    tree.queues.push_back(std::move(queue));
  }
  const DeviceAmounts twice = HeldTwice(store);
  for (std::size_t kind = 0; kind < ids.size(); ++kind) tree.pool[kind] -= twice[kind];
  SetJobs(store, tree);
  return tree;
}

}  // namespace berth::policy
