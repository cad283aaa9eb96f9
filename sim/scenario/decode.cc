#include "config/decode.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "config/scalars.h"
#include "config/strict_reader.h"
#include "kube/quantity.h"
#include "sim/scenario/scenario.h"

namespace berth::scenario {
namespace {

using config::Entry;
using config::ErrorSink;
using config::Fields;
using config::Located;
using config::Quote;

constexpr std::array<std::string_view, 7> kTopKeys{"apiVersion", "kind",  "proves", "area",
                                                   "policy",     "nodes", "steps"};
constexpr std::array<std::string_view, 5> kAreas{"gang", "quota", "fragmentation", "topology",
                                                 "restart"};
constexpr std::array<std::string_view, 9> kNodeKeys{
    "name", "count", "gpus", "cpu", "memory", "perRack", "racksPerBlock", "labels", "taints"};
constexpr std::array<std::string_view, 3> kTaintKeys{"key", "value", "effect"};
constexpr std::array<std::string_view, 3> kEffects{"NoSchedule", "PreferNoSchedule", "NoExecute"};
constexpr std::array<std::string_view, 24> kWorkloadKeys{
    "name",     "pods",      "gang",         "size",        "min",       "launchers",
    "first",    "gpus",      "cpu",          "memory",      "namespace", "queue",
    "priority", "gated",     "gate",         "wholeNode",   "required",  "preferred",
    "node",     "scheduler", "nodeSelector", "tolerations", "apart",     "annotations"};
constexpr std::array<std::string_view, 7> kExpectKeys{"bound",   "waiting", "gated", "nodes",
                                                      "domains", "on",      "reason"};
constexpr std::array<std::string_view, 2> kProcesses{"berth", "scheduler"};
constexpr std::array<std::string_view, 2> kBooleans{"false", "true"};
constexpr std::array<std::string_view, 15> kStepKeys{
    "create",      "nodes",   "delete", "succeed", "fail", "ungate", "cordon",   "uncordon",
    "removeNodes", "setGpus", "policy", "kill",    "wait", "expect", "freeNodes"};

constexpr std::array<MappingKeys, 6> kAllKeys{{{"scenario", kTopKeys},
                                               {"nodes", kNodeKeys},
                                               {"taint", kTaintKeys},
                                               {"step", kStepKeys},
                                               {"workload", kWorkloadKeys},
                                               {"expectation", kExpectKeys}}};

/// Reads one file; errors are collected in the sink.
class Reader {
 public:
  explicit Reader(ErrorSink& sink, std::string_view file_name)
      : sink_(sink), file_name_(file_name) {}

  Scenario Read(const Located& root) {
    Scenario scenario;
    Fields fields(sink_, root, kTopKeys);
    Header(fields);
    if (const auto at = fields.Require("proves")) Text(*at, scenario.proves);
    if (const auto at = fields.Require("area")) {
      if (const auto area = ReadOneOf(sink_, *at, kAreas)) scenario.area = kAreas[*area];
    }
    if (const auto at = fields.Find("policy")) {
      Policy(*at, scenario.policy_yaml, scenario.policy);
    } else {
      scenario.policy_yaml = config::EncodePolicy(scenario.policy);
    }
    if (const auto at = fields.Require("nodes")) scenario.nodes = AllNodes(*at);
    if (const auto at = fields.Require("steps")) Steps(*at, scenario);
    return scenario;
  }

 private:
  void Header(Fields& fields) {
    const auto must_be = [&](std::string_view key, std::string_view wanted) {
      const auto at = fields.Require(key);
      if (!at) return;
      std::string text;
      Text(*at, text);
      if (text != wanted) Error(*at, fmt::format("must be {}", wanted));
    };
    must_be("apiVersion", config::kPolicyApiVersion);
    must_be("kind", "Scenario");
  }

