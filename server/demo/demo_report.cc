#include "server/demo/demo_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/cli/table.h"

namespace berth::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxGangRows = 20;
constexpr std::size_t kMaxReasons = 7;

std::string Seconds(std::int64_t ms) {
  return fmt::format("{:.1f}s", static_cast<double>(ms) / 1000.0);
}

std::string Micros(std::int64_t us) {
  return us < 10'000 ? fmt::format("{:.2f} ms", static_cast<double>(us) / 1000.0)
                     : fmt::format("{:.0f} ms", static_cast<double>(us) / 1000.0);
}

/// `a` to `z` by submission, then again.
std::map<std::string, char> GangLetters(const std::vector<JobState>& jobs) {
  std::map<std::string, char> letters;
  int next = 0;
  for (const JobState& state : jobs) {
    if (state.job.gang()) letters[state.job.name] = static_cast<char>('a' + next++ % 26);
  }
  return letters;
}

std::string Joined(const std::set<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ",") + name;
  return out;
}

std::string TopologyOf(const DemoJob& job) {
  if (!job.required.empty()) return job.required;
  return job.preferred.empty() ? std::string() : "(" + job.preferred + ")";
}

std::string Note(const JobState& state) {
  std::vector<std::string> notes;
  if (state.job.priority > 0) notes.push_back(fmt::format("priority {}", state.job.priority));
  if (state.evictions > 0) notes.emplace_back("evicted");
  if (state.job.late > 0 && state.job.late_ms < 0) {
    notes.push_back(fmt::format("{} never came", state.job.late));
  } else if (state.job.late > 0) {
    notes.push_back(fmt::format("{} came {} late", state.job.late, Seconds(state.job.late_ms)));
  }
  return fmt::format("{}", fmt::join(notes, ", "));
}

std::string Gangs(const std::vector<JobState>& jobs, std::int64_t now, const PictureStyle& style) {
  const auto letters = GangLetters(jobs);
  std::vector<const JobState*> gangs;
  for (const JobState& state : jobs) {
    if (state.job.gang()) gangs.push_back(&state);
  }
  // Waiting or running gangs first, if there are too many.
  std::ranges::stable_sort(gangs, {}, [](const JobState* s) { return s->ended >= 0 ? 1 : 0; });
  const std::size_t hidden = gangs.size() > kMaxGangRows ? gangs.size() - kMaxGangRows : 0;
  gangs.resize(gangs.size() - hidden);
  Table table({"", "GANG", "TEAM", "SHAPE", "TOPOLOGY", "STATE", "WAIT", "PLACED IN", "NOTES"},
              /*gap=*/2);
  for (const JobState* state : gangs) {
    const bool waits = state->waiting();
    table.Add({std::string(1, state->running() ? letters.at(state->job.name) : ' '),
               state->job.name, state->job.team, state->job.Shape(), TopologyOf(state->job),
               waits ? "waiting" : (state->running() ? "running" : "ended"),
               Seconds((waits ? now : state->started) - state->submitted), Joined(state->racks),
               Note(*state)});
  }
  std::string out = Bold("Gangs", style) +
                    " (pods x GPUs; a topology in brackets is preferred, else required)\n" +
                    table.Render();
  if (hidden > 0) out += fmt::format("... and {} that ended\n", hidden);
  return out;
}

/// Jobs by team, and how long those that started had to wait.
std::string Teams(const std::vector<JobState>& jobs) {
  struct Team {
    int submitted = 0;
    int running = 0;
    std::vector<std::int64_t> waits;
  };
  std::map<std::string, Team> teams;
  for (const JobState& state : jobs) {
    Team& team = teams[state.job.team];
    ++team.submitted;
    team.running += state.running() ? 1 : 0;
    if (state.started >= 0) team.waits.push_back(state.started - state.submitted);
  }
  Table table({"TEAM", "JOBS", "STARTED", "RUNNING", "WAIT P50", "WAIT P99"});
  for (const auto& [name, team] : teams) {
    table.Add({name, std::to_string(team.submitted), std::to_string(team.waits.size()),
               std::to_string(team.running), Seconds(Quantile(team.waits, 0.5)),
               Seconds(Quantile(team.waits, 0.99))});
  }
  return table.Render();
}

