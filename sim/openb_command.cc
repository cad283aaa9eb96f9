#include "sim/openb_command.h"

#include <fmt/format.h>

#include <memory>

#include "kube/terminal.h"
#include "sim/experiments/openb_experiment.h"
#include "sim/experiments/openb_variants.h"
#include "sim/options.h"
#include "sim/world/fidelity.h"

namespace berth::sim {
namespace {

struct OpenbOptions {
  CommonOptions common;
  std::string variant = "protocol";
  std::string pods = "all";
  std::string cpu_policy = "LeastAllocated";
  std::vector<std::string> lists{"default"};
  std::vector<std::string> policies;
  std::string against = "FGD";
  std::string plot;
  bool speed_report = false;
};

/// The suffix that PackingResult::policy has after the policy's name.
std::string CpuSuffix(const OpenbOptions& options) {
  return options.pods == "gpu" ? "+" + options.cpu_policy : "";
}

int Print(const OpenbOptions& options, const std::vector<PackingResult>& results) {
  if (!PrintRows(options.common.format, OpenbRows(results))) {
    kube::Write(stdout, fmt::format("experiment openb, variant {}, level {}\n\n{}", options.variant,
                                    Name(Fidelity::kEngine), OpenbTable(results)));
    if (options.policies.size() > 1 && Contains(options.policies, options.against)) {
      kube::Write(stdout,
                  fmt::format("\npaired by seed\n\n{}",
                              DifferenceTable(results, options.against + CpuSuffix(options))));
    }
  }
  if (options.speed_report) {
    // On stderr if the result is machine-readable.
    kube::Write(options.common.format == Format::kTable ? stdout : stderr,
                fmt::format("\n{}", SpeedTable(results)));
  }
  return options.plot.empty() ? kFine : WriteFile(options.plot, OpenbPlot(results));
}

/// `all` means the published ones; no list occurs twice.
std::vector<PodList> ListsOf(const OpenbOptions& options, const std::string& folder) {
  std::vector<PodList> lists;
  const auto add = [&](const std::string& text) {
    const auto list = FindPodList(folder, text);
    if (!list || std::ranges::find(lists, list->path, &PodList::path) != lists.end()) return;
    lists.push_back(*list);
  };
  for (const std::string& text : options.lists) {
    if (text != "all") {
      add(text);
      continue;
    }
    for (const std::string_view name : PublishedLists()) add(std::string(name));
  }
  return lists;
}

int RunOpenb(const OpenbOptions& options) {
  const std::string folder = TraceFolder(options.common.traces, "openb");
  auto nodes = ReadPackingNodes(folder + "/openb_node_list_gpu_node.csv");
  if (!nodes) return Fail(nodes.error());
  const auto policy = ReadPolicy(options.common.policy_file);
  if (!policy) return policy.error();
  OpenbGrid grid{.variant = options.variant,
                 .nodes = std::move(*nodes),
                 .lists = {},
                 .policies = options.policies,
                 .seeds = options.common.seeds,
                 .options = {.cpu_policy = options.pods == "gpu" ? options.cpu_policy : "",
                             .weights = policy->placement.score},
                 .threads = options.common.threads};
  for (const auto& [name, path] : ListsOf(options, folder)) {
    auto pods = ReadTrace(path, &ReadOpenbPods);
    if (!pods) return Fail(pods.error());
    if (const auto arrivals = Arrivals(options.variant, *pods, CapacityMilli(grid.nodes), 0);
        !arrivals) {
      kube::Write(stderr, fmt::format("variant {}, list {}: {}\n", options.variant, name,
                                      arrivals.error()));
      return kBadInput;
    }
    grid.lists.push_back({.name = name, .pods = std::move(*pods)});
  }
  return Print(options, RunGrid(grid));
}

}  // namespace

void AddOpenbCommand(CLI::App& simulate, std::function<int()>& run) {
  auto options = std::make_shared<OpenbOptions>();
  options->policies.assign(PackingPolicies().begin(), PackingPolicies().end());
  CLI::App* command =
      simulate.add_subcommand("openb",
                              "run the packing protocol of \"Beware of Fragmentation\" (ATC 2023) "
                              "on its pod lists, or on yours");
  AddCommonOptions(*command, options->common);
  command
      ->add_option("--list", options->lists,
                   "pod lists: NAME of openb_pod_list_NAME.csv in the folder, a CSV file of that "
                   "format, or all for the 17 published ones (default: default)")
      ->delimiter(',')
      ->check(IsPodList());
  AddNamesOption(*command, "--policy", options->policies, PackingPolicies(),
                 "policies (default: all)");
  const auto choice = [command](const char* name, std::string& value,
                                const std::vector<std::string_view>& allowed, const char* help) {
    command->add_option(name, value, help)
        ->check(CLI::IsMember(std::vector<std::string>(allowed.begin(), allowed.end())))
        ->capture_default_str();
  };
  choice("--variant", options->variant, OpenbVariants(),
         "the published protocol, or a variant of it");
  choice(
      "--pods", options->pods, {"all", "gpu"},
      "gpu: Berth is not called for pods without GPUs; kube-scheduler's own scoring places them");
  choice("--cpu-policy", options->cpu_policy, StockPolicies(), "the scoring that places them");
  AddAgainstOption(*command, options->against);
  command->add_option("--plot", options->plot, "write an SVG plot to this file");
  command->add_flag("--speed-report", options->speed_report, "placements per second, by policy");
  command->callback([options, command, &run] {
    CheckAgainst(*command, options->against, options->policies);
    run = [options] { return RunOpenb(*options); };
  });
}

}  // namespace berth::sim
