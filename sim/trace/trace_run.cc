#include "sim/trace/trace_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cluster/measures.h"
#include "policy/largest_gang.h"
#include "sim/baselines/baselines.h"
#include "sim/faults/usage.h"
#include "sim/trace/player.h"
#include "sim/world/processes.h"

namespace berth::sim {
namespace {

constexpr Duration kHour = 3'600'000;
/// If nothing runs, and nothing has happened for this long, waiting jobs wait for ever. Longer than
/// every pause of kube-scheduler and of Berth.
constexpr Duration kQuiet = kHour;
constexpr Duration kFirstLists = 60'000;  ///< All first lists have arrived.
constexpr std::size_t kSamples = 200;     ///< At least this many, and at most twice as many.
constexpr std::int64_t kWholePod = 8;
constexpr Duration kHttpTimeout = 30'000;

bool IsPublished(std::string_view policy) {
  return std::ranges::find(BaselineNames(), policy) != BaselineNames().end();
}

void CountEnd(Times& times, Duration wait, Duration jct, Duration service) {
  times.wait.push_back(static_cast<double>(wait) / 1000);
  times.jct.push_back(static_cast<double>(jct) / 1000);
  times.slowdown.push_back(
      std::max(1.0, static_cast<double>(jct) / std::max(10'000.0, static_cast<double>(service))));
}

/// Records the free GPUs of each node from the API objects, independently of the policy.
class Observer {
 public:
  Observer(Environment& env, const std::vector<kube::Node>& nodes)
      : env_(env), store_(config::PolicyConfiguration()), gpus_(CountGpus(nodes).all) {
    for (const kube::Node& node : nodes) store_.UpsertNode(node);
    env_.api.Subscribe(Kind::kPod, life_.alive(), [this] {
      const Change& change = env_.api.at(Kind::kPod, env_.api.end(Kind::kPod) - 1);
      if (change.deleted || !Lives(*change.pod)) {
        store_.DeletePod(change.key);
      } else if (!change.pod->node_name.empty()) {
        store_.UpsertPod(*change.pod);
      }
    });
  }

  Sample Look(double hours, double waiting) {
    store_.Refresh();
    const cluster::ResourceId gpu = store_.device_ids().front();
    std::int64_t free = 0;
    for (const auto& node : store_.nodes()) free += node->free(gpu);
    const double all = static_cast<double>(std::max<std::int64_t>(1, gpus_) * cluster::kMilli);
    return {.hours = hours,
            .allocated = 1 - static_cast<double>(free) / all,
            .fragmented = cluster::FragmentationRatio(store_, gpu),
            .largest_gang = static_cast<double>(
                policy::LargestGangs(store_, std::span(&whole_pod_, 1)).front().pods),
            .waiting = waiting};
  }

 private:
  Environment& env_;
  Life life_;
  cluster::Store store_;
  policy::PodSize whole_pod_{kWholePod, policy::BarePod(store_, kWholePod)};
  std::int64_t gpus_;
};

class TraceRun {
 public:
  TraceRun(const std::vector<kube::Node>& nodes, const std::vector<RecordedJob>& jobs,
           const TraceOptions& options)
      : options_(options),
        jobs_(jobs),
        env_(options.seed, kEpoch, Trace::kNothing, options.fidelity),
        berth_(options.policy == "Berth" || IsPublished(options.policy)),
        gpus_(CountGpus(nodes).all),
        processes_(env_, SchedulerOf(), kHttpTimeout),
        observer_(env_, nodes) {
    env_.api.PutPolicy(options.configuration);
    for (const kube::Node& node : nodes) env_.api.PutNode(node);
    processes_.checker().LookSeldom();
    if (IsPublished(options.policy)) {
      env_.engine_options.store.shares = true;
      env_.engine_options.scorer = [name = options.policy] { return MakeBaseline(name); };
    }
    if (berth_) processes_.StartBerth();
    processes_.StartScheduler();
    Advance(kFirstLists);
  }

  TraceResult Run() {
    const TimePoint begin = env_.now();
    Player player(env_, jobs_,
                  {.gated = berth_,
                   .scheduler_name = options_.configuration.scheduler_names.front(),
                   .one_at_a_time = options_.policy == "FIFO"});
    TraceResult result;
    result.fidelity = options_.fidelity;
    result.policy = options_.policy;
    result.seed = options_.seed;
    result.jobs = jobs_.size();
    const Duration span = std::max<Duration>(jobs_.empty() ? 0 : jobs_.back().arrival, kHour);
    Duration gap = span / static_cast<Duration>(kSamples) + 1;
    TimePoint next = begin;
    while (player.ended() < jobs_.size() && !Stuck(player)) {
      if (env_.now() >= next) {
        result.samples.push_back(
            observer_.Look(Hours(env_.now() - begin), static_cast<double>(player.waiting())));
        next = env_.now() + gap;
        if (result.samples.size() == 2 * kSamples) {
          // Drop every other sample: bounds the memory for any length of run, and keeps samples
          // equally spaced.
          std::size_t i = 0;
          std::erase_if(result.samples, [&i](const Sample&) { return i++ % 2 == 1; });
          gap *= 2;
        }
      }
      if (!Advance(next - env_.now())) break;
    }
    result.violation = processes_.checker().violation();
    if (!berth_) result.violation.clear();  // the invariants are only Berth's
    Summarise(player, begin, result);
    return result;
  }

 private:
  static double Hours(Duration time) { return static_cast<double>(time) / kHour; }

  SchedulerOptions SchedulerOf() const {
    SchedulerOptions options;
    if (!berth_) options.managed_resources.clear();  // no extender is called
    if (options_.policy == "MostAllocated") options.strategy = StockStrategy::kMostAllocated;
    return options;
  }

  bool Stuck(const Player& player) const {
    return player.all_arrived() && player.running() == 0 &&
           env_.now() > player.last_change() + kQuiet;
  }

  /// False: an invariant is broken.
  bool Advance(Duration time) {
    const TimePoint end = env_.now() + time;
    if (berth_) return processes_.RunUntil(end);
    env_.timeline.At(end, [] {});
    while (!env_.timeline.empty() && env_.timeline.next() <= end) env_.timeline.Step();
    return true;
  }

  /// Berth's reason why a job waits: ` (REASON)`; empty: none.
  std::string WhyOf(const RecordedJob& job) const {
    if (processes_.berth() == nullptr) return {};
    const kube::ObjectMeta& pod = job.pods.front().meta;
    const auto why = processes_.berth()->engine().Why(pod.ns, pod.name, env_.now());
    return fmt::format(" ({})", cluster::Token(why.verdict.reason));
  }

  /// The queue that Berth would charge, under every policy.
  std::string QueueOf(const RecordedJob& job) const {
    kube::Pod pod = job.pods.front();
    pod.scheduler_name = options_.configuration.scheduler_names.front();
    return QueueByPolicy(pod, options_.configuration);
  }

  void Summarise(const Player& player, TimePoint begin, TraceResult& result) const {
    TimePoint last = begin;
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      const RecordedJob& job = jobs_[i];
      const Player::Outcome& outcome = player.outcomes()[i];
      const std::string queue = QueueOf(job);
      const std::array times{&result.all, &result.by_gpus[job.gpus()], &result.by_queue[queue]};
      for (Times* of : times) ++of->arrived;
      if (outcome.end < 0) {
        result.unfinished.push_back(job.name + WhyOf(job));
        continue;
      }
      last = std::max(last, outcome.end);
      const TimePoint arrival = begin + job.arrival;
      for (Times* of : times) {
        CountEnd(*of, outcome.start - arrival, outcome.end - arrival, job.service);
      }
    }
    result.makespan = static_cast<double>(last - begin) / 1000;
    const double all =
        static_cast<double>(gpus_ * cluster::kMilli) * static_cast<double>(last - begin);
    result.utilisation = all > 0 ? player.busy() / all : 0;
    result.evictions = player.evictions();
    constexpr double kHourMs = 3'600'000;
    result.lost_gpu_hours = player.lost() / cluster::kMilli / kHourMs;
    const double gpu_days = all / cluster::kMilli / kHourMs / 24;
    result.evictions_per_gpu_day = gpu_days > 0 ? result.evictions / gpu_days : 0;
  }

  const TraceOptions& options_;
  const std::vector<RecordedJob>& jobs_;
  Environment env_;
  const bool berth_;
  const std::int64_t gpus_;
  Processes processes_;
  Observer observer_;
};

}  // namespace

const std::vector<std::string_view>& TracePolicies() {
  static const std::vector<std::string_view> kPolicies = [] {
    std::vector<std::string_view> names{"Berth", "native", "MostAllocated", "FIFO"};
    std::ranges::copy_if(BaselineNames(), std::back_inserter(names),
                         [](std::string_view name) { return name != "Random"; });
    return names;
  }();
  return kPolicies;
}

TraceResult RunTrace(const std::vector<kube::Node>& nodes, const std::vector<RecordedJob>& jobs,
                     const TraceOptions& options) {
  return TraceRun(nodes, jobs, options).Run();
}

}  // namespace berth::sim
