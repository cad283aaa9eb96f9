#include "config/decode.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <type_traits>
#include <utility>

#include "config/scalars.h"
#include "config/strict_reader.h"
#include "kube/quantity.h"
#include "sim/scenario/keys.h"
#include "sim/scenario/scenario.h"

namespace berth::scenario {
namespace {

using config::Entry;
using config::ErrorSink;
using config::Fields;
using config::Located;
using config::Quote;

constexpr std::array<std::string_view, 2> kBooleans{"false", "true"};

/// Reads one file; errors are collected in the sink.
class Reader {
 public:
  explicit Reader(ErrorSink& sink, std::string_view file_name)
      : sink_(sink), file_name_(file_name) {}

  template <typename T>
  void Read(const Located& at, T& target, const keys::Mapping& = {}) {
    std::vector<std::string_view> known;
    const auto note = [&known](std::string_view key, const auto&...) { known.push_back(key); };
    keys::Keys(note, target);
    Members members{*this, Fields(sink_, at, known)};
    keys::Keys(members, target);
    Check(at, target);
  }

 private:
  /// Reads the keys of one mapping into their members, which keep their defaults where there is no
  /// value.
  struct Members {
    Reader& reader;
    Fields fields;

    void operator()(std::string_view key, const keys::Constant& type) {
      const auto at = fields.Require(key);
      if (!at) return;
      std::string text;
      reader.Read(*at, text, keys::Text{});
      if (text != type.text) reader.Error(*at, fmt::format("must be {}", type.text));
    }
    template <typename T, typename Type>
    void operator()(std::string_view key, T& member, const Type& type, std::string_view) {
      if (const auto at = fields.Find(key)) reader.Read(*at, member, type);
    }
    template <typename T, typename Type>
    void operator()(std::string_view key, T& member, const keys::Required<Type>& type,
                    std::string_view) {
      if (const auto at = fields.Require(key)) reader.Read(*at, member, type.type);
    }
  };

  void Error(const Located& at, std::string message) {
    sink_.Add(*at.node, at.path, std::move(message));
  }

  void Read(const Located& at, std::string& target, const keys::Text&) {
    if (auto text = ReadText(sink_, at)) target = *std::move(text);
  }
  void Read(const Located& at, std::string& target, const keys::Form& type) {
    Read(at, target, keys::Text{});
    if (type.valid(target)) return;
    Error(at, fmt::format("must be {}, is {}", type.wanted, Quote(target)));
  }
  void Read(const Located& at, std::string& target, const keys::Quantity& type) {
    Read(at, target, keys::Text{});
    if (target.empty() ? type.or_empty : kube::ParseFor(type.resource, target).has_value()) return;
    Error(at, "not a quantity: " + Quote(target));
  }
  void Read(const Located& at, std::string& target, const keys::Choice& type) {
    if (const auto index = ReadOneOf(sink_, at, type.values)) target = type.values[*index];
  }
  template <typename T>
  void Read(const Located& at, T& target, const keys::Choice& type) {
    if (const auto index = ReadOneOf(sink_, at, type.values)) target = static_cast<T>(*index);
  }
  void Read(const Located& at, bool& target, const keys::Switch&) {
    if (const auto value = ReadOneOf(sink_, at, kBooleans)) target = *value == 1;
  }
  void Read(const Located& at, int& target, const keys::Whole& type) {
    if (const auto value = ReadInteger(sink_, at, type.min, type.max)) {
      target = static_cast<int>(*value);
    }
  }
  void Read(const Located& at, std::optional<int>& target, const keys::Whole& type) {
    Read(at, target.emplace(), type);
  }
  void Read(const Located& at, std::chrono::milliseconds& target, const keys::Duration& type) {
    if (const auto value = ReadDuration(sink_, at, type.min, type.max)) target = *value;
  }
  template <typename T, typename Of>
  void Read(const Located& at, std::vector<T>& target, const keys::List<Of>& type) {
    for (const Located& element : ReadList(sink_, at).value_or(std::vector<Located>{})) {
      Read(element, target.emplace_back(), type.of);
    }
  }
  template <typename T, typename Of>
  void Read(const Located& at, std::vector<T>& target, const keys::OneOrMore<Of>& type) {
    constexpr bool kMappings = std::is_same_v<Of, keys::Mapping>;
    if (at.node->kind == (kMappings ? config::YamlKind::kMapping : config::YamlKind::kScalar)) {
      Read(at, target.emplace_back(), type.of);
    } else {
      Read(at, target, keys::List{type.of});
    }
    Check(at, target);
  }
  template <typename Map, typename Of>
  void Read(const Located& at, Map& target, const keys::ByName<Of>& type) {
    for (const Entry& entry : ReadEntries(sink_, at)) {
      Read(entry.value, target[entry.key], type.of);
    }
  }

  /// Its two header lines may be left out.
  void ReadPolicy(const Located& at, std::string& yaml, config::PolicyConfiguration& policy) {
    Read(at, yaml, keys::Text{});
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
  void Read(const Located& at, Scenario& target, const keys::Policy&) {
    ReadPolicy(at, target.policy_yaml, target.policy);
  }
  void Read(const Located& at, std::string& target, const keys::Policy&) {
    config::PolicyConfiguration checked;
    ReadPolicy(at, target, checked);
  }

  template <typename A, typename M, typename Type>
  void Read(const Located& at, Action& target, const keys::Make<A, M, Type>& type) {
    A action = type.action;
    Read(at, action.*type.member, type.type);
    target = std::move(action);
  }

  /// What the types of the keys do not say.
  template <typename T>
  void Check(const Located&, const T&) {}
  void Check(const Located& at, const Workload& w) {
    if (!w.gang && (w.size != 0 || w.min != 0 || w.launchers != 0)) {
      Error(at, "size, min and launchers are a gang's: add gang: true");
    }
  }
  void Check(const Located& at, const std::vector<Nodes>& all) {
    int total = 0;
    for (const Nodes& nodes : all) total += nodes.count;
    if (total > kMaxNodes) Error(at, fmt::format("at most {} nodes", kMaxNodes));
  }

  void Read(const Located& at, Scenario& scenario, const keys::Steps&) {
    int pods = 0;
    bool expects = false;
    for (const Located& element : ReadList(sink_, at).value_or(std::vector<Located>{})) {
      const std::vector<Entry> entries = ReadEntries(sink_, element);
      if (entries.size() != 1) {
        Error(element, "a step has exactly one key");
        continue;
      }
      Step step{.line = element.node->line, .key = entries.front().key, .action = {}};
      Read(element, step);
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

std::expected<Scenario, std::vector<config::Diagnostic>> Decode(std::string_view yaml,
                                                                std::string_view file_name) {
  const auto documents = config::ReadYaml(yaml, file_name);
  if (!documents) return std::unexpected(documents.error());
  ErrorSink sink(file_name);
  if (documents->size() != 1) {
    sink.Add(config::YamlNode{}, "", "a scenario file holds exactly one document");
    return std::unexpected(std::move(sink).Take());
  }
  Scenario scenario;
  Reader(sink, file_name).Read({.node = &documents->front(), .path = ""}, scenario);
  if (!sink.empty()) return std::unexpected(std::move(sink).Take());
  if (scenario.policy_yaml.empty()) scenario.policy_yaml = config::EncodePolicy(scenario.policy);
  return scenario;
}

}  // namespace berth::scenario
