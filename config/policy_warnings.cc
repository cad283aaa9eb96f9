#include "config/policy_warnings.h"

#include <fmt/format.h>

#include <algorithm>

namespace berth::config {
namespace {

constexpr std::string_view kDefault = "default";

bool AdmitsAll(const Queue& queue) {
  return queue.namespaces && std::ranges::find(*queue.namespaces, "*") != queue.namespaces->end();
}

bool AdmitsNobody(const Queue& queue) { return !queue.namespaces || queue.namespaces->empty(); }

}  // namespace

std::vector<std::string> PolicyWarnings(const PolicyConfiguration& policy) {
  const auto& queues = policy.queues;
  if (std::ranges::all_of(queues, AdmitsNobody)) {
    return {"queues: none of them has namespaces: every pod that asks for a device is refused"};
  }
  const auto fallback = std::ranges::find(queues, kDefault, &Queue::name);
  if (fallback != queues.end() && AdmitsAll(*fallback)) return {};
  const auto open = std::ranges::find_if(queues, AdmitsAll);
  const std::string refused =
      "queues: a pod without the label berth.dev/queue is refused where no queue lists its "
      "namespace by name";
  if (open == queues.end()) {
    return {refused + ": if others should run too, add a queue default with namespaces [\"*\"]"};
  }
  return {
      fmt::format("{}, though queue {} admits all namespaces: the queue for such pods is the "
                  "one named default",
                  refused, open->name)};
}

}  // namespace berth::config
