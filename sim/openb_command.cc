#include "sim/openb_command.h"

#include <fmt/format.h>

#include <memory>

#include "sim/openb_experiment.h"
#include "sim/openb_variants.h"
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

/// What PackingResult::policy has after the policy's own name.
std::string CpuSuffix(const OpenbOptions& options) {
  return options.pods == "gpu" ? "+" + options.cpu_policy : "";
}

int Print(const OpenbOptions& options, const std::vector<PackingResult>& results) {
  if (!PrintRows(options.common.format, OpenbRows(results))) {
    fmt::print("experiment openb, variant {}, level {}\n\n{}", options.variant,
               Name(Fidelity::kEngine), OpenbTable(results));
    if (options.policies.size() > 1 && Contains(options.policies, options.against)) {
      fmt::print("\npaired by seed\n\n{}",
                 DifferenceTable(results, options.against + CpuSuffix(options)));
    }
  }
  if (options.speed_report) {
    // Beside the result, which stays readable by machines.
    fmt::print(options.common.format == Format::kTable ? stdout : stderr, "\n{}",
               SpeedTable(results));
  }
  return options.plot.empty() ? kFine : WriteFile(options.plot, OpenbPlot(results));
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
  for (const std::string& name : options.lists) {
    auto pods = ReadTrace(folder + "/openb_pod_list_" + name + ".csv", &ReadOpenbPods);
    if (!pods) return Fail(pods.error());
    if (const auto arrivals = Arrivals(options.variant, *pods, CapacityMilli(grid.nodes), 0);
        !arrivals) {
      fmt::print(stderr, "variant {}, list {}: {}\n", options.variant, name, arrivals.error());
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
  CLI::App* command = simulate.add_subcommand(
      "openb",
      "the packing protocol of \"Beware of Fragmentation\" (ATC 2023) on its 17 pod lists");
  AddCommonOptions(*command, options->common);
  AddNamesOption(*command, "--list", options->lists, PublishedLists(),
                 "pod lists (default: default)");
  AddNamesOption(*command, "--policy", options->policies, PackingPolicies(),
                 "policies (default: all)");
  const auto choice = [command](const char* name, std::string& value,
                                const std::vector<std::string_view>& allowed, const char* help) {
    command->add_option(name, value, help)
        ->check(CLI::IsMember(std::vector<std::string>(allowed.begin(), allowed.end())))
        ->capture_default_str();
  };
  choice("--variant", options->variant, OpenbVariants(), "the protocol, or what lies beyond it");
  choice("--pods", options->pods, {"all", "gpu"},
         "gpu: pods without GPUs never ask us, kube-scheduler's own scoring places them");
  choice("--cpu-policy", options->cpu_policy, StockPolicies(), "which scoring that is");
  AddAgainstOption(*command, options->against);
  command->add_option("--plot", options->plot, "write an SVG plot to this file");
  command->add_flag("--speed-report", options->speed_report, "placements per second, by policy");
  command->callback([options, command, &run] {
    CheckAgainst(*command, options->against, options->policies);
    run = [options] { return RunOpenb(*options); };
  });
}

}  // namespace berth::sim