  void Error(const Located& at, std::string message) {
    sink_.Add(*at.node, at.path, std::move(message));
  }
  void Text(const Located& at, std::string& target) {
    if (auto text = ReadText(sink_, at)) target = *std::move(text);
  }
  void Name(const Located& at, std::string& target) {
    Text(at, target);
    if (!config::IsDnsSubdomain(target)) Error(at, "must be a DNS name, is " + Quote(target));
  }
  void Number(const Located& at, int& target, int min, int max) {
    if (const auto value = ReadInteger(sink_, at, min, max)) target = static_cast<int>(*value);
  }
  void Number(const Located& at, std::optional<int>& target) {
    int value = 0;
    Number(at, value, 0, kMaxPods);
    target = value;
  }
  void Bool(const Located& at, bool& target) {
    if (const auto value = ReadOneOf(sink_, at, kBooleans)) target = *value == 1;
  }
  void Amount(const Located& at, std::string_view resource, std::string& target) {
    Request(at, resource, target);
    if (target.empty()) Error(at, "not a quantity: " + Quote(target));
  }
  /// An empty value means no request.
  void Request(const Located& at, std::string_view resource, std::string& target) {
    Text(at, target);
    if (target.empty() || kube::ParseFor(resource, target)) return;
    Error(at, "not a quantity: " + Quote(target));
  }
  void Strings(const Located& at, kube::StringMap& target) {
    for (const Entry& entry : ReadEntries(sink_, at)) Text(entry.value, target[entry.key]);
  }
  /// A list of names, or one name.
  std::vector<std::string> Names(const Located& at) {
    std::vector<std::string> names;
    if (at.node->kind == config::YamlKind::kScalar) {
      Text(at, names.emplace_back());
      return names;
    }
    for (const Located& element : ReadList(sink_, at).value_or(std::vector<Located>{})) {
      Text(element, names.emplace_back());
    }
    return names;
  }
  /// The elements of a list, or the one mapping itself.
  std::vector<Located> OneOrMore(const Located& at) {
    if (at.node->kind == config::YamlKind::kMapping) return {at};
    return ReadList(sink_, at).value_or(std::vector<Located>{});
  }

  /// A policy file as text; its two header lines may be left out.
  void Policy(const Located& at, std::string& yaml, config::PolicyConfiguration& policy) {
    Text(at, yaml);
    if (yaml.find("apiVersion:") == std::string::npos) {
      yaml = fmt::format("apiVersion: {}\nkind: {}\n{}", config::kPolicyApiVersion,
                         config::kPolicyKind, yaml);
    }
    if (auto decoded = config::DecodePolicy(yaml, file_name_)) {
      policy = *std::move(decoded);
    } else {
      for (const auto& error : decoded.error()) Error(at, error.path + ": " + error.message);
    }
  }

  std::vector<Nodes> AllNodes(const Located& at) {
    std::vector<Nodes> all;
    int total = 0;
    for (const Located& element : OneOrMore(at)) {
      all.push_back(OneNodes(element));
      total += all.back().count;
    }
    if (total > kMaxNodes) Error(at, fmt::format("at most {} nodes", kMaxNodes));
    return all;
  }

  Nodes OneNodes(const Located& at) {
    Nodes nodes;
    Fields fields(sink_, at, kNodeKeys);
    if (const auto v = fields.Require("name")) Name(*v, nodes.name);
    if (const auto v = fields.Find("count")) Number(*v, nodes.count, 1, kMaxNodes);
    if (const auto v = fields.Find("gpus")) Number(*v, nodes.gpus, 0, 16);
    if (const auto v = fields.Find("cpu")) Amount(*v, "cpu", nodes.cpu);
    if (const auto v = fields.Find("memory")) Amount(*v, "memory", nodes.memory);
    if (const auto v = fields.Find("perRack")) Number(*v, nodes.per_rack, 1, kMaxNodes);
    if (const auto v = fields.Find("racksPerBlock")) {
      Number(*v, nodes.racks_per_block, 1, kMaxNodes);
    }
    if (const auto v = fields.Find("labels")) Strings(*v, nodes.labels);
    if (const auto v = fields.Find("taints")) {
      for (const Located& taint : ReadList(sink_, *v).value_or(std::vector<Located>{})) {
        nodes.taints.push_back(OneTaint(taint));
      }
    }
    return nodes;
  }

  kube::Taint OneTaint(const Located& at) {
    kube::Taint taint;
    Fields fields(sink_, at, kTaintKeys);
    if (const auto v = fields.Require("key")) Text(*v, taint.key);
    if (const auto v = fields.Find("value")) Text(*v, taint.value);
    if (const auto v = fields.Require("effect")) {
      constexpr std::array kValues{kube::TaintEffect::kNoSchedule,
                                   kube::TaintEffect::kPreferNoSchedule,
                                   kube::TaintEffect::kNoExecute};
      if (const auto effect = ReadOneOf(sink_, *v, kEffects)) taint.effect = kValues[*effect];
    }
    return taint;
  }

