// Kueue: a ClusterQueue becomes a queue, the namespaces of its LocalQueues may use it, and its
// cohort becomes its parent.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "config/import_draft.h"
#include "config/scalars.h"
#include "kube/quantity.h"

namespace berth::config::internal {
namespace {

constexpr std::string_view kGroup = "kueue.x-k8s.io";

/// Quota, limit and lending limit of a ClusterQueue or Cohort. Flavors are added up. There is a
/// limit if borrowing is limited, or impossible because there is no cohort.
void TakeQuotas(const Json& object, bool borrows, ImportedQueue& imported) {
  std::map<std::string, std::vector<std::string>> flavors;  // by resource: `name (amount)`
  std::set<std::string> unlimited;
  std::set<std::string> limited;
  std::set<std::string> kept;  // resources of which some flavor is not lent whole
  kube::ResourceList most;
  for (const Json& group : At(object, "/spec/resourceGroups")) {
    for (const Json& flavor : At(group, "/flavors")) {
      for (const Json& quota : At(flavor, "/resources")) {
        const std::string resource = TextAt(quota, "/name");
        const Json& nominal = At(quota, "/nominalQuota");
        ImportDraft::AddQuantity(imported.queue.quota, resource, nominal, "quota", imported.notes);
        flavors[resource].push_back(
            fmt::format("{} ({})", TextAt(flavor, "/name"),
                        nominal.is_string() ? nominal.get<std::string>() : nominal.dump()));
        const Json& borrowing = At(quota, "/borrowingLimit");
        if (borrows && borrowing.is_null()) unlimited.insert(resource);
        std::vector<std::string> ignored;  // noted for the quota already
        ImportDraft::AddQuantity(most, resource, nominal, "limit", ignored);
        if (borrows && !borrowing.is_null()) {
          limited.insert(resource);
          ImportDraft::AddQuantity(most, resource, borrowing, "borrowingLimit", imported.notes);
        }
        const Json& lending = At(quota, "/lendingLimit");
        if (!lending.is_null()) kept.insert(resource);
        ImportDraft::AddQuantity(imported.queue.lending_limit, resource,
                                 lending.is_null() ? nominal : lending, "lendingLimit", ignored);
      }
    }
  }
  for (const auto& [resource, amount] : most) {
    if (!unlimited.contains(resource)) {
      imported.queue.limit[resource] = amount;
    } else if (limited.contains(resource)) {
      imported.notes.push_back(
          fmt::format("borrowingLimit of {}: not carried over, some flavors have none", resource));
    }
  }
  std::erase_if(imported.queue.lending_limit,
                [&](const auto& amount) { return !kept.contains(amount.first); });
  for (const auto& [resource, parts] : flavors) {
    if (parts.size() < 2) continue;
    imported.notes.push_back(fmt::format(
        "{}: flavors {} added up; keep them apart with `flavors` and the queue's `quotas`",
        resource, fmt::join(parts, ", ")));
  }
}

void TakeWeight(const Json& object, ImportedQueue& imported) {
  const Json& weight = At(object, "/spec/fairSharing/weight");
  if (weight.is_null()) return;
  const auto milli =
      kube::ParseMilli(weight.is_string() ? weight.get<std::string>() : weight.dump());
  if (!milli || *milli < 0 || *milli > 1'000'000) {
    imported.notes.push_back("fairSharing.weight: not carried over (0 to 1000 are possible)");
    return;
  }
  imported.queue.weight = *milli;
}

/// Never where it is absent. Berth never evicts work of equal priority.
void TakePreemption(const Json& object, ImportedQueue& imported) {
  const std::string text = TextAt(object, "/spec/preemption/withinClusterQueue");
  imported.queue.preemption.within =
      text.empty() || text == "Never" ? Within::kNever : Within::kLower;
  if (text == "LowerOrNewerEqualPriority") {
    imported.notes.push_back(
        "preemption.withinClusterQueue LowerOrNewerEqualPriority: only lower "
        "priorities are evicted");
  }
  const std::string reclaim = TextAt(object, "/spec/preemption/reclaimWithinCohort");
  imported.queue.preemption.reclaim =
      reclaim.empty() || reclaim == "Never" ? Reclaim::kNever : Reclaim::kAny;
  if (reclaim == "LowerPriority") {
    imported.notes.push_back(
        "preemption.reclaimWithinCohort LowerPriority: between queues priority does not count, "
        "only what they are entitled to");
  }
  if (const Json& within = At(object, "/spec/preemption/borrowWithinCohort"); !within.empty()) {
    imported.notes.push_back(
        fmt::format("preemption.borrowWithinCohort {}: not carried over, beyond its quota a queue "
                    "takes back up "
                    "to its fair share",
                    within.dump()));
  }
}

void TakeHold(const Json& object, ImportedQueue& imported) {
  const std::string text = TextAt(object, "/spec/stopPolicy");
  if (text == "Hold") {
    imported.queue.hold = Hold::kHold;
  } else if (text == "HoldAndDrain") {
    imported.queue.hold = Hold::kHoldAndDrain;
  } else if (!text.empty() && text != "None") {
    imported.notes.push_back(fmt::format("stopPolicy {}: not carried over", text));
  }
}

void TakeRest(const Json& object, std::vector<std::string>& notes) {
  const auto differs = [&](const char* pointer, std::string_view usual) {
    const std::string text = TextAt(object, pointer);
    return !text.empty() && text != usual ? text : std::string();
  };
  if (const auto text = differs("/spec/queueingStrategy", "BestEffortFIFO"); !text.empty()) {
    notes.push_back(fmt::format("queueingStrategy {}: not carried over", text));
  }
  for (const char* key : {"admissionChecks", "admissionChecksStrategy", "admissionScope",
                          "concurrentAdmissionPolicy"}) {
    if (!At(object, fmt::format("/spec/{}", key).c_str()).empty()) {
      notes.push_back(fmt::format("{}: not carried over", key));
    }
  }
  const Json& selector = At(object, "/spec/namespaceSelector");
  if (!selector.is_null() && !selector.empty()) {
    notes.push_back(fmt::format(
        "namespaceSelector {}: not carried over, only its LocalQueues count", selector.dump()));
  }
}

std::string CohortOf(const Json& queue) {
  const std::string name = TextAt(queue, "/spec/cohortName");
  return name.empty() ? TextAt(queue, "/spec/cohort") : name;  // v1beta1
}

std::string ParentOf(const Json& cohort) {
  const std::string name = TextAt(cohort, "/spec/parentName");
  return name.empty() ? TextAt(cohort, "/spec/parent") : name;  // v1alpha1
}

/// A Cohort's quota in Kueue is what it adds to the quotas below it; a queue's quota here contains
/// them. It has none of a resource that some ClusterQueue below it does not cover, because there
/// Kueue does not count it. The first `leaves` of the queues are ClusterQueues, the others Cohorts.
void AddQuotasBelow(std::size_t leaves, ImportDraft& draft) {
  auto& queues = draft.queues();
  std::map<std::string_view, std::size_t> index;
  std::vector<Queue> own;
  for (std::size_t i = 0; i < queues.size(); ++i) {
    index.emplace(queues[i].queue.name, i);
    own.push_back(queues[i].queue);
  }
  const auto for_each_above = [&](const Queue& queue, const auto& visit) {
    auto above = index.find(queue.parent);
    // A cycle of Cohorts, which Kueue refuses, must end here too.
    for (std::size_t steps = 0; above != index.end() && steps < own.size(); ++steps) {
      if (above->second < leaves) return;  // only Cohorts are above others
      ImportedQueue& cohort = queues[above->second];
      visit(cohort);
      above = index.find(cohort.queue.parent);
    }
  };
  for (const Queue& queue : own) {
    for_each_above(queue, [&](ImportedQueue& cohort) {
      for (const auto& [resource, amount] : queue.quota) {
        ImportDraft::AddAmount(cohort.queue.quota, resource, amount, "quota", cohort.notes);
        if (!cohort.queue.limit.contains(resource)) continue;
        ImportDraft::AddAmount(cohort.queue.limit, resource, amount, "limit", cohort.notes);
      }
    });
  }
  for (std::size_t i = 0; i < leaves; ++i) {
    for_each_above(own[i], [&](ImportedQueue& cohort) {
      const auto uncovered = [&](const auto& amount) {
        return !own[i].quota.contains(amount.first);
      };
      std::erase_if(cohort.queue.quota, uncovered);
      std::erase_if(cohort.queue.limit, uncovered);
    });
  }
  // Nobody borrows from outside of the cohort at the top.
  for (std::size_t i = leaves; i < queues.size(); ++i) {
    Queue& cohort = queues[i].queue;
    if (cohort.parent.empty()) cohort.limit = cohort.quota;
  }
}

/// What LocalQueues say of the ClusterQueues that they lead to, by ClusterQueue.
struct LocalQueues {
  std::map<std::string, std::set<std::string>> namespaces;
  std::map<std::string, std::vector<std::string>> notes;
};

LocalQueues ReadLocalQueues(const std::vector<Json>& objects) {
  LocalQueues read;
  for (const Json* local : OfKind(objects, kGroup, "LocalQueue")) {
    const std::string queue = TextAt(*local, "/spec/clusterQueue");
    const std::string ns = TextAt(*local, "/metadata/namespace");
    if (!IsDnsLabel(ns)) continue;
    read.namespaces[queue].insert(ns);
    if (const auto stop = TextAt(*local, "/spec/stopPolicy"); !stop.empty() && stop != "None") {
      read.notes[queue].push_back(fmt::format("stopPolicy {} of LocalQueue {}/{}: not carried over",
                                              stop, ns, NameOf(*local)));
    }
  }
  return read;
}

/// Without their parents, which are named after all ClusterQueues have their names.
void AddClusterQueues(const std::vector<const Json*>& objects, LocalQueues& local,
                      ImportDraft& draft) {
  for (const Json* object : objects) {
    const std::string cluster_queue = NameOf(*object);
    std::vector<std::string> notes{fmt::format("ClusterQueue {}", cluster_queue)};
    std::string name = draft.NameFor(cluster_queue, notes);
    ImportedQueue& imported = draft.Add(std::move(name));
    imported.notes = std::move(notes);
    TakeQuotas(*object, !CohortOf(*object).empty(), imported);
    TakeWeight(*object, imported);
    TakePreemption(*object, imported);
    TakeHold(*object, imported);
    TakeRest(*object, imported.notes);
    for (std::string& note : local.notes[cluster_queue]) imported.notes.push_back(note);
    const auto& users = local.namespaces[cluster_queue];
    if (users.empty()) {
      imported.notes.push_back("no LocalQueue leads to it: nobody may use it");
    } else {
      imported.queue.namespaces = std::vector<std::string>(users.begin(), users.end());
    }
  }
}

/// Gives the queues of `cluster_queues`, which are the first of the draft, their cohorts as
/// parents, and adds a queue for every cohort: those with an object Cohort, then those that are
/// only named.
void AddCohorts(const std::vector<Json>& objects, const std::vector<const Json*>& cluster_queues,
                ImportDraft& draft) {
  std::map<std::string, std::string> names;  // by cohort
  const auto name_of = [&](const std::string& cohort) {
    if (cohort.empty()) return std::string();
    auto& name = names[cohort];
    std::vector<std::string> ignored;
    if (name.empty()) name = draft.NameFor(cohort, ignored);
    return name;
  };
  for (std::size_t i = 0; i < cluster_queues.size(); ++i) {
    std::string parent = name_of(CohortOf(*cluster_queues[i]));
    draft.queues()[i].queue.parent = std::move(parent);
  }
  for (const Json* object : OfKind(objects, kGroup, "Cohort")) {
    const std::string name = name_of(NameOf(*object));
    const std::string parent = name_of(ParentOf(*object));
    ImportedQueue& imported = draft.Add(name);
    imported.notes.push_back(fmt::format("Cohort {}: nobody uses it directly", NameOf(*object)));
    imported.queue.parent = parent;
    TakeQuotas(*object, !parent.empty(), imported);
    TakeWeight(*object, imported);
  }
  for (const auto& [cohort, name] : names) {
    if (std::ranges::any_of(draft.queues(),
                            [&](const ImportedQueue& q) { return q.queue.name == name; }))
      continue;
    draft.Add(name).notes.push_back(fmt::format("cohort {}: nobody uses it directly", cohort));
  }
}

/// ResourceFlavors are only noted, because quotas of all flavors are added up; a Topology becomes
/// the levels.
void TakeFlavorsAndTopologies(const std::vector<Json>& objects, ImportDraft& draft) {
  for (const Json* flavor : OfKind(objects, kGroup, "ResourceFlavor")) {
    const Json& labels = At(*flavor, "/spec/nodeLabels");
    if (labels.empty()) continue;
    draft.Note(
        fmt::format("ResourceFlavor {}: nodes {} are not told apart, until `flavors` name them",
                    NameOf(*flavor), labels.dump()));
  }
  for (const Json* topology : OfKind(objects, kGroup, "Topology")) {
    std::vector<std::string> labels;
    for (const Json& level : At(*topology, "/spec/levels")) {
      labels.push_back(TextAt(level, "/nodeLabel"));
    }
    draft.SetLevels(NameOf(*topology), labels);
  }
}

}  // namespace

void ImportKueue(const std::vector<Json>& objects, ImportDraft& draft) {
  LocalQueues local = ReadLocalQueues(objects);
  const auto cluster_queues = OfKind(objects, kGroup, "ClusterQueue");
  // Their names first, so that a cohort never takes a name from a ClusterQueue.
  AddClusterQueues(cluster_queues, local, draft);
  AddCohorts(objects, cluster_queues, draft);
  AddQuotasBelow(cluster_queues.size(), draft);
  TakeFlavorsAndTopologies(objects, draft);
}

}  // namespace berth::config::internal
