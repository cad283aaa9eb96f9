#include "sim/faults/fault_search.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <numeric>
#include <ostream>
#include <thread>

#include "sim/seeds.h"

namespace berth::sim {
namespace {

constexpr std::size_t kMostSeeds = 10'000'000;

bool Breaks(const Day& day) { return !DayRun(day, 0).Run().violation.empty(); }

/// Removes pieces of a list, first halves and then smaller and smaller ones, while the day still
/// fails.
template <typename List>
void ShrinkList(Day& day, List Day::*list) {
  for (std::size_t piece = (day.*list).size(); piece >= 1; piece /= 2) {
    for (std::size_t at = 0; at < (day.*list).size();) {
      Day smaller = day;
      auto& items = smaller.*list;
      const std::size_t end = std::min(at + piece, items.size());
      items.erase(items.begin() + static_cast<std::ptrdiff_t>(at),
                  items.begin() + static_cast<std::ptrdiff_t>(end));
      if (Breaks(smaller)) {
        day = std::move(smaller);
      } else {
        at += piece;
      }
    }
  }
}

Day Draw(std::uint64_t seed, const Profile& profile, const FaultOptions& options) {
  Day day = options.nodes == 0 ? DrawDay(seed, profile)
                               : DrawLargeDay(seed, profile, options.nodes,
                                              options.pods > 0 ? options.pods : 20 * options.nodes);
  day.fidelity = options.fidelity;
  return day;
}

void Tell(const Day& drawn, const FaultOptions& options, std::ostream& out) {
  // Shrinking a large day would take a day.
  const Day day = options.nodes > 0 ? drawn : Shrink(drawn);
  DayRun world(day, options.lines);
  const RunResult result = world.Run();
  out << fmt::format("shrunk to {} of {} faults and {} of {} jobs, {} nodes\n", day.faults.size(),
                     drawn.faults.size(), day.jobs.size(), drawn.jobs.size(), day.nodes.size());
  for (const kube::Node& node : day.nodes) {
    if (options.nodes > 0) break;
    out << "  node " << node.meta.name;
    for (const auto& [name, amount] : node.allocatable) out << ' ' << name << '=' << amount;
    out << '\n';
  }
  for (const Job& job : day.jobs) {
    if (options.nodes > 0) break;
    out << "  job   " << job.ToString() << '\n';
  }
  for (const Fault& fault : day.faults) out << "  fault " << fault.ToString() << '\n';
  out << "the last " << result.last_events.size() << " events:\n";
  for (const std::string& line : result.last_events) out << "  " << line << '\n';
  out << "violation at step " << result.steps << ": " << result.violation << '\n';
}

/// A run over this many seeds fails if something that its profile is about never happened, because
/// it proves nothing about that. Fewer seeds may miss a kind of fault by chance.
constexpr std::size_t kSeedsThatReach = 100;

/// What happened in all days of a run.
struct Reach {
  std::int64_t bound = 0;
  std::int64_t gangs = 0;
  std::int64_t evictions = 0;
  std::int64_t evicted = 0;
  std::int64_t surplus = 0;
  std::int64_t for_running = 0;
  std::int64_t handovers = 0;  ///< How often a replica began to decide after another one.
  std::array<std::int64_t, kFaultKinds> effects{};

  void Add(const RunResult& day) {
    bound += day.bound;
    gangs += day.gangs;
    evictions += day.evictions;
    evicted += day.evicted;
    surplus += day.surplus;
    for_running += day.for_running;
    handovers += std::max(0, day.terms - 1);
    for (std::size_t i = 0; i < effects.size(); ++i) effects[i] += day.effects[i];
  }

  std::string ToString() const {
    return fmt::format(
        "{} gangs started, {} evictions answered, {} pods evicted, {} of them surplus, {} for "
        "members that running gangs lacked, {} faults struck",
        gangs, evictions, evicted, surplus, for_running,
        std::accumulate(effects.begin(), effects.end(), std::int64_t{0}));
  }

