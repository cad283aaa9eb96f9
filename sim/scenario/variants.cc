#include "sim/scenario/variants.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <set>
#include <utility>

#include "config/decode.h"
#include "kube/quantity.h"
#include "sim/scenario/objects.h"
#include "sim/scenario/policy_edits.h"
#include "sim/scenario/renaming.h"

namespace berth::scenario {
namespace {

using Result = std::expected<Scenario, std::string>;

// --- Names

Result InTheSameOrder(const Scenario& scenario) { return Renamed(scenario, NameOrder::kKept); }

Result InReverseOrder(const Scenario& scenario) { return Renamed(scenario, NameOrder::kReversed); }

// --- Creation order

Result ReversedCreation(const Scenario& scenario) {
  Scenario varied = scenario;
  for (Step& step : varied.steps) {
    if (auto* create = std::get_if<Create>(&step.action)) create->reversed = true;
  }
  return varied;
}

// --- Sizes

/// Odd, so that what leaves an odd number of free devices still does: the placement score counts
/// it.
constexpr int kFactor = 3;

std::expected<std::int64_t, std::string> Times(std::int64_t amount) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(amount, std::int64_t{kFactor}, &product)) {
    return std::unexpected("an amount is too large to be scaled");
  }
  return product;
}

/// Scales in place; remembers the first error.
class Scaler {
 public:
  void operator()(kube::ResourceList& amounts) {
    for (auto& [resource, amount] : amounts) (*this)(amount);
  }
  void operator()(std::int64_t& amount) {
    if (const auto product = Times(amount)) {
      amount = *product;
    } else {
      error = product.error();
    }
  }
  void operator()(int& devices) { devices *= kFactor; }  // 16 at most, or an edit's bound
  void Quantity(std::string_view resource, std::string& text) {
    if (text.empty()) return;  // no request
    std::int64_t amount = kube::ParseFor(resource, text).value_or(0);
    (*this)(amount);
    text = kube::Format(resource, amount);
  }
  void operator()(config::PolicyConfiguration& policy) {
    for (config::Queue& queue : policy.queues) {
      (*this)(queue.quota);
      (*this)(queue.limit);
      (*this)(queue.lending_limit);
      for (config::FlavorQuota& amounts : queue.quotas) {
        (*this)(amounts.quota);
        (*this)(amounts.limit);
      }
    }
    if (policy.eviction.max_per_edit > 0) (*this)(policy.eviction.max_per_edit);
  }
  void operator()(std::vector<Nodes>& nodes) {
    for (Nodes& group : nodes) {
      (*this)(group.gpus);
      Quantity("cpu", group.cpu);
      Quantity("memory", group.memory);
    }
  }
  void operator()(Workload& workload) {
    (*this)(workload.gpus);
    Quantity("cpu", workload.cpu);
    Quantity("memory", workload.memory);
  }

  std::string error;
};

Result Scaled(const Scenario& scenario) {
  if (scenario.area == "fragmentation") {
    return std::unexpected("the score chooses its nodes, and some terms count single devices");
  }
  Scenario varied = scenario;
  Scaler scale;
  EditPolicies(varied, scale);
  scale(varied.nodes);
  for (Step& step : varied.steps) {
    if (auto* a = std::get_if<Create>(&step.action))
      std::ranges::for_each(a->workloads, std::ref(scale));
    if (auto* a = std::get_if<AddNodes>(&step.action)) scale(a->nodes);
    if (auto* a = std::get_if<SetGpus>(&step.action)) {
      for (auto& [node, gpus] : a->nodes) scale(gpus);
    }
  }
  if (!scale.error.empty()) return std::unexpected(scale.error);
  return varied;
}

// --- Nodes that nothing may use

constexpr std::string_view kCordonTaint = "node.kubernetes.io/unschedulable";
/// Until everybody has seen that they are cordoned.
constexpr std::chrono::seconds kSeen{30};

