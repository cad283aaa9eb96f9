#include "config/policy_warnings.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "config/yaml_reader.h"
#include "kube/quantity.h"

namespace berth::config {
namespace {

constexpr std::string_view kDefault = "default";

bool AdmitsAll(const Queue& queue) {
  return queue.namespaces && std::ranges::find(*queue.namespaces, "*") != queue.namespaces->end();
}

bool AdmitsNobody(const Queue& queue) { return !queue.namespaces || queue.namespaces->empty(); }

/// Which pods the queues leave out; empty: none.
std::string LeftOut(const std::vector<Queue>& queues) {
  if (std::ranges::all_of(queues, AdmitsNobody)) {
    return "queues: none of them has namespaces: every pod that asks for a device is refused";
  }
  const auto fallback = std::ranges::find(queues, kDefault, &Queue::name);
  if (fallback != queues.end() && AdmitsAll(*fallback)) return "";
  const auto open = std::ranges::find_if(queues, AdmitsAll);
  const std::string refused =
      "queues: a pod without the label berth.dev/queue is refused where no queue lists its "
      "namespace by name";
  if (open == queues.end()) {
    const bool named = fallback != queues.end();
    return refused + ": if others should run too, " +
           (named ? "add \"*\" to the namespaces of queue default"
                  : "add a queue default with namespaces [\"*\"]");
  }
  return fmt::format(
      "{}, though queue {} admits all namespaces: the queue for such pods is the one named default",
      refused, open->name);
}

using Children = std::map<std::string_view, std::vector<const Queue*>>;

/// With amounts of single flavors as those of resources of their own.
kube::ResourceList AllOf(const kube::ResourceList& totals, const std::vector<FlavorQuota>& quotas,
                         kube::ResourceList FlavorQuota::*which) {
  kube::ResourceList all = totals;
  for (const FlavorQuota& amounts : quotas) {
    for (const auto& [resource, amount] : amounts.*which) {
      all[fmt::format("{} of flavor {}", resource, amounts.flavor)] = amount;
    }
  }
  return all;
}

kube::ResourceList QuotasOf(const Queue& queue) {
  return AllOf(queue.quota, queue.quotas, &FlavorQuota::quota);
}

/// `resource` may be one of QuotasOf.
std::string Format(const std::string& resource, std::int64_t amount) {
  return kube::Format(resource.substr(0, resource.find(' ')), amount);
}

/// What is promised to `queue`: its quota, else what is promised below it. Saturates.
std::int64_t Promised(const Queue& queue, const std::string& resource, const Children& children);

std::int64_t PromisedBelow(const Queue& queue, const std::string& resource,
                           const Children& children) {
  const auto below = children.find(queue.name);
  if (below == children.end()) return 0;
  std::int64_t sum = 0;
  for (const Queue* child : below->second) {
    const std::int64_t amount = Promised(*child, resource, children);
    sum = amount > std::numeric_limits<std::int64_t>::max() - sum
              ? std::numeric_limits<std::int64_t>::max()
              : sum + amount;
  }
  return sum;
}

std::int64_t Promised(const Queue& queue, const std::string& resource, const Children& children) {
  const kube::ResourceList quotas = AllOf(TotalQuota(queue), queue.quotas, &FlavorQuota::quota);
  const auto quota = quotas.find(resource);
  return quota != quotas.end() ? quota->second : PromisedBelow(queue, resource, children);
}

/// Quotas that cannot all be used at once.
void FindOvercommitted(const Queue& queue, const Children& children,
                       std::vector<std::string>& warnings) {
  kube::ResourceList amounts = AllOf(queue.limit, queue.quotas, &FlavorQuota::limit);
  for (const auto& [resource, quota] : QuotasOf(queue)) amounts[resource] = quota;
  for (const auto& [resource, amount] : amounts) {
    const std::int64_t below = PromisedBelow(queue, resource, children);
    if (below <= amount) continue;
    warnings.push_back(fmt::format("queues: the quotas below {} add up to {} of {}; it has {}",
                                   queue.name, Format(resource, below), resource,
                                   Format(resource, amount)));
  }
}

/// Of one queue, promises of single flavors beyond what it is promised, or may use, in all.
void FindExcessOfFlavors(const Queue& queue, std::vector<std::string>& warnings) {
  Queue flavors = queue;  // without the totals
  flavors.quota.clear();
  for (const auto& [resource, sum] : TotalQuota(flavors)) {
    for (const auto* totals : {&queue.quota, &queue.limit}) {
      const auto total = totals->find(resource);
      if (total == totals->end() || sum <= total->second) continue;
      warnings.push_back(fmt::format(
          "queues: the flavors of {} are promised {} of {}; its {} is {}", queue.name,
          kube::Format(resource, sum), resource, totals == &queue.quota ? "quota" : "limit",
          kube::Format(resource, total->second)));
      break;
    }
  }
}

/// Keys about the users of a queue in one that has no work of its own, or one namespace only.
void FindUselessSharing(const Queue& queue, std::vector<std::string>& warnings) {
  const bool shares = queue.fair_within != FairWithin::kNone;
  const auto warn = [&](std::string_view key, std::string_view why) {
    warnings.push_back(fmt::format("queues: {} of {} has no effect: {}", key, queue.name, why));
  };
  if (AdmitsNobody(queue)) {
    constexpr std::string_view kWhy = "without namespaces it has no work of its own";
    if (shares) warn("fairWithin", kWhy);
    if (queue.max_jobs_per_user > 0) warn("maxJobsPerUser", kWhy);
  } else if (queue.fair_within == FairWithin::kNamespace && !AdmitsAll(queue) &&
             queue.namespaces->size() == 1) {
    warn("fairWithin", "it admits one namespace only");
  }
}

/// What can have no effect because nobody is admitted who could use it.
void FindUselessClasses(const PolicyConfiguration& policy, std::vector<std::string>& warnings) {
  for (const Queue& queue : policy.queues) {
    if (!queue.classes || queue.classes->empty() || queue.non_preemptible) continue;
    const auto kept = [&](const std::string& name) {
      const auto found = std::ranges::find(policy.classes, name, &WorkloadClass::name);
      return found != policy.classes.end() && !found->preemptible;
    };
    if (!std::ranges::all_of(*queue.classes, kept)) continue;
    warnings.push_back(fmt::format(
        "queues: {} admits only classes that are not preemptible, and has nonPreemptible: deny",
        queue.name));
  }
}

/// Flavors behind one that takes all of their nodes.
void FindShadowedFlavors(const PolicyConfiguration& policy, std::vector<std::string>& warnings) {
  const auto& flavors = policy.flavors;
  for (auto later = flavors.begin(); later != flavors.end(); ++later) {
    const auto takes_all = [&](const Flavor& earlier) {
      return std::ranges::includes(later->node_selector, earlier.node_selector);
    };
    const auto first = std::find_if(flavors.begin(), later, takes_all);
    if (first == later) continue;
    const std::string_view why =
        first->node_selector.empty() ? "has no nodeSelector" : "selects every node that it selects";
    warnings.push_back(fmt::format("flavors: no node is of {}: {}, which comes before it, {}",
                                   later->name, first->name, why));
  }
}

/// A quota without a limit of the same resource.
bool HasUncappedQuota(const Queue& queue) {
  const auto uncapped = [](const kube::ResourceList& quota, const kube::ResourceList& limit) {
    return std::ranges::any_of(quota,
                               [&](const auto& amount) { return !limit.contains(amount.first); });
  };
  return uncapped(queue.quota, queue.limit) ||
         std::ranges::any_of(queue.quotas, [&](const FlavorQuota& amounts) {
           return uncapped(amounts.quota, amounts.limit);
         });
}

bool HasOnlyLimits(const Queue& queue) {
  return QuotasOf(queue).empty() && !AllOf(queue.limit, queue.quotas, &FlavorQuota::limit).empty();
}

/// The names of the queues for which `concerned` is true, the first few of them; empty: none.
std::string NamesOf(const std::vector<Queue>& queues, bool (*concerned)(const Queue&)) {
  constexpr std::size_t kMost = 5;
  std::vector<std::string_view> names;
  for (const Queue& queue : queues) {
    if (concerned(queue)) names.push_back(queue.name);
  }
  const std::size_t more = names.size() - std::min(names.size(), kMost);
  names.resize(names.size() - more);
  return fmt::format("{}{}", fmt::join(names, ", "),
                     more == 0 ? "" : fmt::format(" and {} more", more));
}

}  // namespace

std::vector<std::string> PolicyWarnings(const PolicyConfiguration& policy) {
  std::vector<std::string> warnings;
  if (std::string out = LeftOut(policy.queues); !out.empty()) warnings.push_back(std::move(out));
  Children children;
  for (const Queue& queue : policy.queues) children[queue.parent].push_back(&queue);
  const bool tree = children.size() > 1;
  for (const Queue& queue : policy.queues) {
    // In a flat list a queue without namespaces and amounts is often a placeholder.
    const bool meant =
        tree || !QuotasOf(queue).empty() || !queue.limit.empty() || queue.weight != Queue{}.weight;
    if (meant && AdmitsNobody(queue) && !children.contains(queue.name)) {
      warnings.push_back(fmt::format(
          "queues: nobody can use {}: it has no namespaces, and no queue is below it", queue.name));
    }
    FindOvercommitted(queue, children, warnings);
    FindExcessOfFlavors(queue, warnings);
    FindUselessSharing(queue, warnings);
    if (!policy.borrowing && !queue.lending_limit.empty()) {
      warnings.push_back(fmt::format(
          "queues: lendingLimit of {} has no effect without borrowing: on", queue.name));
    }
  }
  FindUselessClasses(policy, warnings);
  FindShadowedFlavors(policy, warnings);
  return warnings;
}

std::int64_t PromisedInAll(const PolicyConfiguration& policy, const std::string& resource) {
  Children children;
  std::set<std::string_view> names;
  for (const Queue& queue : policy.queues) names.insert(queue.name);
  for (const Queue& queue : policy.queues) {
    const bool below = names.contains(queue.parent);
    children[below ? std::string_view(queue.parent) : std::string_view()].push_back(&queue);
  }
  return PromisedBelow({.name = ""}, resource, children);
}

std::vector<std::string> PolicyWarnings(const std::string& yaml,
                                        const PolicyConfiguration& policy) {
  std::vector<std::string> warnings = PolicyWarnings(policy);
  const auto documents = ReadYaml(yaml, "");
  const bool said = !documents || std::ranges::any_of(*documents, [](const YamlNode& document) {
    return document.Find("borrowing") != nullptr;
  });
  if (said) return warnings;
  if (const std::string names = NamesOf(policy.queues, HasUncappedQuota); !names.empty()) {
    warnings.push_back(
        fmt::format("queues: the quota of {} is not a cap: without a limit they may borrow what "
                    "others leave free, which can be taken back. Set borrowing: on if that is "
                    "intended, or borrowing: off to keep them within their quota",
                    names));
  }
  const bool alone =
      std::ranges::count_if(policy.queues, [](const Queue& q) { return !AdmitsNobody(q); }) < 2;
  if (const std::string names = NamesOf(policy.queues, HasOnlyLimits); !alone && !names.empty()) {
    warnings.push_back(fmt::format(
        "queues: the limit of {} promises nothing: without a quota they share with others by "
        "weight, and what they use beyond their fair share can be taken back. Set borrowing: on if "
        "that is intended, or borrowing: off so that no pod is evicted for this",
        names));
  }
  return warnings;
}

}  // namespace berth::config
