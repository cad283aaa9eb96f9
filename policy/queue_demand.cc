#include "policy/queue_demand.h"

#include <algorithm>

#include "cluster/plan_claim.h"
#include "policy/quota.h"
#include "policy/quotas_left.h"
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

/// Which members come first matters only where they ask for different amounts.
std::vector<const PodInfo*> InTurns(const std::vector<const PodInfo*>& members) {
  const bool alike = std::ranges::all_of(
      members, [&](const PodInfo* pod) { return pod->shape == members.front()->shape; });
  return alike ? members : RankOrder(members);
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

/// Whether a limit on the path of the queue, or a quota that restricts non-preemptible pods, is too
/// small for these pods on nodes of the flavor, whatever ends.
bool ExceedLimit(const Store& store, const Pods& pods, QueueId queue, cluster::FlavorId flavor) {
  int fit = 0;
  const auto min = static_cast<int>(pods.size());
  return GrantMembers(QuotaView(store), queue, pods, min, fit, flavor).reason ==
         cluster::ReasonId::kExceedsLimit;
}

/// Whether empty nodes and the limits of the queue could hold the pods: the nodes of any one
/// flavor, in a queue with amounts of single flavors, and else all nodes together. This follows
/// engine::DecideStart.
bool CouldHold(const Store& store, const Pods& pods, const Workload& workload, EmptyRoom& room) {
  const std::vector<ShapeGroup> groups = GroupByShape(pods);
  const bool by_flavor =
      store.queue(workload.queue).by_flavor && !workload.started && !workload.in_tree;
  bool matched = false;
  if (by_flavor) {
    const auto flavors = static_cast<cluster::FlavorId>(store.policy().flavors.size());
    for (cluster::FlavorId i = 0; i <= flavors; ++i) {
      const cluster::FlavorId flavor = i == flavors ? cluster::kNoFlavor : i;
      const EmptyFit fit = FitOf(groups, workload, flavor, room);
      const bool may = !ExceedLimit(store, pods, workload.queue, flavor);
      if (fit == EmptyFit::kEnough && may) return true;
      matched |= fit != EmptyFit::kNoMatch;
    }
  }
  // Members that demand several flavors start without regard to them.
  return !matched && FitOf(groups, workload, std::nullopt, room) == EmptyFit::kEnough &&
         !ExceedLimit(store, pods, workload.queue, cluster::kNoFlavor);
}

/// A pod that waits, and what it counts with.
struct Wanted {
  const PodInfo* pod;
  cluster::Demand demand;
};

/// The waiting members that would take the places that the minimum lacks; empty: they cannot.
std::vector<Wanted> WantedOf(const Store& store, int lacked, Pods pods, const Workload& workload,
                             EmptyRoom& room) {
  // Any member of a gang that runs may take a place; if there are more than it needs, likely ones.
  const auto places = [&](const auto& shape, std::ptrdiff_t most) {
    std::ptrdiff_t least = 0;
    for (std::ptrdiff_t count = most; least < most; count = (least + most + 1) / 2) {
      const bool enough = room.Ask(shape, count, {}, workload) == EmptyFit::kEnough;
      (enough ? least : most) = enough ? count : count - 1;
    }
    return least;
  };
  if (workload.started || HasMoreThanAnnounced(workload)) {
    PutUnlikelyLast(places, pods);
  } else if (std::ssize(pods) > lacked) {
    PutImpossibleLast(places, pods);
  }
  pods.resize(static_cast<std::size_t>(lacked));
  std::vector<Wanted> wanted;
  if (!CouldHold(store, pods, workload, room)) return wanted;
  for (const ShapeGroup& group : GroupByShape(pods)) {
    auto demands = room.LeastDemands(group.shape, group.pods.size(), workload);
    for (std::size_t i = 0; i < demands.size(); ++i) {
      wanted.push_back({.pod = group.pods[i], .demand = std::move(demands[i])});
    }
  }
  return wanted;
}

/// The devices of some pods of a queue, and of the non-preemptible ones among them.
struct Sum {
  DeviceAmounts devices;
  DeviceAmounts non_preemptible;

  explicit Sum(const Store& store)
      : devices(store.device_ids().size()), non_preemptible(devices.size()) {}
  void Add(const PodInfo& pod, const DeviceAmounts& amounts) {
    AddTo(devices, amounts);
    if (pod.non_preemptible) AddTo(non_preemptible, amounts);
  }
};

/// `choose(lacked, pods)`: which of the pods, of which there are enough, count for the places that
/// the minimum lacks.
std::vector<QueueJob> JobsBy(const auto& choose, const Store& store, const Workload& workload,
                             const PodSet& given_up) {
  std::vector<QueueJob> jobs;
  const QueueJob::Precedence precedence{.below = -workload.priority, .creation = workload.creation};
  const auto add = [&](QueueId queue, Sum sum) {
    if (queue == cluster::kNoQueue || IsNothing(sum.devices)) return;
    QueueJob& job = jobs.emplace_back(QueueJob{.queue = queue, .devices = std::move(sum.devices)});
    if (IsNothing(sum.non_preemptible)) return;
    job.non_preemptible = std::move(sum.non_preemptible);
    job.precedence = precedence;
  };
  Sum job(store);
  int missing = workload.min_member - workload.finished;
  const auto add_held = [&](const PodInfo& pod) {
    if (pod.charge == Charge::kNone || given_up.contains(&pod)) return;
    const DeviceAmounts devices = DevicesOf(store, pod.charged);
    if (pod.charged_queue == workload.queue && missing > 0) {
      job.Add(pod, devices);
      --missing;
    } else {
      Sum one(store);
      one.Add(pod, devices);
      add(pod.charged_queue, std::move(one));
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
      for (const Wanted& wanted : choose(missing, InTurns(pods))) {
        job.Add(*wanted.pod, DevicesOf(store, wanted.demand));
      }
    }
  }
  const std::size_t before = jobs.size();
  add(workload.queue, std::move(job));
  if (jobs.size() == before) return jobs;
  const bool capped = store.queue(workload.queue).config.max_jobs_per_user > 0 &&
                      !QuotaView(store).HasJob(workload.queue, workload.user, workload.key);
  if (capped) jobs.back().capped_user = workload.user;
  if (jobs.back().IsLimited()) {
    jobs.back().precedence = precedence;
    jobs.back().precedence.waits = missing > 0;
  }
  return jobs;
}

}  // namespace

