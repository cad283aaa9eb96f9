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
#include <string_view>
#include <vector>

#include "kube/terminal.h"
#include "sim/experiments/parallel.h"
#include "sim/faults/fault_command.h"
#include "sim/options.h"
#include "sim/scenario/judge.h"
#include "sim/scenario/objects.h"
#include "sim/scenario/run.h"
#include "sim/scenario/variants.h"
#include "sim/world/fidelity_option.h"

namespace berth::sim {
namespace {

struct RunCommandOptions {
  std::vector<std::string> files;
  std::string seeds = "1";
  Fidelity fidelity = Fidelity::kScheduler;
  bool schema = false;
  bool expand = false;
  std::vector<scenario::Variant> variants;  ///< Empty: the files as they are.
  int judge = 0;  ///< Line of the step whose expectation is judged; 0: none.
};

/// Prints the errors of the file itself. The error is the exit code.
std::expected<scenario::Scenario, int> Load(const std::string& path) {
  const auto text = ReadInputFile(path);
  if (!text) return std::unexpected(Fail(text.error()));
  auto decoded = scenario::Decode(*text, path);
  if (decoded) return *std::move(decoded);
  for (const auto& error : decoded.error())
    kube::Write(stderr, fmt::format("{}\n", error.ToString()));
  return std::unexpected(kBadInput);
}

/// Reads at most kMaxFileBytes; longer input is truncated, and is then not valid JSON.
std::string ReadStandardInput() {
  std::string text;
  std::array<char, 65536> buffer{};
  while (text.size() < kMaxFileBytes && std::cin.read(buffer.data(), buffer.size()).gcount() > 0) {
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

/// What became of the runs of one variant, or of the files as they are.
struct Tally {
  std::string_view variant{};  ///< Empty: the files as they are.
  std::size_t runs = 0;
  std::size_t failed = 0;
  std::size_t not_applicable = 0;  ///< Files, not runs.
};

/// Runs one file with every seed and prints those that failed.
void RunSeeds(const scenario::Scenario& scenario, std::string_view title,
              const std::vector<std::uint64_t>& seeds, Fidelity fidelity, Tally& tally) {
  std::vector<scenario::RunReport> reports(seeds.size());
  ParallelFor(seeds.size(), 0, [&](std::size_t i) {
    reports[i] = scenario::Run(scenario, {.fidelity = fidelity, .seed = seeds[i]});
  });
  tally.runs += reports.size();
  for (std::size_t i = 0; i < reports.size(); ++i) {
    if (reports[i].faults.empty()) continue;
    ++tally.failed;
    kube::Write(stdout, fmt::format("FAILED {} (seed {}): {}\n", title, seeds[i], scenario.proves));
    for (const std::string& fault : reports[i].faults)
      kube::Write(stdout, fmt::format("  {}\n", fault));
    for (const std::string& event : reports[i].last_events)
      kube::Write(stdout, fmt::format("    {}\n", event));
  }
}

/// The scenario of a file, or that variant of it. The error is the exit code.
std::expected<scenario::Scenario, int> LoadOne(const std::string& path,
                                               const std::vector<scenario::Variant>& variants) {
  auto scenario = Load(path);
  if (!scenario || variants.empty()) return scenario;
  auto varied = variants.front().make(*scenario);
  if (varied) return *std::move(varied);
  kube::Write(stderr, fmt::format("{}, {}: {}\n", path, variants.front().name, varied.error()));
  return std::unexpected(kBadInput);
}

/// --expand and --judge, of one file.
int Answer(const RunCommandOptions& options, const std::vector<scenario::Variant>& variants) {
  const auto scenario = LoadOne(options.files.front(), variants);
  if (!scenario) return scenario.error();
  if (!options.expand) return JudgeObservation(*scenario, options.judge);
  kube::Write(stdout, fmt::format("{}\n", scenario::Expand(*scenario).dump()));
  return kFine;
}

void RunVariants(const scenario::Scenario& scenario, const std::string& path,
                 const std::vector<std::uint64_t>& seeds, Fidelity fidelity,
                 const std::vector<scenario::Variant>& variants, std::vector<Tally>& tallies) {
  for (std::size_t i = 0; i < variants.size(); ++i) {
    const scenario::Variant& variant = variants[i];
    const auto varied = variant.make(scenario);
    if (varied) {
      RunSeeds(*varied, fmt::format("{}, {}", path, variant.name), seeds, fidelity, tallies[i]);
      continue;
    }
    ++tallies[i].not_applicable;
    kube::Write(stdout,
                fmt::format("not applicable: {}, {}: {}\n", path, variant.name, varied.error()));
  }
}

void PrintTallies(const std::vector<Tally>& tallies, Fidelity fidelity) {
  for (const Tally& tally : tallies) {
    const std::string counts = fmt::format("level {}: {} passed, {} failed", Name(fidelity),
                                           tally.runs - tally.failed, tally.failed);
    kube::Write(stdout, tally.variant.empty()
                            ? counts + "\n"
                            : fmt::format("{}: {}, not applicable to {} files\n", tally.variant,
                                          counts, tally.not_applicable));
  }
}

int RunFiles(const RunCommandOptions& options) {
  if (options.schema) {
    kube::Write(stdout, scenario::Schema());
    return kFine;
  }
  const auto seeds = ParseSeeds(options.seeds);
  if (!seeds) {
    kube::Write(
        stderr,
        fmt::format("--seeds: `{}` is not a range A-B or list A,B,C of at most 10,000 seeds\n",
                    options.seeds));
    return kUsage;
  }
  const auto& variants = options.variants;
  if (options.expand || options.judge != 0) return Answer(options, variants);
  std::vector<Tally> tallies(std::max<std::size_t>(variants.size(), 1));
  for (std::size_t i = 0; i < variants.size(); ++i) tallies[i].variant = variants[i].name;
  int code = kFine;
  for (const std::string& path : options.files) {
    const auto scenario = Load(path);
    if (!scenario) {
      code = std::max(code, scenario.error());
      ++tallies.front().runs;
      ++tallies.front().failed;
    } else if (variants.empty()) {
      RunSeeds(*scenario, path, *seeds, options.fidelity, tallies.front());
    } else {
      RunVariants(*scenario, path, *seeds, options.fidelity, variants, tallies);
    }
  }
  PrintTallies(tallies, options.fidelity);
  const bool failed = std::ranges::any_of(tallies, [](const Tally& t) { return t.failed > 0; });
  return failed ? std::max(code, kBadInput) : kFine;
}

std::string NoVariant(const std::string& name) {
  std::string known;
  for (const scenario::Variant& variant : scenario::Variants()) {
    known += fmt::format(", {}", variant.name);
  }
  return fmt::format("no variant {}: all{}", name, known);
}

}  // namespace

void AddRunCommand(CLI::App& simulate, std::function<int()>& run) {
  auto options = std::make_shared<RunCommandOptions>();
  CLI::App* command = simulate.add_subcommand(
      "run", "run scenario files in the simulated cluster (docs/scenarios.md)");
  CLI::Option* files = command->add_option("FILE", options->files, "scenario files");
  command->add_option("--seeds", options->seeds, "A-B or A,B,C: one run each")
      ->capture_default_str();
  AddWireOption(*command, options->fidelity);
  CLI::Option* variants = command->add_option_function<std::string>(
      "--variants",
      [options](const std::string& list) {
        auto chosen = scenario::ParseVariants(list);
        if (!chosen) throw CLI::ValidationError("--variants", NoVariant(chosen.error()));
        options->variants = *std::move(chosen);
      },
      "all, or NAME,NAME: also run the files with changes that must not change the result");
  command
      ->add_flag("--schema", options->schema,
                 "only print the JSON schema of scenario files, for editors")
      ->excludes(files)
      ->excludes(variants);
  command->add_flag("--expand", options->expand,
                    "print the file's objects and steps as JSON, for another program to carry out");
  command
      ->add_option("--judge", options->judge,
                   "compare the observation on standard input (JSON) with the expectation that "
                   "begins at this line")
      ->check(CLI::Range(1, std::numeric_limits<int>::max()));
  command->callback([options, &run] {
    if (options->files.empty() && !options->schema) throw CLI::RequiredError("FILE");
    if ((options->expand || options->judge != 0) && options->files.size() > 1) {
      throw CLI::ValidationError("--expand, --judge", "needs exactly one file");
    }
    if ((options->expand || options->judge != 0) && options->variants.size() > 1) {
      throw CLI::ValidationError("--expand, --judge", "needs exactly one variant");
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
