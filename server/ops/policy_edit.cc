#include "server/ops/policy_edit.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "policy/edit_exposure.h"
#include "server/ops/queue_numbers.h"

namespace berth::server {
namespace {

constexpr std::int64_t kFewDevices = 64;

std::int64_t Devices(std::int64_t milli) { return (milli + cluster::kMilli - 1) / cluster::kMilli; }

std::int64_t MostOf(const config::PolicyConfiguration& next, std::int64_t in_use) {
  const std::int64_t said = next.eviction.max_per_edit;
  return said >= 0 ? said : std::max(kFewDevices, in_use / cluster::kMilli / 10);
}

std::string NamesOf(const policy::Exposure& exposure) {
  constexpr std::size_t kMost = 5;
  std::vector<std::string> names;
  for (const auto& [queue, devices] : exposure.queues) {
    if (names.size() == kMost) {
      names.push_back("...");
      break;
    }
    names.push_back(fmt::format("{} {}", queue, Devices(devices)));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::string WhyHeld(const InParts& read, const config::PolicyConfiguration& next) {
  QueueReader reader;
  ForEachWorkload(read, [&](const engine::Engine& engine, const cluster::Workload& workload, auto) {
    reader.Visit(engine, workload);
  });
  config::PolicyConfiguration current;
  const auto [tree, kinds] =
      reader.Read(read, [&](const cluster::Store& store) { current = store.policy(); });
  const policy::Exposure exposure = policy::ExposureOf(tree, kinds, current, next);
  const std::int64_t exposed = Devices(exposure.devices);
  const std::int64_t most = MostOf(next, exposure.in_use);
  if (exposed <= most) return {};
  return fmt::format(
      "held: {} devices that are in use, and that their queues may keep now, could be taken back "
      "or "
      "are drained ({}); without a confirmation an edit may do that to {}. To confirm, add "
      "eviction: {{maxPerEdit: {}}} to the policy",
      exposed, NamesOf(exposure), most, exposed);
}

}  // namespace berth::server