std::vector<QueueJob> JobsOf(const Store& store, const Workload& workload, EmptyRoom& room,
                             const PodSet& given_up) {
  const auto choose = [&](int lacked, Pods pods) {
    return WantedOf(store, lacked, std::move(pods), workload, room);
  };
  return JobsBy(choose, store, workload, given_up);
}

std::vector<QueueJob> JobsOf(const Store& store, const Workload& workload, bool placeable) {
  const auto choose = [&](int lacked, const Pods& pods) {
    std::vector<Wanted> wanted;
    for (int i = 0; placeable && i < lacked; ++i) {
      const PodInfo* pod = pods[static_cast<std::size_t>(i)];
      wanted.push_back({.pod = pod, .demand = store.LeastDemandOf(*pod->shape)});
    }
    return wanted;
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
  const auto add = [count](auto& table, const auto& key) {
    std::int64_t& known = table[key];
    known += count;
    if (known == 0) table.erase(key);
  };
  for (const QueueJob& job : jobs) {
    if (job.IsLimited()) {
      add(limited_, Limited{.precedence = job.precedence,
                            .queue = job.queue,
                            .capped_user = job.capped_user,
                            .devices = job.devices,
                            .non_preemptible = job.non_preemptible});
      continue;
    }
    Sizes& sizes = jobs_[job.queue];
    add(sizes, job.devices);
    if (sizes.empty()) jobs_.erase(job.queue);
  }
}

void QueueDemands::SetJobs(const Store& store, FairTree& tree) const {
  const QuotaView view(store);
  QuotasLeft quotas(tree);
  std::map<QueueId, int> places;
  for (const FairQueue& queue : tree.queues) {
    places.emplace(queue.id, static_cast<int>(places.size()));
  }
  std::map<QueueId, Sizes> jobs = jobs_;
  std::map<std::pair<QueueId, std::string>, std::int64_t> of_users;
  for (const auto& [job, all] : limited_) {
    const auto place = places.find(job.queue);
    if (place == places.end()) continue;  // the policy has changed since it was read
    std::int64_t count = all;
    if (job.capped_user) {
      const std::int64_t most = store.queue(job.queue).config.max_jobs_per_user;
      const auto [left, fresh] = of_users.try_emplace({job.queue, *job.capped_user});
      if (fresh) left->second = most - view.Jobs(job.queue, *job.capped_user);
      count = std::min(count, std::max<std::int64_t>(0, left->second));
    }
    if (!job.non_preemptible.empty()) {
      count = quotas.Take(place->second, job.non_preemptible, count);
    }
    if (job.capped_user) of_users[{job.queue, *job.capped_user}] -= count;
    if (count > 0) jobs[job.queue][job.devices] += count;
  }
  for (FairQueue& queue : tree.queues) {
    for (const auto& [devices, count] : jobs[queue.id]) {
      queue.jobs.push_back({.devices = devices, .count = count});
      queue.jobs.back().devices.resize(tree.pool.size());
    }
  }
}

namespace {

/// What queues are charged on nodes beyond what these have: for plans whose members wait on full
/// nodes for the end of others, or because devices are gone.
DeviceAmounts Overcharged(const Store& store) {
  const auto& ids = store.device_ids();
  DeviceAmounts overcharged(ids.size());
  for (const auto& node : store.nodes()) {
    for (std::size_t kind = 0; kind < ids.size(); ++kind) {
      const std::int64_t over = -node->free(ids[kind]);
      if (over <= 0) continue;
      std::int64_t held = 0;
      for (const PodInfo* pod : node->pods) {
        const bool counts = node->open() ? pod->charged_queue != cluster::kNoQueue
                                         : pod->charge == Charge::kPlanned;
        if (counts) held += DevicesOf(store, pod->charged)[kind];
      }
      overcharged[kind] += std::min(over, held);
    }
  }
  return overcharged;
}

/// What ending pods of queues hold on nodes that take no new pods: no queue gets these devices.
DeviceAmounts LostWith(const Store& store) {
  const auto& ids = store.device_ids();
  DeviceAmounts lost(ids.size());
  for (const auto& node : store.nodes()) {
    if (node->open()) continue;
    for (const PodInfo* pod : node->pods) {
      if (!pod->terminating() || pod->charged_queue == cluster::kNoQueue) continue;
      AddTo(lost, DevicesOf(store, pod->charged));
    }
  }
  return lost;
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
  const DeviceAmounts over = Overcharged(store);
  const DeviceAmounts lost = LostWith(store);
  for (std::size_t kind = 0; kind < ids.size(); ++kind) tree.pool[kind] -= over[kind] + lost[kind];
  SetJobs(store, tree);
  return tree;
}

}  // namespace berth::policy
