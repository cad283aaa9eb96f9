#include "sim/scenario/run.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "cluster/plan_claim.h"
#include "config/decode.h"
#include "kube/decode.h"
#include "sim/checker/processes.h"
#include "sim/scenario/judge.h"
#include "sim/scenario/objects.h"

namespace berth::scenario {
namespace {

using sim::Kind;
using sim::RefOf;

constexpr std::size_t kLogLines = 60;
/// Pause between two steps: only long enough to keep them in order.
constexpr sim::Duration kStepPause = 20;
constexpr sim::Duration kGrace = 1'000;  ///< From a bound pod's deletion to its end.
constexpr sim::Duration kDown = 500;     ///< From kill -9 to the new process.
constexpr sim::Duration kHttpTimeout = 30'000;

/// Without Berth, kube-scheduler has no extender.
sim::SchedulerOptions SchedulerFor(const RunOptions& options) {
  sim::SchedulerOptions scheduler = options.scheduler;
  if (!options.with_berth) scheduler.managed_resources.clear();
  return scheduler;
}

class ScenarioRun {
 public:
  ScenarioRun(const Scenario& scenario, const RunOptions& options)
      : scenario_(scenario),
        options_(options),
        env_(options.seed, sim::kEpoch, kLogLines, options.fidelity),
        processes_(env_, SchedulerFor(options), kHttpTimeout) {
    env_.api.Subscribe(Kind::kPod, life_.alive(), [this] { EndDeleted(); });
    env_.api.PutPolicy(scenario.policy);
    for (const Nodes& nodes : scenario.nodes) Add(nodes);
    if (options.with_berth) processes_.StartBerth();
    StartScheduler();
  }

  RunReport Run() {
    RunReport report;
    Pass(options_.settle);
    for (const Step& step : scenario_.steps) {
      const auto faults = std::visit(*this, step.action);
      for (const std::string& fault : faults) {
        report.faults.push_back(fmt::format("line {}: {}", step.line, fault));
      }
      Pass(kStepPause);
      if (!report.faults.empty() || Broken()) break;
    }
    for (int round = 0; round < options_.quiet_rounds && report.faults.empty(); ++round) {
      const Observation before = Observe();
      Pass(options_.settle);
      for (const std::string& change : Changes(before, Observe())) {
        report.faults.push_back("after the last step: " + change);
      }
    }
    // Final check: a new planner must find nothing to place, and Berth must be up to date.
    const sim::HostDriver* berth = processes_.berth();
    if (report.faults.empty() && !Broken() && berth != nullptr && berth->ready()) {
      processes_.checker().WhenQuiet(*berth);
    }
    if (Broken()) report.faults.push_back(processes_.checker().violation());
    if (!report.faults.empty()) {
      report.last_events = {env_.log.last().begin(), env_.log.last().end()};
    }
    report.attempts = std::move(attempts_);
    report.hash = env_.log.hash();
    return report;
  }

  // --- Steps. Each returns its errors.
  using Faults = std::vector<std::string>;

  Faults operator()(const Create& action) {
    Faults faults;
    for (auto& object : CreateObjects(action)) {
      if (object["kind"] != "Pod") continue;
      object["metadata"]["uid"] = "given by the server";
      auto pod = kube::DecodePod(object.dump(), parser_);
      if (!pod) {
        faults.push_back(pod.error().ToString());
        continue;
      }
      pod->meta.uid.clear();
      const sim::Reply reply = env_.api.CreatePod(*std::move(pod));
      if (!reply.ok()) faults.push_back("creating a pod: " + reply.message);
    }
    return faults;
  }
  Faults operator()(const AddNodes& action) {
    for (const Nodes& nodes : action.nodes) {
      if (options_.join > 0) {
        Nodes joining = nodes;
        joining.taints.push_back({.key = "node.kubernetes.io/not-ready", .value = {}});
        Add(joining);
        Pass(options_.join);
      }
      Add(nodes);
    }
    return {};
  }
  Faults operator()(const Delete& action) {
    return ForEach(action.targets,
                   [this](const engine::PodRef& ref) { return env_.api.DeletePod(ref); });
  }
  Faults operator()(const Finish& action) {
    return ForEach(action.targets, [&](const engine::PodRef& ref) {
      return env_.api.Patch(ref, [&](kube::Pod& pod) {
        pod.phase = action.succeeded ? kube::PodPhase::kSucceeded : kube::PodPhase::kFailed;
        return true;
      });
    });
  }
  Faults operator()(const Ungate& action) {
    return ForEach(action.targets, [this](const engine::PodRef& ref) {
      return env_.api.Patch(ref, [](kube::Pod& pod) {
        return std::erase_if(pod.scheduling_gates, [](const std::string& gate) {
                 return gate != cluster::kAdmissionGate;
               }) > 0;
      });
    });
  }
  Faults operator()(const Cordon& action) {
    return Change(action.nodes, [&](kube::Node& node) { node.unschedulable = action.cordoned; });
  }
  Faults operator()(const RemoveNodes& action) {
    for (const std::string& name : action.nodes) env_.api.DeleteNode(name);
    return {};
  }
  Faults operator()(const SetGpus& action) {
    Faults faults;
    for (const auto& [name, gpus] : action.nodes) {
      const auto more = Change({name}, [gpus = gpus](kube::Node& node) {
        node.allocatable[std::string(kGpu)] = std::int64_t{gpus} * 1000;
      });
      faults.insert(faults.end(), more.begin(), more.end());
    }
    return faults;
  }
  Faults operator()(const SetPolicy& action) {
    const auto policy = config::DecodePolicy(action.yaml, "policy");
    if (!policy) return {policy.error().front().ToString()};
    env_.api.PutPolicy(*policy);
    return {};
  }
  Faults operator()(const Kill& action) {
    if (action.process == Process::kScheduler) {
      StartScheduler();
      return {};
    }
    if (!options_.with_berth) return {};
    processes_.KillBerth();
    Pass(kDown);
    processes_.StartBerth();
    return {};
  }
  Faults operator()(const Wait& action) {
    Pass(action.time.count());
    return {};
  }
  Faults operator()(const Expect& action) {
    Pass(options_.settle);
    return Unmet(scenario_, action, Observe());
  }

