#include "server/ops/parts.h"

#include <string>

namespace berth::server {
namespace {

/// To write one pod or workload as JSON takes about 12 us, a node with its pods 50 us.
constexpr std::size_t kPodsInPart = 200;
constexpr std::size_t kNodesInPart = 25;

}  // namespace

InParts PartsOf(const engine::Engine& engine, engine::TimePoint now) {
  return [&engine, now](const Part& part) {
    while (part(engine, now)) {
    }
  };
}

void ForEachWorkload(const InParts& read,
                     const std::function<void(const engine::Engine&, const cluster::Workload&,
                                              engine::TimePoint)>& visit) {
  std::string after;
  read([&](const engine::Engine& engine, engine::TimePoint now) {
    const auto& workloads = engine.store().workloads();
    auto it = workloads.upper_bound(after);
    for (std::size_t pods = 0; it != workloads.end() && pods < kPodsInPart; ++it) {
      const auto& [key, workload] = *it;
      visit(engine, workload, now);
      pods += 1 + workload.members.size() + workload.faulty.size();
      after = key;
    }
    return it != workloads.end();
  });
}

void ForEachNode(
    const InParts& read,
    const std::function<void(const engine::Engine&, const cluster::NodeInfo&)>& visit) {
  std::size_t next = 0;
  read([&](const engine::Engine& engine, engine::TimePoint) {
    const auto& nodes = engine.store().nodes();
    for (std::size_t i = 0; i < kNodesInPart && next < nodes.size(); ++i, ++next) {
      if (nodes[next]->present) visit(engine, *nodes[next]);
    }
    return next < nodes.size();
  });
}

}  // namespace berth::server
