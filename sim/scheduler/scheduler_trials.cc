// Scheduler, part: calls for placements that never happen. Upstream tries
// pod groups on subsets of the nodes, with and without victims, in a snapshot that no extender
// sees.
#include "sim/scheduler/scheduler.h"

namespace berth::sim {

/// One node, or a subset of all, whether or not they have room: upstream may assume victims to be
/// gone.
std::vector<std::string> Scheduler::SomeNodes() {
  std::vector<std::string> all;
  for (const auto& [name, state] : nodes_) {
    if (state.node != nullptr) all.push_back(name);
  }
  if (all.empty()) return {};
  if (env_.ties.Percent(30)) {
    return {all[static_cast<std::size_t>(env_.ties.Between(0, std::ssize(all) - 1))]};
  }
  const auto share = static_cast<int>(env_.ties.Between(10, 100));
  std::erase_if(all, [&](const std::string&) { return !env_.ties.Percent(share); });
  return all;
}

/// Runs the attempt. Before it, at random, calls filter and sometimes prioritize for any waiting
/// pods without gates and drops the answers.
void Scheduler::Begin(const std::shared_ptr<Cycle>& cycle) {
  if (env_.now() >= options_.trials_end || !env_.ties.Percent(options_.trial_percent)) {
    return TryNominated(cycle);
  }
  const auto waiting = queue_.Ungated();
  const std::vector<std::string> offered = SomeNodes();
  if (waiting.empty() || offered.empty()) return TryNominated(cycle);
  const auto pod = waiting[static_cast<std::size_t>(env_.ties.Between(0, std::ssize(waiting) - 1))];
  if (!Managed(*pod)) return TryNominated(cycle);
  env_.log.Say("scheduler: tries {} on {} nodes, not in earnest", pod->meta.name, offered.size());
  using Scores = std::map<std::string, std::int64_t>;
  const auto filtered = [this, cycle, pod](const std::expected<FilterReply, std::string>& reply) {
    if (!reply || reply->kept.empty() || env_.ties.Percent(50)) return Begin(cycle);
    extender_.Prioritize(
        *pod, reply->kept,
        life_.Guard([this, cycle](const std::expected<Scores, std::string>&) { Begin(cycle); }));
  };
  extender_.TryFilter(*pod, offered, life_.Guard(filtered));
}

}  // namespace berth::sim
