#include "sim/scenario_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <expected>
#include <iostream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kube/terminal.h"
#include "sim/experiments/parallel.h"
#include "sim/faults/fault_command.h"
#include "sim/options.h"
#include "sim/scenario/judge.h"
#include "sim/scenario/objects.h"
#include "sim/scenario/run.h"
#include "sim/world/fidelity_option.h"

namespace berth::sim {
namespace {

struct RunCommandOptions {
  std::vector<std::string> files;
  std::string seeds = "1";
  Fidelity fidelity = Fidelity::kScheduler;
  bool schema = false;
  bool expand = false;
  int judge = 0;  ///< Line of the step whose expectation is judged; 0: none.
};

/// Prints the errors of the file itself. The error is the exit code.
std::expected<scenario::Scenario, int> Load(const std::string& path) {
  const auto text = ReadTraceFile(path);
  if (!text) return std::unexpected(Fail(text.error()));
  auto decoded = scenario::Decode(*text, path);
  if (decoded) return *std::move(decoded);
  for (const auto& error : decoded.error())
    kube::Write(stderr, fmt::format("{}\n", error.ToString()));
  return std::unexpected(kBadInput);
}

/// Reads at most kMaxTraceBytes; longer input is truncated, and is then not valid JSON.
std::string ReadStandardInput() {
  std::string text;
  std::array<char, 65536> buffer{};
  while (text.size() < kMaxTraceBytes && std::cin.read(buffer.data(), buffer.size()).gcount() > 0) {
    text.append(buffer.data(), static_cast<std::size_t>(std::cin.gcount()));
  }
  return text;
}

/// Judges the observation on standard input by the expectation at that line.
int JudgeObservation(const scenario::Scenario& scenario, int line) {
  const auto seen = scenario::DecodeObservation(ReadStandardInput());
  if (!seen) {
    kube::Write(stderr, fmt::format("standard input: {}\n", seen.error()));
    return kBadInput;
  }
  for (const scenario::Step& step : scenario.steps) {
    const auto* expect = std::get_if<scenario::Expect>(&step.action);
    if (expect == nullptr || step.line != line) continue;
    const auto faults = scenario::Unmet(scenario, *expect, *seen);
    for (const std::string& fault : faults)
      kube::Write(stdout, fmt::format("line {}: {}\n", line, fault));
    return faults.empty() ? kFine : kBadInput;
  }
  kube::Write(stderr, fmt::format("no expectation at line {}\n", line));
  return kUsage;
}

/// Runs one file with every seed and prints those that failed. Returns how many did.
std::size_t RunSeeds(const scenario::Scenario& scenario, const std::string& path,
                     const std::vector<std::uint64_t>& seeds, Fidelity fidelity) {
  std::vector<scenario::RunReport> reports(seeds.size());
  ParallelFor(seeds.size(), 0, [&](std::size_t i) {
    reports[i] = scenario::Run(scenario, {.fidelity = fidelity, .seed = seeds[i]});
  });
  std::size_t failed = 0;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    if (reports[i].faults.empty()) continue;
    ++failed;
    kube::Write(stdout, fmt::format("FAILED {} (seed {}): {}\n", path, seeds[i], scenario.proves));
    for (const std::string& fault : reports[i].faults)
      kube::Write(stdout, fmt::format("  {}\n", fault));
    for (const std::string& event : reports[i].last_events)
      kube::Write(stdout, fmt::format("    {}\n", event));
  }
  return failed;
}

int RunFiles(const RunCommandOptions& options) {
  if (options.schema) {
    kube::Write(stdout, scenario::Schema());
    return kFine;
  }
  const auto seeds = ParseSeeds(options.seeds);
  if (!seeds) {
    kube::Write(stderr, fmt::format("--seeds: `{}` is no A-B or A,B,C of at most 10,000 seeds\n",
                                    options.seeds));
    return kUsage;
  }
  std::size_t runs = 0;
  std::size_t failed = 0;
  int code = kFine;
  for (const std::string& path : options.files) {
    const auto scenario = Load(path);
    runs += scenario ? seeds->size() : 1;
    if (!scenario) {
      code = std::max(code, scenario.error());
      ++failed;
    } else if (options.expand) {
      kube::Write(stdout, fmt::format("{}\n", scenario::Expand(*scenario).dump()));
      return kFine;
    } else if (options.judge != 0) {
      return JudgeObservation(*scenario, options.judge);
    } else {
      failed += RunSeeds(*scenario, path, *seeds, options.fidelity);
    }
  }
  kube::Write(stdout, fmt::format("level {}: {} passed, {} failed\n", Name(options.fidelity),
                                  runs - failed, failed));
  return failed == 0 ? kFine : std::max(code, kBadInput);
}

}  // namespace

void AddRunCommand(CLI::App& simulate, std::function<int()>& run) {
  auto options = std::make_shared<RunCommandOptions>();
  CLI::App* command =
      simulate.add_subcommand("run", "scenario files in the simulated world (docs/scenarios.md)");
  CLI::Option* files = command->add_option("FILE", options->files, "scenario files");
  command->add_option("--seeds", options->seeds, "A-B or A,B,C: one run each")
      ->capture_default_str();
  AddWireOption(*command, options->fidelity);
  command
      ->add_flag("--schema", options->schema,
                 "only print the JSON schema of scenario files, for editors")
      ->excludes(files);
  command->add_flag("--expand", options->expand,
                    "print the file's objects and steps as JSON, for another program to carry out");
  command
      ->add_option("--judge", options->judge,
                   "judge the observation on standard input (JSON) by the expectation that "
                   "begins at this line")
      ->check(CLI::Range(1, std::numeric_limits<int>::max()));
  command->callback([options, &run] {
    if (options->files.empty() && !options->schema) throw CLI::RequiredError("FILE");
    if ((options->expand || options->judge != 0) && options->files.size() > 1) {
      throw CLI::ValidationError("--expand, --judge", "of one file");
    }
    run = [options] { return RunFiles(*options); };
  });
}

void AddFaultsCommand(CLI::App& simulate, std::function<int()>& run) {
  auto options = std::make_shared<FaultOptions>();
  AddFaultsCommand(simulate, *options)->callback([options, &run] {
    run = [options] { return RunFaults(*options, std::cout); };
  });
}

}  // namespace berth::sim
