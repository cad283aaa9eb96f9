#include "engine/victim_job.h"

#include <algorithm>
#include <iterator>
#include <unordered_set>

namespace berth::engine {

namespace {

/// How many of the jobs must go before that one.
std::ptrdiff_t CountBefore(const Jobs& jobs, const VictimJob& job) {
  return std::ranges::count_if(jobs, [&](const VictimJob* other) { return IsBefore(*other, job); });
}

}  // namespace

std::set<cluster::NodeIndex> NodesOf(const VictimJob& job) {
  std::set<cluster::NodeIndex> nodes;
  for (const cluster::PodInfo* pod : job.pods) nodes.insert(pod->node);
  return nodes;
}

Jobs WithoutRepeats(const Jobs& jobs) {
  std::unordered_set<const VictimJob*> seen;
  Jobs once;
  std::ranges::copy_if(jobs, std::back_inserter(once),
                       [&](const VictimJob* job) { return seen.insert(job).second; });
  return once;
}

bool IsBefore(const VictimJob& a, const VictimJob& b) {
  return a.workload == b.workload && a.surplus && !b.surplus;
}

bool IsClosed(const Jobs& jobs) {
  return std::ranges::all_of(
      jobs, [&](const VictimJob* job) { return CountBefore(jobs, *job) == job->before; });
}

Jobs InTurns(const Jobs& order) {
  if (std::ranges::all_of(order, [](const VictimJob* job) { return job->before == 0; })) {
    return order;
  }
  Jobs jobs;
  for (const VictimJob* last : order) {
    if (last->before > 0) {
      std::ranges::copy_if(order, std::back_inserter(jobs),
                           [&](const VictimJob* job) { return IsBefore(*job, *last); });
    }
    jobs.push_back(last);
  }
  return WithoutRepeats(jobs);
}

bool Waits(const VictimJob& job, const Jobs& staying) {
  return job.before > 0 && CountBefore(staying, job) > 0;
}

Jobs Joined(Jobs first, const Jobs& then) {
  first.insert(first.end(), then.begin(), then.end());
  return WithoutRepeats(first);
}

}  // namespace berth::engine