  Workload OneWorkload(const Located& at) {
    Workload w;
    Fields fields(sink_, at, kWorkloadKeys);
    const auto with = [&](std::string_view key, auto read) {
      if (const auto value = fields.Find(key)) read(*value);
    };
    if (const auto v = fields.Require("name")) Name(*v, w.name);
    with("pods", [&](const Located& v) { Number(v, w.pods, 1, kMaxPods); });
    with("gang", [&](const Located& v) { Bool(v, w.gang); });
    with("size", [&](const Located& v) { Number(v, w.size, 1, kMaxPods); });
    with("min", [&](const Located& v) { Number(v, w.min, 1, kMaxPods); });
    with("launchers", [&](const Located& v) { Number(v, w.launchers, 0, kMaxPods); });
    with("first", [&](const Located& v) { Number(v, w.first, 0, kMaxPods); });
    with("gpus", [&](const Located& v) { Number(v, w.gpus, 0, 16); });
    with("cpu", [&](const Located& v) { Request(v, "cpu", w.cpu); });
    with("memory", [&](const Located& v) { Request(v, "memory", w.memory); });
    with("namespace", [&](const Located& v) { Name(v, w.ns); });
    with("queue", [&](const Located& v) { Text(v, w.queue); });
    with("priority", [&](const Located& v) { Number(v, w.priority, 0, 1'000'000); });
    with("gated", [&](const Located& v) { Bool(v, w.gated); });
    with("gate", [&](const Located& v) { Text(v, w.foreign_gate); });
    with("wholeNode", [&](const Located& v) { Bool(v, w.whole_node); });
    with("required", [&](const Located& v) { Text(v, w.required); });
    with("preferred", [&](const Located& v) { Text(v, w.preferred); });
    with("node", [&](const Located& v) { Text(v, w.node); });
    with("scheduler", [&](const Located& v) { Text(v, w.scheduler); });
    with("nodeSelector", [&](const Located& v) { Strings(v, w.node_selector); });
    with("tolerations", [&](const Located& v) { w.tolerations = Names(v); });
    with("apart", [&](const Located& v) { Bool(v, w.apart); });
    with("annotations", [&](const Located& v) { Strings(v, w.annotations); });
    if (!w.gang && (w.size != 0 || w.min != 0 || w.launchers != 0)) {
      Error(at, "size, min and launchers are a gang's: add gang: true");
    }
    return w;
  }

  WorkloadExpectation OneExpectation(const Located& at) {
    WorkloadExpectation e;
    Fields fields(sink_, at, kExpectKeys);
    if (const auto v = fields.Find("bound")) Number(*v, e.bound);
    if (const auto v = fields.Find("waiting")) Number(*v, e.waiting);
    if (const auto v = fields.Find("gated")) Number(*v, e.gated);
    if (const auto v = fields.Find("nodes")) Number(*v, e.nodes);
    if (const auto v = fields.Find("on")) e.on = Names(*v);
    if (const auto v = fields.Find("reason")) Text(*v, e.reason);
    if (const auto v = fields.Find("domains")) {
      for (const Entry& entry : ReadEntries(sink_, *v)) {
        Number(entry.value, e.domains[entry.key], 0, kMaxNodes);
      }
    }
    return e;
  }

  Action ReadAction(std::string_view key, const Located& at) {
    if (key == "create") {
      Create create;
      for (const Located& element : OneOrMore(at)) create.workloads.push_back(OneWorkload(element));
      return create;
    }
    if (key == "nodes") return AddNodes{AllNodes(at)};
    if (key == "delete") return Delete{Names(at)};
    if (key == "succeed" || key == "fail") return Finish{Names(at), key == "succeed"};
    if (key == "ungate") return Ungate{Names(at)};
    if (key == "cordon" || key == "uncordon") return Cordon{Names(at), key == "cordon"};
    if (key == "removeNodes") return RemoveNodes{Names(at)};
    if (key == "setGpus") {
      SetGpus set;
      for (const Entry& entry : ReadEntries(sink_, at)) {
        Number(entry.value, set.nodes[entry.key], 0, 16);
      }
      return set;
    }
    if (key == "policy") {
      SetPolicy set;
      config::PolicyConfiguration checked;
      Policy(at, set.yaml, checked);
      return set;
    }
    if (key == "kill") {
      const auto process = ReadOneOf(sink_, at, kProcesses);
      return Kill{process.value_or(0) == 0 ? Process::kBerth : Process::kScheduler};
    }
    if (key == "wait") {
      using std::chrono::milliseconds;
      return Wait{ReadDuration(sink_, at, milliseconds(1), std::chrono::minutes(60))
                      .value_or(milliseconds(0))};
    }
    Expect expect;
    if (key == "freeNodes") {
      Number(at, expect.free_nodes);
    } else {
      for (const Entry& entry : ReadEntries(sink_, at)) {
        expect.workloads.emplace(entry.key, OneExpectation(entry.value));
      }
    }
    return expect;
  }

