#include "engine/forecast.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "engine/min_run_time.h"

namespace berth::engine {

using cluster::PodInfo;
using cluster::Workload;

namespace {

/// Remembers when jobs end, which each of their pods is asked for.
class JobEnds {
 public:
  explicit JobEnds(const View& view) : view_(view) {}

  /// 0: it is not known.
  TimePoint Of(const PodInfo& pod) {
    if (Ends(view_, pod)) return pod.object.meta.deletion.value_or(view_.now);
    if (pod.terminating()) return 0;
    if (pod.workload == nullptr || pod.workload->expected_duration == 0) return 0;
    const auto [it, is_new] = jobs_.try_emplace(pod.workload);
    if (is_new) it->second = OfJob(*pod.workload);
    return it->second;
  }

 private:
  TimePoint OfJob(const Workload& job) const {
    const TimePoint since = RunsSince(view_, job);
    const TimePoint end = since == 0 ? 0 : since + job.expected_duration;
    return end > view_.now ? end : 0;
  }

  const View& view_;
  std::unordered_map<const Workload*, TimePoint> jobs_;
};

Ended EndedAt(const View& view, TimePoint at) {
  JobEnds ends(view);
  Ended ended(view.store);
  for (const auto& node : view.store.nodes()) {
    for (const PodInfo* pod : node->pods) {
      const TimePoint end = ends.Of(*pod);
      if (end != 0 && end <= at) ended.Add(*pod);
    }
  }
  return ended;
}

/// The jobs that start in a forecast, by user: where their number is capped, each counts.
using StartedJobs = std::map<std::string_view, std::int64_t>;

bool MayHaveOneMore(const View& view, const Workload& workload, const StartedJobs& started) {
  const std::int64_t most = view.store.queue(workload.queue).config.max_jobs_per_user;
  const auto it = started.find(workload.user);
  if (most == 0 || it == started.end()) return true;
  return view.ended->quota().Jobs(workload.queue, workload.user) + it->second < most;
}

}  // namespace

std::vector<TimePoint> ExpectedEnds(const View& view, const cluster::NodeInfo& node) {
  JobEnds ends(view);
  std::vector<TimePoint> times;
  for (const PodInfo* pod : node.pods) {
    if (const TimePoint end = ends.Of(*pod); end > view.now) times.push_back(end);
  }
  return times;
}

bool HasRoomAt(const View& view, std::span<const Workload* const> line, TimePoint at) {
  Ended ended = EndedAt(view, at);
  View then = view;
  then.now = at;
  then.ended = &ended;
  StartedJobs started;
  for (const Workload* workload : line) {
    std::vector<const PodInfo*> pods = Placeable(*workload);
    const int min = std::max(1, workload->Missing());
    std::optional<Reservation> reserve;
    const bool complete = !workload->in_tree && std::ssize(pods) >= min;
    if (complete && !view.states.At(*workload).Pauses(at) &&
        MayHaveOneMore(then, *workload, started)) {
      reserve = DecideStart(then, *workload, std::move(pods), min, nullptr).reserve;
    }
    if (workload == line.back()) return reserve.has_value();
    if (!reserve) continue;
    for (const policy::Placed& placed : reserve->placed) ended.Place(placed);
    ++started[workload->user];
  }
  return false;
}

}  // namespace berth::engine