/// One more of each group, with the same labels, in its first rack. They are cordoned before
/// anything else happens.
Result CordonedNodes(const Scenario& scenario) {
  Scenario varied = scenario;
  Cordon cordon;
  for (const Nodes& group : scenario.nodes) {
    Nodes more = group;
    more.count = 1;
    more.name = "cordoned-" + group.name;
    cordon.nodes.push_back(more.name);
    varied.nodes.push_back(std::move(more));
  }
  for (Step& step : varied.steps) {
    if (const auto* create = std::get_if<Create>(&step.action)) {
      for (const Workload& w : create->workloads) {
        if (std::ranges::find(w.tolerations, kCordonTaint) != w.tolerations.end()) {
          return std::unexpected("its pods may use cordoned nodes");
        }
      }
    } else if (auto* expect = std::get_if<Expect>(&step.action); expect && expect->free_nodes) {
      *expect->free_nodes += static_cast<int>(cordon.nodes.size());
    }
  }
  varied.steps.insert(varied.steps.begin(),
                      {Step{.line = 0, .key = "cordon", .action = std::move(cordon)},
                       Step{.line = 0, .key = "wait", .action = Wait{kSeen}}});
  return varied;
}

// --- A queue that nobody uses

config::Queue Idle(std::string name, const std::string& parent) {
  return {.name = std::move(name), .parent = parent, .namespaces = {{"idle"}}, .weight = 0};
}

/// At the top, and below every queue that has others below it. First in the list and by name.
void AddIdle(config::PolicyConfiguration& policy) {
  std::set<std::string> parents{""};
  for (const config::Queue& queue : policy.queues) parents.insert(queue.parent);
  std::vector<config::Queue> idle;
  for (const std::string& parent : parents) {
    idle.push_back(Idle(fmt::format("0-idle-{}", idle.size()), parent));
  }
  policy.queues.insert(policy.queues.begin(), idle.begin(), idle.end());
}

Result IdleQueue(const Scenario& scenario) {
  Scenario varied = scenario;
  EditPolicies(varied, AddIdle);
  return varied;
}

// --- A group around all queues

constexpr std::string_view kGroup = "0-group";

/// Queues at the top get a parent that is not in the list: a plain group, which changes nothing.
Result Grouped(const Scenario& scenario) {
  Scenario varied = scenario;
  EditPolicies(varied, [](config::PolicyConfiguration& policy) {
    for (config::Queue& queue : policy.queues) {
      if (queue.parent.empty()) queue.parent = kGroup;
    }
  });
  return varied;
}

// --- Order in the policy

bool ListsTwice(const config::PolicyConfiguration& policy) {
  std::set<std::string> seen;
  for (const config::Queue& queue : policy.queues) {
    for (const std::string& ns : queue.namespaces.value_or(std::vector<std::string>{})) {
      if (ns != "*" && !seen.insert(ns).second) return true;
    }
  }
  return false;
}

Result ReversedQueueList(const Scenario& scenario) {
  Scenario varied = scenario;
  bool twice = false;
  EditPolicies(varied, [&](config::PolicyConfiguration& policy) {
    twice = twice || ListsTwice(policy);
    std::ranges::reverse(policy.queues);
  });
  if (twice) return std::unexpected("two of its queues list one namespace: the first one counts");
  return varied;
}

constexpr std::array kVariants{
    Variant{.name = "renamed", .make = InTheSameOrder},
    Variant{.name = "names-reversed", .make = InReverseOrder},
    Variant{.name = "creation-reversed", .make = ReversedCreation},
    Variant{.name = "queue-list-reversed", .make = ReversedQueueList},
    Variant{.name = "scaled", .make = Scaled},
    Variant{.name = "cordoned-nodes", .make = CordonedNodes},
    Variant{.name = "idle-queue", .make = IdleQueue},
    Variant{.name = "grouped", .make = Grouped},
};

}  // namespace

std::span<const Variant> Variants() { return kVariants; }

std::expected<std::vector<Variant>, std::string> ParseVariants(std::string_view list) {
  if (list == "all") return std::vector<Variant>(kVariants.begin(), kVariants.end());
  std::vector<Variant> chosen;
  while (true) {
    const std::size_t comma = list.find(',');
    const std::string_view name = list.substr(0, comma);
    const auto* const found = std::ranges::find(kVariants, name, &Variant::name);
    if (found == kVariants.end()) return std::unexpected(std::string(name));
    chosen.push_back(*found);
    if (comma == std::string_view::npos) return chosen;
    list.remove_prefix(comma + 1);
  }
}

}  // namespace berth::scenario
