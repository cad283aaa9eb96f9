#include "sim/scenario_command.h"

#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/options.h"
#include "sim/parallel.h"
#include "sim/scenario/judge.h"
#include "sim/scenario/objects.h"
#include "sim/scenario/run.h"
#include "sim/world/fault_command.h"

namespace berth::sim {
namespace {

struct RunCommandOptions {
  std::vector<std::string> files;
  std::string seeds = "1";
  bool expand = false;
  int judge = 0;  ///< Line of the step whose expectation is asked about; 0: none.
};

std::optional<std::string> ReadAll(std::istream& in) {
  if (!in) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(in), {});
}

/// Prints what is wrong with the file itself.
std::optional<scenario::Scenario> Load(const std::string& path, int& exit_code) {
  std::ifstream file(path, std::ios::binary);
  const auto text = ReadAll(file);
  if (!text) {
    fmt::print(stderr, "{}: cannot be read\n", path);
    exit_code = kEnvironment;
    return std::nullopt;
  }
  auto decoded = scenario::Decode(*text, path);
  if (decoded) return *std::move(decoded);
  for (const auto& error : decoded.error()) fmt::print(stderr, "{}\n", error.ToString());
  exit_code = kBadInput;
  return std::nullopt;
}

/// What the expectation at that line says of the observation on standard input.
int JudgeObservation(const scenario::Scenario& scenario, int line) {
  const auto seen = scenario::DecodeObservation(ReadAll(std::cin).value_or(""));
  if (!seen) {
    fmt::print(stderr, "standard input: {}\n", seen.error());
    return kBadInput;
  }
  for (const scenario::Step& step : scenario.steps) {
    const auto* expect = std::get_if<scenario::Expect>(&step.action);
    if (expect == nullptr || step.line != line) continue;
    const auto faults = scenario::Judge(scenario, *expect, *seen);
    for (const std::string& fault : faults) fmt::print("line {}: {}\n", line, fault);
    return faults.empty() ? kFine : kBadInput;
  }
  fmt::print(stderr, "no expectation at line {}\n", line);
  return kUsage;
}

int RunFiles(const RunCommandOptions& options) {
  const auto seeds = ParseSeeds(options.seeds);
  if (!seeds) return kUsage;
  int exit_code = kFine;
  std::size_t passed = 0;
  std::size_t failed = 0;
  for (const std::string& path : options.files) {
    const auto scenario = Load(path, exit_code);
    if (!scenario) {
      ++failed;
      continue;
    }
    if (options.expand) {
      fmt::print("{}\n", scenario::Expand(*scenario).dump());
      return kFine;
    }
    if (options.judge != 0) return JudgeObservation(*scenario, options.judge);
    std::vector<scenario::RunReport> reports(seeds->size());
    ParallelFor(seeds->size(), 0, [&](std::size_t i) {
      reports[i] = scenario::Run(*scenario, {.seed = (*seeds)[i]});
    });
    for (std::size_t i = 0; i < reports.size(); ++i) {
      ++(reports[i].faults.empty() ? passed : failed);
      if (reports[i].faults.empty()) continue;
      exit_code = kBadInput;
      fmt::print("FAILED {} (seed {}): {}\n", path, (*seeds)[i], scenario->proves);
      for (const std::string& fault : reports[i].faults) fmt::print("  {}\n", fault);
      for (const std::string& event : reports[i].last_events) fmt::print("    {}\n", event);
    }
  }
  fmt::print("level scheduler: {} passed, {} failed\n", passed, failed);
  return exit_code;
}

}  // namespace

void AddRunCommand(CLI::App& simulate, std::function<int()>& run) {
  auto options = std::make_shared<RunCommandOptions>();
  CLI::App* command =
      simulate.add_subcommand("run", "scenario files in the simulated world (docs/scenarios.md)");
  command->add_option("FILE", options->files, "scenario files")->required();
  command->add_option("--seeds", options->seeds, "A-B or A,B,C: one run each")
      ->capture_default_str();
  command->add_flag("--expand", options->expand,
                    "print the file's objects and steps as JSON, for another program to carry out");
  command->add_option("--judge", options->judge,
                      "judge the observation on standard input (JSON) by the expectation that "
                      "begins at this line");
  command->callback([options, &run] { run = [options] { return RunFiles(*options); }; });
}

void AddFaultsCommand(CLI::App& simulate, std::function<int()>& run) {
  auto options = std::make_shared<FaultOptions>();
  AddFaultsCommand(simulate, *options)->callback([options, &run] {
    run = [options] { return RunFaults(*options, std::cout); };
  });
}

}  // namespace berth::sim