 private:
  bool Broken() const { return !processes_.checker().violation().empty(); }
  void Pass(sim::Duration time) { processes_.RunUntil(env_.now() + time); }

  void StartScheduler() {
    processes_.StartScheduler();
    sim::Scheduler& scheduler = processes_.scheduler();
    scheduler.on_attempt = [this](const kube::Pod& pod, const std::string& node,
                                  std::int64_t equals) {
      attempts_.push_back({.pod = pod.meta.name, .node = node, .equals = equals});
    };
    // Sparing gangs is a guarantee of Berth, not of kube-scheduler.
    if (!options_.with_berth) scheduler.on_preemption = nullptr;
  }

  void Add(const Nodes& nodes) {
    for (auto& object : NodeObjects(nodes)) {
      object["metadata"]["uid"] = object["metadata"]["name"];
      if (auto node = kube::DecodeNode(object.dump(), parser_)) env_.api.PutNode(*std::move(node));
    }
  }

  /// Removes a bound pod that was deleted, as a kubelet does.
  void EndDeleted() {
    const sim::Change& change = env_.api.at(Kind::kPod, env_.api.end(Kind::kPod) - 1);
    if (change.deleted || !change.pod->meta.deletion) return;
    env_.timeline.After(kGrace,
                        life_.Guard([this, ref = RefOf(*change.pod)] { env_.api.RemovePod(ref); }));
  }

  template <typename Do>
  Faults ForEach(const std::vector<std::string>& targets, Do what) {
    Faults faults;
    for (const std::string& target : targets) {
      for (const auto& [ns, name] : scenario_.Pods(target)) {
        if (!env_.api.pods().contains(ns + "/" + name)) continue;  // has ended before
        const sim::Reply reply = what(engine::PodRef{.ns = ns, .name = name, .uid = {}});
        if (!reply.ok()) faults.push_back(fmt::format("{}/{}: {}", ns, name, reply.message));
      }
    }
    return faults;
  }

  template <typename Edit>
  Faults Change(const std::vector<std::string>& names, Edit edit) {
    Faults faults;
    for (const std::string& name : names) {
      const auto at = env_.api.nodes().find(name);
      if (at == env_.api.nodes().end()) {
        faults.push_back("no such node: " + name);
        continue;
      }
      kube::Node node = *at->second;
      edit(node);
      env_.api.PutNode(std::move(node));
    }
    return faults;
  }

  Observation Observe() const {
    Observation seen;
    const sim::HostDriver* berth = processes_.berth();
    for (const auto& [name, node] : env_.api.nodes()) {
      seen.nodes.push_back({.name = name, .labels = node->meta.labels});
    }
    for (const auto& [key, pod] : env_.api.pods()) {
      const auto gpus = pod->spec->requests.find(std::string(kGpu));
      SeenPod& one = seen.pods.emplace_back();
      one.ns = pod->meta.ns;
      one.name = pod->meta.name;
      one.node = pod->node_name;
      one.gated = std::ranges::find(pod->scheduling_gates, cluster::kAdmissionGate) !=
                  pod->scheduling_gates.end();
      one.unschedulable = one.node.empty() && pod->pod_scheduled && !pod->pod_scheduled->status &&
                          pod->pod_scheduled->reason == "Unschedulable";
      one.finished =
          pod->phase == kube::PodPhase::kSucceeded || pod->phase == kube::PodPhase::kFailed;
      one.gpus = gpus == pod->spec->requests.end() ? 0 : static_cast<int>(gpus->second / 1000);
      if (one.node.empty() && berth != nullptr && berth->ready()) {
        one.reason =
            cluster::Token(berth->engine().Why(one.ns, one.name, env_.now()).verdict.reason);
      }
    }
    return seen;
  }

  const Scenario& scenario_;
  const RunOptions options_;
  sim::Environment env_;
  sim::Processes processes_;
  sim::Life life_;
  std::vector<Attempt> attempts_;
  simdjson::dom::parser parser_;
};

}  // namespace

RunReport Run(const Scenario& scenario, const RunOptions& options) {
  return ScenarioRun(scenario, options).Run();
}

}  // namespace berth::scenario