/// A sentence over several lines, each of them indented.
std::string Wrapped(const std::string& text, std::size_t width, std::size_t indent) {
  std::string out;
  std::string line;
  std::size_t from = 0;
  while (from < text.size()) {
    auto to = text.find(' ', from);
    if (to == std::string::npos) to = text.size();
    const std::string word = text.substr(from, to - from);
    if (!line.empty() && indent + line.size() + 1 + word.size() > width) {
      out += std::string(indent, ' ') + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
    from = to + 1;
  }
  return out + std::string(indent, ' ') + line + "\n";
}

/// From /api/v1/why, one call per job; equal answers are shown once.
std::string Waiting(const DemoWorld& world, const std::vector<JobState>& jobs,
                    const PictureStyle& style) {
  struct Told {
    std::string who;
    std::string reason;
    std::string message;
  };
  std::vector<Told> told;
  std::map<std::string, int> more;
  int waiting = 0;
  for (const bool gangs : {true, false}) {
    for (const JobState& state : jobs) {
      if (!state.waiting() || state.job.gang() != gangs) continue;
      ++waiting;
      const Json why = world.Page("/api/v1/why", state.job.team + "/" + state.job.PodName(0));
      if (why.empty()) continue;
      const std::string reason = why.value("reason", "");
      const std::string kind = state.job.team + " " + (reason.empty() ? "just came" : reason);
      const bool alike = std::ranges::any_of(told, [&](const Told& t) {
        return !gangs && t.reason == reason && t.who.starts_with(state.job.team + "/");
      });
      if (alike || told.size() >= kMaxReasons) {
        ++more[kind];
        continue;
      }
      told.push_back({fmt::format("{}/{} ({})", state.job.team, state.job.name, state.job.Shape()),
                      reason, why.value("message", "")});
    }
  }
  std::string out = Bold("Waiting", style) + fmt::format(" {} jobs", waiting);
  out += waiting == 0 ? "\n" : ", and what `berth why` says of them\n";
  for (const Told& t : told) {
    out += fmt::format("  {:<38} {}\n", t.who, t.reason.empty() ? "just came" : t.reason);
    if (!t.message.empty()) out += Dim(Wrapped(t.message, style.width, 6), style);
  }
  std::string rest;
  for (const auto& [kind, count] : more)
    rest += fmt::format("{}{} x {}", rest.empty() ? "" : ", ", count, kind);
  if (!rest.empty()) out += Wrapped("and " + rest, style.width, 2);
  return out;
}

std::string Counted(std::size_t number, std::string_view noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

/// One side of an eviction: which job, what became of it, and its Event.
std::string Side(std::string_view label, const DemoJob& job, const ToldEvent& told,
                 const std::vector<JobState>& jobs, const PictureStyle& style) {
  constexpr std::size_t kIndent = 14;
  const auto state =
      std::ranges::find_if(jobs, [&](const JobState& s) { return s.job.name == job.name; });
  if (state == jobs.end()) return std::string(label) + "\n";
  const bool again = state->evictions > 0;
  const std::string became =
      state->started < 0
          ? fmt::format("waits{}", again ? " again" : "")
          : fmt::format("started {}at {}", again ? "again " : "", Seconds(state->started));
  std::string out = fmt::format("{:<4} {}/{} ({}, priority {}), {}\n", label, job.team, job.name,
                                job.Shape(), job.priority, became);
  if (told.pod.empty()) return out;
  return out +
         Dim(Wrapped(fmt::format("{}: {}", told.reason, told.note), style.width, kIndent), style);
}

/// For one job, the first ones that made room for it.
std::string MadeRoom(std::span<const JobEviction> evictions, const std::vector<JobState>& jobs,
                     const PictureStyle& style) {
  constexpr std::size_t kMost = 2;
  const JobEviction& first = evictions.front();
  std::string out = fmt::format("  {:>5}  ", Seconds(first.at_ms)) +
                    Side("in", first.beneficiary, first.to_beneficiary, jobs, style);
  for (const JobEviction& eviction : evictions.first(std::min(evictions.size(), kMost))) {
    out += std::string(9, ' ') + Side("out", eviction.victim, eviction.to_victim, jobs, style);
    out += Dim(Wrapped("berth.dev/evicted-for: " + eviction.mark, style.width, 14), style);
  }
  if (evictions.size() > kMost) {
    out += fmt::format("{:14}and {}\n", "", Counted(evictions.size() - kMost, "more job"));
  }
  return out;
}

/// The evictions by one rule, for the largest jobs, with what Berth told both sides.
std::string Evictions(std::string_view title, std::string_view rule,
                      std::vector<JobEviction> evictions, bool (JobEviction::*is)() const,
                      const std::vector<JobState>& jobs, const PictureStyle& style) {
  constexpr std::size_t kMost = 2;
  std::erase_if(evictions, [is](const JobEviction& e) { return !(e.*is)(); });
  std::string out =
      Bold(title, style) + fmt::format(" {} {}\n", Counted(evictions.size(), "job"), rule);
  std::vector<std::vector<JobEviction>> groups;  // by who got the room
  for (JobEviction& eviction : evictions) {
    const auto same = std::ranges::find_if(
        groups, [&](const auto& group) { return group.front().mark == eviction.mark; });
    auto& group = same == groups.end() ? groups.emplace_back() : *same;
    group.push_back(std::move(eviction));
  }
  const auto gpus = [](const DemoJob& job) { return job.pods * job.gpus; };
  std::ranges::stable_sort(groups, std::ranges::greater{},
                           [&](const auto& group) { return gpus(group.front().beneficiary); });
  for (auto& group : groups) {
    std::ranges::stable_sort(group, std::ranges::greater{},
                             [&](const JobEviction& e) { return gpus(e.victim); });
  }
  for (const auto& group : std::span(groups).first(std::min(groups.size(), kMost))) {
    out += MadeRoom(group, jobs, style);
  }
  if (groups.size() > kMost) {
    out += fmt::format("         and for {}\n", Counted(groups.size() - kMost, "more job"));
  }
  return out;
}

std::string PackingText(const Packing& p) {
  const double broken =
      p.free_gpus == 0 ? 0 : 100.0 * static_cast<double>(p.broken_gpus) / p.free_gpus;
  return fmt::format(
      "{} of {} GPUs used; {} of {} nodes full, {} kept whole (at most {} in one rack);\n"
      "{} of {} free GPUs are on broken nodes ({:.0f}%)\n",
      p.gpus - p.free_gpus, p.gpus, p.full_nodes, p.nodes, p.free_nodes, p.best_rack_nodes,
      p.broken_gpus, p.free_gpus, broken);
}

std::string Latency(const DemoWorld& world) {
  std::string out;
  for (const VerbTimes& times : world.scheduler().extender().Times()) {
    if (times.micros.empty()) {
      out += fmt::format("{:<11} not called: {}\n", times.verb,
                         times.verb == "preempt" ? "urgent work waits behind Berth's gate"
                                                 : "with one node left kube-scheduler skips it");
      continue;
    }
    out += fmt::format("{:<11} {:>5} calls   p50 {:>8}   p99 {:>8}{}\n", times.verb,
                       times.micros.size(), Micros(Quantile(times.micros, 0.5)),
                       Micros(Quantile(times.micros, 0.99)),
                       times.verb == "bind" ? "   (gang barrier included)" : "");
  }
  return out;
}

struct Counts {
  int waiting = 0;
  int waiting_gangs = 0;
  int running = 0;
  int ended = 0;
  int gpus = 0;
};

Counts Count(const std::vector<JobState>& jobs) {
  Counts counts;
  for (const JobState& state : jobs) {
    counts.waiting += state.waiting() ? 1 : 0;
    counts.waiting_gangs += state.waiting() && state.job.gang() ? 1 : 0;
    counts.running += state.running() ? 1 : 0;
    counts.ended += state.ended >= 0 ? 1 : 0;
    if (state.running()) counts.gpus += state.job.pods * state.job.gpus;
  }
  return counts;
}

}  // namespace

std::int64_t Quantile(std::vector<std::int64_t> samples, double p) {
  if (samples.empty()) return 0;
  std::ranges::sort(samples);
  const auto last = static_cast<double>(samples.size() - 1);
  return samples[static_cast<std::size_t>(last * p + 0.5)];
}

PodMarks MarksOf(const std::vector<JobState>& jobs) {
  PodMarks marks;
  const auto letters = GangLetters(jobs);
  for (const JobState& state : jobs) {
    if (state.ended >= 0 || (!state.job.gang() && !state.job.whole_node)) continue;
    for (int i = 0; i < state.job.pods; ++i) {
      marks[state.job.team + "/" + state.job.PodName(i)] = {
          .letter = state.job.gang() ? letters.at(state.job.name) : char{0},
          .whole_node = state.job.whole_node};
    }
  }
  return marks;
}

std::string ProgressLine(const DemoWorld& world) {
  const Counts counts = Count(world.jobs());
  const auto times = world.scheduler().extender().Times();
  return fmt::format(
      "{:>6}  {:>3} jobs on {:>3}/{} GPUs, {:>2} wait ({} gangs), {:>3} ended, filter {}\n",
      Seconds(world.now()), counts.running, counts.gpus, world.gpus(), counts.waiting,
      counts.waiting_gangs, counts.ended, Micros(Quantile(times[0].micros, 0.5)));
}

std::string LiveView(const DemoWorld& world, const PictureStyle& style) {
  const auto jobs = world.jobs();
  return DrawNodes(world.Page("/api/v1/nodes"), MarksOf(jobs), style) + "\n" +
         DrawQueues(world.Page("/api/v1/queues"), world.gpus(), style) + "\n" + ProgressLine(world);
}

std::string Report(const DemoWorld& world, const QueueHistory& history, const PictureStyle& style) {
  const auto jobs = world.jobs();
  const Json nodes = world.Page("/api/v1/nodes");
  std::string out = DrawNodes(nodes, MarksOf(jobs), style) + "\n";
  out += Bold("Queues", style) + fmt::format(" (GPUs; {} marks the quota, + what is above it)\n",
                                             style.unicode ? "┃" : "|");
  out += DrawQueues(world.Page("/api/v1/queues"), world.gpus(), style) + "\n";
  const auto evictions = world.evictions();
  out += Bold("Queues over time", style) +
         fmt::format(
             " (GPUs in use, from 0 to the limit of each queue)\n"
             "What is above the line of its quota a queue has borrowed; {} is quota not in use;\n"
             "{} is its fair share, in another row: what is used above it may be taken back.\n",
             style.unicode ? "·" : ".", style.unicode ? "○" : "o");
  out += DrawHistory(history, evictions, world.gpus(), style) + "\n";
  out += Evictions("Taken back", "with borrowed GPUs made room for the queue that had lent them",
                   evictions, &JobEviction::reclaimed, jobs, style) +
         "\n";
  out += Evictions("Preempted", "made room for work of higher priority in the same queue",
                   evictions, &JobEviction::preempted, jobs, style) +
         "\n";
  out += Teams(jobs) + "\n" + Gangs(jobs, world.now(), style) + "\n";
  out += Waiting(world, jobs, style) + "\n";
  out += Bold("Packing", style) + "\n" + PackingText(MeasurePacking(nodes)) + "\n";
  out += Bold("Verbs over HTTP", style) + ", as the scheduler model saw them\n" + Latency(world);
  return out;
}

}  // namespace berth::server
