#include "config/policy_warnings.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string_view>
#include <utility>

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
    return refused + ": if others should run too, add a queue default with namespaces [\"*\"]";
  }
  return fmt::format(
      "{}, though queue {} admits all namespaces: the queue for such pods is the one named default",
      refused, open->name);
}

using Children = std::map<std::string_view, std::vector<const Queue*>>;

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
  const auto quota = queue.quota.find(resource);
  return quota != queue.quota.end() ? quota->second : PromisedBelow(queue, resource, children);
}

/// Quotas that cannot all be used at once.
void FindOvercommitted(const Queue& queue, const Children& children,
                       std::vector<std::string>& warnings) {
  kube::ResourceList amounts = queue.limit;
  for (const auto& [resource, quota] : queue.quota) amounts[resource] = quota;
  for (const auto& [resource, amount] : amounts) {
    const std::int64_t below = PromisedBelow(queue, resource, children);
    if (below <= amount) continue;
    warnings.push_back(fmt::format("queues: the quotas below {} add up to {} of {}; it has {}",
                                   queue.name, kube::Format(resource, below), resource,
                                   kube::Format(resource, amount)));
  }
}

}  // namespace

std::vector<std::string> PolicyWarnings(const PolicyConfiguration& policy) {
  std::vector<std::string> warnings;
  if (std::string out = LeftOut(policy.queues); !out.empty()) warnings.push_back(std::move(out));
  Children children;
  for (const Queue& queue : policy.queues) children[queue.parent].push_back(&queue);
  const bool tree = children.size() > 1;
  for (const Queue& queue : policy.queues) {
    // In a flat list a queue without namespaces is often a placeholder.
    if (tree && AdmitsNobody(queue) && !children.contains(queue.name)) {
      warnings.push_back(fmt::format(
          "queues: nobody can use {}: it has no namespaces, and no queue is below it", queue.name));
    }
    FindOvercommitted(queue, children, warnings);
    if (!policy.borrowing && !queue.lending_limit.empty()) {
      warnings.push_back(fmt::format(
          "queues: lendingLimit of {} has no effect without borrowing: on", queue.name));
    }
  }
  return warnings;
}

}  // namespace berth::config