  /// What the profile is about and never happened; empty: everything happened.
  std::string Missed(const Profile& profile) const {
    std::vector<std::string_view> missed;
    if (bound == 0) missed.emplace_back("a Binding");
    if (gangs == 0) missed.emplace_back("a gang that started");
    if (profile.budgets && evictions == 0) missed.emplace_back("an eviction");
    if (profile.replicas > 1 && handovers == 0) missed.emplace_back("a handover");
    if (evicted == 0) missed.emplace_back("an eviction by Berth");
    for (int i = 0; i < kFaultKinds; ++i) {
      const auto kind = static_cast<FaultKind>(i);
      if (std::ranges::find(profile.kinds, kind) == profile.kinds.end()) continue;
      if (effects[static_cast<std::size_t>(i)] == 0) missed.push_back(Name(kind));
    }
    return fmt::format("{}", fmt::join(missed, ", "));
  }
};

}  // namespace

RunResult RunDay(const Day& day, bool repeat) {
  RunResult result = DayRun(day, 0).Run();
  if (!repeat || !result.violation.empty()) return result;
  // Make addresses differ from those of the first run.
  const std::vector<std::string> noise(1 + day.seed % 97, std::string(64 + day.seed % 512, 'x'));
  Day as_values = day;  // the codecs must not change what is sent, so the hash is equal
  as_values.fidelity = Fidelity::kScheduler;
  const RunResult again = DayRun(as_values, 0).Run();
  if (again.hash != result.hash || again.steps != result.steps) {
    result.violation =
        fmt::format("I8: two runs of one seed differ: {:016x} (level {}) and {:016x} (level {})",
                    result.hash, Name(day.fidelity), again.hash, Name(as_values.fidelity));
  }
  return result;
}

Day Shrink(Day day) {
  ShrinkList(day, &Day::faults);
  ShrinkList(day, &Day::jobs);
  ShrinkList(day, &Day::faults);
  return day;
}

int RunFaults(const FaultOptions& options, std::ostream& out) {
  const Profile* profile = FindProfile(options.profile);
  if (profile == nullptr) {
    out << "no such profile: " << options.profile << '\n';
    return 2;
  }
  return RunFaults(
      options, [&](std::uint64_t seed) { return Draw(seed, *profile, options); }, out);
}

int RunFaults(const FaultOptions& options, const std::function<Day(std::uint64_t seed)>& draw,
              std::ostream& out) {
  const auto seeds = ParseSeeds(options.seeds, kMostSeeds);
  if (!seeds) {
    out << "--seeds: `" << options.seeds << "` is not a range A-B or list A,B,C of at most "
        << kMostSeeds << " seeds\n";
    return 2;
  }
  if (options.tell && seeds->size() > 1) {
    out << "--tell needs exactly one seed\n";
    return 2;
  }
  std::atomic<std::size_t> next = 0;
  std::size_t ran = 0;
  std::mutex mutex;
  std::map<std::uint64_t, RunResult> broken;
  Reach reach;
  RunResult total;
  const auto work = [&] {
    for (std::size_t i = next++; i < seeds->size(); i = next++) {
      const std::uint64_t seed = (*seeds)[i];
      RunResult result = RunDay(draw(seed), options.repeat);
      const std::scoped_lock lock(mutex);
      if (options.verbose) {
        out << fmt::format(
            "seed {}: {} steps, {} bound, {} crashes, {} filter calls, {} of them hypothetical, "
            "hash {:016x}{}\n",
            seed, result.steps, result.bound, result.crashes, result.filters, result.trials,
            result.hash, result.violation.empty() ? "" : ", BROKEN");
      }
      ++ran;
      total.steps += result.steps;
      total.bound += result.bound;
      reach.Add(result);
      if (!result.violation.empty()) broken.emplace(seed, std::move(result));
      if (options.until_broken && !broken.empty()) return;
    }
  };
  const unsigned threads =
      options.jobs > 0 ? static_cast<unsigned>(options.jobs) : std::thread::hardware_concurrency();
  {
    std::vector<std::jthread> workers;
    for (unsigned i = 0; i < std::max(1U, threads); ++i) workers.emplace_back(work);
  }
  for (const auto& [seed, result] : broken) {
    out << fmt::format("seed {} ({}) at step {}: {}\n", seed, options.profile, result.steps,
                       result.violation.substr(0, result.violation.find('\n')));
  }
  if (options.tell) {
    const Day day = draw(seeds->front());
    for (const std::string& line : DayRun(day, options.lines).Run().last_events) {
      out << "  " << line << '\n';
    }
  } else if (!broken.empty() && options.story) {
    const std::uint64_t seed = broken.begin()->first;
    out << fmt::format("--- the story of seed {}\n", seed);
    Tell(draw(seed), options, out);
  }
  out << fmt::format("level {}, profile {}: {} events, {} pods bound, {}\n", Name(options.fidelity),
                     options.profile, total.steps, total.bound, reach.ToString());
  const Profile* profile = FindProfile(options.profile);
  const std::string missed = profile == nullptr ? std::string() : reach.Missed(*profile);
  const bool in_vain = !missed.empty() && ran >= kSeedsThatReach && broken.empty();
  if (!missed.empty()) out << fmt::format("never happened: {}\n", missed);
  out << fmt::format("{} seeds, {} violations\n", ran, broken.size());
  return broken.empty() && !in_vain ? 0 : 1;
}

}  // namespace berth::sim
