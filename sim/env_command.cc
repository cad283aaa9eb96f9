#include "sim/env_command.h"

#include <fmt/format.h>

#include <array>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "kube/terminal.h"
#include "sim/options.h"

namespace berth::sim {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr std::size_t kMaxCommandBytes = 4096;

Json Hello(const PackingEnv& env) {
  return {{"environment", "openb"},
          {"v", kVersion},
          {"nodes", env.nodes().size()},
          {"models", env.models()},
          {"pod_features", PackingEnv::kPodFeatures},
          {"pod_most", env.PodMost()},
          {"node_features", PackingEnv::kNodeFeatures},
          {"node_most", env.NodeMost()}};
}

Json Info(PackingEnv& env) {
  Json info{{"arrived_percent", env.arrived_percent()},
            {"allocated_percent", env.allocated_percent()},
            {"fragment_percent", env.fragment_percent()},
            {"dropped_percent", env.dropped_percent()}};
  if (env.pod() != nullptr) {
    info["pod"] = env.pod()->name;
    info["berth_action"] = env.BerthChoice();
  }
  if (env.done()) {
    const auto unallocated = env.UnallocatedPercent();
    info["unallocated_percent"] = unallocated ? Json(*unallocated) : Json();
  }
  return info;
}

/// What a caller observes, except the nodes.
Json Observation(PackingEnv& env) {
  std::string mask(env.nodes().size(), '0');
  for (std::size_t i = 0; i < env.mask().size(); ++i) {
    if (env.mask()[i]) mask[i] = '1';
  }
  return {{"pod", env.PodFeatures()}, {"mask", mask}, {"info", Info(env)}};
}

Json Reset(PackingEnv& env, std::uint64_t seed) {
  env.Reset(seed);
  Json answer = Observation(env);
  Json& nodes = answer["nodes"] = Json::array();
  for (std::size_t i = 0; i < env.nodes().size(); ++i) nodes.push_back(env.NodeFeatures(i));
  return answer;
}

Json Step(PackingEnv& env, std::int64_t node) {
  const PackingEnv::Result result = env.Step(node);
  Json answer = Observation(env);
  answer["reward"] = result.reward;
  answer["terminated"] = result.done;
  Json& changed = answer["changed"] = Json::object();
  for (const std::size_t i : env.changed()) changed[std::to_string(i)] = env.NodeFeatures(i);
  return answer;
}

Json Answer(PackingEnv& env, std::string_view line) {
  const auto error = [](const char* text) { return Json{{"error", text}}; };
  const Json command = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!command.is_object() || command.size() != 1) {
    return error("not {\"reset\":SEED} or {\"step\":NODE}");
  }
  const std::string& key = command.begin().key();
  const Json& value = command.begin().value();
  if (key == "reset") {
    if (!value.is_number_unsigned()) return error("reset: the seed is no number from 0 up");
    return Reset(env, value.get<std::uint64_t>());
  }
  if (key != "step") return error("neither reset nor step");
  if (!value.is_number_integer()) return error("step: not the number of a node");
  if (env.done()) return error("step: no episode is under way; reset first");
  return Step(env, value.get<std::int64_t>());
}

struct EnvOptions {
  CommonOptions common;
  std::string list = "default";
};

int RunEnv(const EnvOptions& options) {
  const std::string folder = TraceFolder(options.common.traces, "openb");
  auto nodes = ReadPackingNodes(folder + "/openb_node_list_gpu_node.csv");
  if (!nodes) return Fail(nodes.error());
  const auto file = FindPodList(folder, options.list);
  if (!file) return kUsage;
  auto pods = ReadTrace(file->path, &ReadOpenbPods);
  if (!pods) return Fail(pods.error());
  const auto policy = ReadPolicy(options.common.policy_file);
  if (!policy) return policy.error();
  OpenbList list{.name = file->name, .pods = std::move(*pods)};
  if (const auto problem = PackingEnv::Problem(*nodes, list); !problem.empty()) {
    kube::Write(stderr, fmt::format("{}: {}\n", folder, problem));
    return kBadInput;
  }
  PackingEnv env(std::move(*nodes), std::move(list), policy->placement.score);
  return ServeEnv(env, std::cin, std::cout);
}

}  // namespace

int ServeEnv(PackingEnv& env, std::istream& in, std::ostream& out) {
  out << Hello(env).dump() << std::endl;
  std::array<char, kMaxCommandBytes> line{};
  while (in.getline(line.data(), line.size())) {
    out << Answer(env, line.data()).dump() << std::endl;
  }
  if (in.gcount() + 1 < static_cast<std::streamsize>(line.size())) return kFine;
  out << Json{{"error", "the line is too long"}}.dump() << std::endl;
  return kBadInput;
}

void AddEnvCommand(CLI::App& simulate, std::function<int()>& run) {
  auto options = std::make_shared<EnvOptions>();
  CLI::App* command = simulate.add_subcommand(
      "env",
      "run openb one decision at a time over JSON lines, to train policies (docs/simulator.md)");
  command->add_option("--traces", options->common.traces, "folder with the trace files")
      ->required();
  command
      ->add_option("--list", options->list,
                   "pod list: NAME of openb_pod_list_NAME.csv in the folder, or a CSV file")
      ->check(IsPodList())
      ->capture_default_str();
  command->add_option("--policy-file", options->common.policy_file,
                      "policy file whose placement.score Berth's own choice uses");
  command->callback([options, &run] { run = [options] { return RunEnv(*options); }; });
}

}  // namespace berth::sim