  void Steps(const Located& at, Scenario& scenario) {
    int pods = 0;
    bool expects = false;
    for (const Located& element : ReadList(sink_, at).value_or(std::vector<Located>{})) {
      const std::vector<Entry> entries = ReadEntries(sink_, element);
      if (entries.size() != 1) {
        Error(element, "a step has exactly one key");
        continue;
      }
      const Entry& entry = entries.front();
      const Fields known(sink_, element, kStepKeys);
      if (!known.Find(entry.key)) continue;
      Step step{.line = element.node->line,
                .key = entry.key,
                .action = ReadAction(entry.key, entry.value)};
      if (const auto* create = std::get_if<Create>(&step.action)) {
        for (const Workload& w : create->workloads) pods += w.pods;
      }
      expects = expects || std::holds_alternative<Expect>(step.action);
      scenario.steps.push_back(std::move(step));
      CheckTargets(element, scenario);
    }
    if (pods > kMaxPods) Error(at, fmt::format("at most {} pods", kMaxPods));
    if (!expects) Error(at, "expects nothing: add an expect step");
  }

  /// A misspelt name would give a step that does nothing, or an expectation that always holds.
  void CheckTargets(const Located& at, const Scenario& scenario) {
    const Action& action = scenario.steps.back().action;
    const auto check = [&](const std::string& target) {
      if (scenario.Pods(target).empty()) {
        Error(at, "no workload or pod of this name was created before: " + Quote(target));
      }
    };
    if (const auto* a = std::get_if<Delete>(&action)) std::ranges::for_each(a->targets, check);
    if (const auto* a = std::get_if<Finish>(&action)) std::ranges::for_each(a->targets, check);
    if (const auto* a = std::get_if<Ungate>(&action)) std::ranges::for_each(a->targets, check);
    if (const auto* a = std::get_if<Expect>(&action)) {
      for (const auto& [name, expectation] : a->workloads) check(name);
    }
  }

  ErrorSink& sink_;
  std::string_view file_name_;
};

}  // namespace

std::vector<std::string> Workload::PodNames() const {
  if (pods == 1 && !gang && first == 0) return {name};
  std::vector<std::string> names;
  for (int i = first; i < first + pods; ++i) names.push_back(fmt::format("{}-{}", name, i));
  return names;
}

const Workload* Scenario::Find(std::string_view name) const {
  for (const Step& step : steps) {
    const auto* create = std::get_if<Create>(&step.action);
    if (create == nullptr) continue;
    for (const Workload& w : create->workloads) {
      if (w.name == name) return &w;
    }
  }
  return nullptr;
}

std::vector<std::pair<std::string, std::string>> Scenario::Pods(std::string_view target) const {
  std::set<std::pair<std::string, std::string>> pods;
  for (const Step& step : steps) {
    const auto* create = std::get_if<Create>(&step.action);
    if (create == nullptr) continue;
    for (const Workload& w : create->workloads) {
      for (std::string& pod : w.PodNames()) {
        if (w.name == target || pod == target) pods.emplace(w.ns, std::move(pod));
      }
    }
  }
  return {pods.begin(), pods.end()};
}

std::span<const MappingKeys> AllKeys() { return kAllKeys; }

std::expected<Scenario, std::vector<config::Diagnostic>> Decode(std::string_view yaml,
                                                                std::string_view file_name) {
  const auto documents = config::ReadYaml(yaml, file_name);
  if (!documents) return std::unexpected(documents.error());
  ErrorSink sink(file_name);
  if (documents->size() != 1) {
    sink.Add(config::YamlNode{}, "", "a scenario file holds exactly one document");
    return std::unexpected(std::move(sink).Take());
  }
  Scenario scenario = Reader(sink, file_name).Read({.node = &documents->front(), .path = ""});
  if (!sink.empty()) return std::unexpected(std::move(sink).Take());
  return scenario;
}

}  // namespace berth::scenario
