#include "sim/trace/trace_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/baselines/baselines.h"
#include "sim/checker/processes.h"
#include "sim/checker/usage.h"
#include "sim/trace/claims.h"
#include "sim/trace/observer.h"
#include "sim/trace/player.h"

namespace berth::sim {
namespace {

constexpr Duration kHour = 3'600'000;
/// If nothing runs, and nothing has happened for this long, waiting jobs wait for ever. Longer than
/// every pause of kube-scheduler and of Berth.
constexpr Duration kQuiet = kHour;
constexpr Duration kFirstLists = 60'000;  ///< All first lists have arrived.
constexpr std::size_t kSamples = 200;     ///< At least this many, and at most twice as many.
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

class TraceRun {
 public:
  TraceRun(const std::vector<kube::Node>& nodes, const std::vector<RecordedJob>& jobs,
           const TraceOptions& options)
      : options_(options),
        jobs_(jobs),
        env_(options.seed, kEpoch, EventLog::kNothing, options.fidelity),
        berth_(options.policy == "Berth" || IsPublished(options.policy)),
        gpus_(CountGpus(nodes).all),
        processes_(env_, SchedulerOf(), kHttpTimeout),
        shares_(SharesOf(options)),
        observer_(env_, nodes, shares_) {
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

  static config::PolicyConfiguration SharesOf(const TraceOptions& options) {
    config::PolicyConfiguration shares = options.shares.value_or(options.configuration);
    shares.scheduler_names = options.configuration.scheduler_names;  // which all pods name
    return shares;
  }

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
  std::string QueueOf(const RecordedJob& job, const config::PolicyConfiguration& policy) const {
    kube::Pod pod = job.pods.front();
    pod.scheduler_name = policy.scheduler_names.front();
    return QueueByPolicy(pod, policy);
  }

  void CountClaims(const Player& player, TraceResult& result) const {
    std::vector<ClaimingJob> jobs;
    for (const RecordedJob& job : jobs_) {
      jobs.push_back({.queue = QueueOf(job, shares_),
                      .gpus = job.gpus(),
                      .priority = job.pods.front().priority});
    }
    for (const Claim& claim : ClaimsWithinQuota(jobs, player.events(), shares_)) {
      if (claim.met) {
        result.claims.seconds.push_back(static_cast<double>(claim.waited) / 1000);
      } else {
        ++result.claims.never;
      }
    }
  }

  /// Milli-GPU milliseconds that jobs used until `until` in the run that they completed.
  double UsedUntil(const Player& player, TimePoint until) const {
    double used = 0;
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      const Player::Outcome& outcome = player.outcomes()[i];
      if (outcome.end < 0) continue;
      const Duration time = std::max<Duration>(0, std::min(outcome.end, until) - outcome.start);
      used += static_cast<double>(jobs_[i].gpus() * cluster::kMilli) * static_cast<double>(time);
    }
    return used;
  }

  double UtilisationUntil(const Player& player, TimePoint begin, TimePoint until) const {
    const double all =
        static_cast<double>(gpus_ * cluster::kMilli) * static_cast<double>(until - begin);
    return all > 0 ? UsedUntil(player, until) / all : 0;
  }

  void Summarise(const Player& player, TimePoint begin, TraceResult& result) const {
    TimePoint last = begin;
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      const RecordedJob& job = jobs_[i];
      const Player::Outcome& outcome = player.outcomes()[i];
      const std::string queue = QueueOf(job, options_.configuration);
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
    CountClaims(player, result);
    result.makespan = static_cast<double>(last - begin) / 1000;
    const Duration arrivals = jobs_.empty() ? 0 : jobs_.back().arrival;
    result.arrival_hours = Hours(arrivals);
    result.utilisation = UtilisationUntil(player, begin, last);
    result.arrival_utilisation = UtilisationUntil(player, begin, begin + arrivals);
    result.evictions = player.evictions();
    if (berth_) {
      for (const auto& [end, count] : processes_.berth()->TakeCounters().evictions_in_vain) {
        result.evictions_in_vain += count;
      }
    }
    constexpr double kGpuHour = static_cast<double>(cluster::kMilli * kHour);
    result.gpu_days = UsedUntil(player, last) / kGpuHour / 24;
    result.lost_gpu_hours = player.lost() / kGpuHour;
  }

  const TraceOptions& options_;
  const std::vector<RecordedJob>& jobs_;
  Environment env_;
  const bool berth_;
  const std::int64_t gpus_;
  Processes processes_;
  const config::PolicyConfiguration shares_;
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
