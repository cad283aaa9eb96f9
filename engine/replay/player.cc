#include "engine/replay/player.h"

#include <simdjson.h>

#include <algorithm>
#include <limits>

#include "config/decode.h"
#include "engine/replay/decision_line.h"
#include "engine/replay/fields.h"

namespace berth::replay {
namespace {

using engine::Engine;
using engine::TimePoint;

/// Whether the call needs the engine to exist, and to be started.
enum class When : std::uint8_t { kBegin, kAlways, kStarted };

/// A call: reads what it needs; `reader.Finish()` says whether that was there. Then the call is
/// made.
struct Call {
  std::string_view input;
  When when;
  std::string (*make)(std::unique_ptr<Engine>& engine, Reader& reader, TimePoint now);
};

std::expected<config::PolicyConfiguration, std::string> ReadPolicy(const std::string& yaml) {
  auto policy = config::DecodePolicy(yaml, "policy");
  if (!policy) return std::unexpected(policy.error().front().ToString());
  return std::move(*policy);
}

std::string Begin(std::unique_ptr<Engine>& engine, Reader& reader, TimePoint) {
  engine::Options options;
  std::string yaml;
  reader.Require("instance", options.instance);
  reader.Require("explain", options.explain_decisions);
  reader.Require("shares", options.store.shares);
  reader.Require("orderSeed", options.store.order_seed);
  // The default is for logs written before passes had a budget.
  reader("passBudget", options.pass_budget, std::numeric_limits<std::int64_t>::max());
  // The same: nobody waited for pods that end.
  reader("podsEnd", options.pods_end, engine::TimePoint{0});
  reader.Require("policy", yaml);
  if (std::string error = reader.Finish(); !error.empty()) return error;
  auto policy = ReadPolicy(yaml);
  if (!policy) return policy.error();
  engine = std::make_unique<Engine>(std::move(*policy), std::move(options));
  return {};
}

std::string Policy(std::unique_ptr<Engine>& engine, Reader& reader, TimePoint now) {
  std::string yaml;
  reader.Require("policy", yaml);
  if (std::string error = reader.Finish(); !error.empty()) return error;
  auto policy = ReadPolicy(yaml);
  if (!policy) return policy.error();
  engine->OnPolicy(std::move(*policy), now);
  return {};
}

/// A call that takes one value.
template <typename T, typename Make>
std::string One(Reader& reader, const char* key, Make make) {
  T value{};
  reader.Require(key, value);
  std::string error = reader.Finish();
  if (error.empty()) make(std::move(value));
  return error;
}

std::string Filter(std::unique_ptr<Engine>& engine, Reader& reader, TimePoint now) {
  std::string uid;
  std::vector<std::string> offered;
  std::optional<kube::Pod> pod;
  reader.Require("uid", uid);
  reader.Require("offered", offered);
  reader("pod", pod);
  if (std::string error = reader.Finish(); !error.empty()) return error;
  const std::vector<std::string_view> views(offered.begin(), offered.end());
  engine->Filter(
      {.uid = uid, .offered = views, .request_pod = [&] { return pod ? &*pod : nullptr; }}, now);
  return {};
}

std::string Bind(std::unique_ptr<Engine>& engine, Reader& reader, TimePoint now) {
  std::string uid;
  std::string ns;
  std::string name;
  std::string node;
  reader.Require("uid", uid);
  reader.Require("namespace", ns);
  reader.Require("name", name);
  reader.Require("node", node);
  std::string error = reader.Finish();
  if (error.empty()) engine->Bind({.uid = uid, .ns = ns, .name = name, .node = node}, now);
  return error;
}

std::string BindFinished(std::unique_ptr<Engine>& engine, Reader& reader, TimePoint now) {
  std::string uid;
  auto outcome = engine::BindOutcome::kUnknown;
  reader.Require("uid", uid);
  reader.Require("outcome", outcome);
  std::string said;
  reader("error", said);
  std::string error = reader.Finish();
  if (error.empty()) engine->BindFinished(uid, outcome, now, said);
  return error;
}

std::string Preempt(std::unique_ptr<Engine>& engine, Reader& reader, TimePoint now) {
  std::string uid;
  engine::VictimMap victims;
  reader.Require("uid", uid);
  reader.Require("victims", victims);
  std::string error = reader.Finish();
  if (error.empty()) engine->Preempt(uid, victims, now);
  return error;
}

std::string EvictionAnswered(std::unique_ptr<Engine>& engine, Reader& reader, TimePoint now) {
  std::string workload;
  std::string plan;
  std::string uid;
  bool dry_run = false;
  bool accepted = false;
  reader.Require("workload", workload);
  reader.Require("plan", plan);
  reader.Require("uid", uid);
  reader.Require("dryRun", dry_run);
  reader.Require("accepted", accepted);
  std::string error = reader.Finish();
  if (error.empty()) engine->EvictionAnswered(workload, plan, uid, dry_run, accepted, now);
  return error;
}

const std::vector<Call>& Calls() {
  using E = std::unique_ptr<Engine>;
  static const std::vector<Call> kCalls{
      {"begin", When::kBegin, Begin},
      {"node", When::kAlways,
       [](E& e, Reader& r, TimePoint now) {
         return One<kube::Node>(r, "node", [&](auto v) { e->OnNode(std::move(v), now); });
       }},
      {"nodeDeleted", When::kAlways,
       [](E& e, Reader& r, TimePoint now) {
         return One<std::string>(r, "name", [&](const auto& v) { e->OnNodeDeleted(v, now); });
       }},
      {"pod", When::kAlways,
       [](E& e, Reader& r, TimePoint now) {
         return One<kube::Pod>(r, "pod", [&](auto v) { e->OnPod(std::move(v), now); });
       }},
      {"podDeleted", When::kAlways,
       [](E& e, Reader& r, TimePoint now) {
         return One<std::string>(r, "uid", [&](const auto& v) { e->OnPodDeleted(v, now); });
       }},
      {"namespace", When::kAlways,
       [](E& e, Reader& r, TimePoint) {
         return One<kube::Namespace>(r, "namespace", [&](auto v) { e->OnNamespace(std::move(v)); });
       }},
      {"namespaceDeleted", When::kAlways,
       [](E& e, Reader& r, TimePoint) {
         return One<std::string>(r, "name", [&](const auto& v) { e->OnNamespaceDeleted(v); });
       }},
      {"disruptionBudget", When::kAlways,
       [](E& e, Reader& r, TimePoint) {
         return One<kube::PodDisruptionBudget>(
             r, "disruptionBudget", [&](auto v) { e->OnDisruptionBudget(std::move(v)); });
       }},
      {"disruptionBudgetDeleted", When::kAlways,
       [](E& e, Reader& r, TimePoint) {
         return One<std::string>(r, "uid", [&](const auto& v) { e->OnDisruptionBudgetDeleted(v); });
       }},
      {"dialectObject", When::kAlways,
       [](E& e, Reader& r, TimePoint now) {
         return One<kube::DialectObject>(r, "object",
                                         [&](auto v) { e->OnDialectObject(std::move(v), now); });
       }},
      {"dialectObjectDeleted", When::kAlways,
       [](E& e, Reader& r, TimePoint now) {
         return One<std::string>(r, "uid",
                                 [&](const auto& v) { e->OnDialectObjectDeleted(v, now); });
       }},
      {"policy", When::kAlways, Policy},
      {"beginUsage", When::kAlways,
       [](E& e, Reader& r, TimePoint now) {
         return One<cluster::UsageRecord>(r, "record",
                                          [&](const auto& v) { e->BeginUsage(v, now); });
       }},
      {"start", When::kAlways,
       [](E& e, Reader& r, TimePoint now) {
         std::string error = e->started() ? "twice" : r.Finish();
         if (error.empty()) e->Start(now);
         return error;
       }},
      {"filter", When::kStarted, Filter},
      {"bind", When::kStarted, Bind},
      {"bindFinished", When::kStarted, BindFinished},
      {"bindSettled", When::kStarted,
       [](E& e, Reader& r, TimePoint now) {
         return One<std::string>(r, "uid", [&](const auto& v) { e->BindSettled(v, now); });
       }},
      {"bindAbandoned", When::kStarted,
       [](E& e, Reader& r, TimePoint) {
         return One<engine::TicketId>(r, "ticket", [&](auto v) { e->BindAbandoned(v); });
       }},
      {"preempt", When::kStarted, Preempt},
      {"evictionAnswered", When::kStarted, EvictionAnswered},
      {"step", When::kAlways,
       [](E& e, Reader& r, TimePoint now) {
         std::string error = r.Finish();
         if (error.empty()) e->Step(now);
         return error;
       }},
  };
  return kCalls;
}

}  // namespace

std::expected<std::vector<std::string>, std::string> Player::Feed(simdjson::dom::element line) {
  Reader reader(line);
  int version = 0;
  std::string input;
  TimePoint now = 0;
  reader.Require("v", version);
  reader("input", input);
  reader("time_ms", now);
  const auto call = std::ranges::find(Calls(), input, &Call::input);
  if (call == Calls().end()) return std::unexpected("`" + input.substr(0, 64) + "` is no input");
  if (version != kLineVersion) return std::unexpected("of another version than 1");
  if (call->when != When::kBegin && engine_ == nullptr) {
    return std::unexpected("the log does not begin here: inputs come after a line `begin`");
  }
  if (call->when == When::kStarted && !engine_->started()) {
    return std::unexpected("`" + input + "` before `start`");
  }
  if (std::string error = call->make(engine_, reader, now); !error.empty()) {
    return std::unexpected(input + ": " + error);
  }
  std::vector<std::string> decisions;
  for (const engine::Action& action : engine_->TakeActions()) {
    if (const auto* decision = std::get_if<engine::Decision>(&action)) {
      decisions.push_back(DecisionLine(*decision, now));
    }
  }
  return decisions;
}

}  // namespace berth::replay
