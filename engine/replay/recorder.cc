#include "engine/replay/recorder.h"

#include "config/decode.h"
#include "engine/replay/decision_line.h"
#include "engine/replay/fields.h"

namespace berth::replay {
namespace {

using engine::TimePoint;

Json Line(const char* input) { return {{"v", kLineVersion}, {"input", input}}; }

Json Line(const char* input, TimePoint now) {
  return {{"v", kLineVersion}, {"time_ms", now}, {"input", input}};
}

/// The line with one more field.
template <typename T>
Json With(Json line, const char* key, const T& value) {
  line[key] = Writer::Encode(value);
  return line;
}

std::string Text(const Json& line) {
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

void Recorder::OnBegin(const config::PolicyConfiguration& policy, const engine::Options& options) {
  Json line = With(Line("begin"), "instance", options.instance);
  line["explain"] = options.explain_decisions;
  line["shares"] = options.store.shares;
  line["orderSeed"] = options.store.order_seed;
  line["passBudget"] = options.pass_budget;
  line["podsEnd"] = options.pods_end;
  sink_(Text(With(std::move(line), "policy", config::EncodePolicy(policy))));
}

void Recorder::OnNode(const kube::Node& node, TimePoint now) {
  sink_(Text(With(Line("node", now), "node", node)));
}

void Recorder::OnNodeDeleted(std::string_view name, TimePoint now) {
  sink_(Text(With(Line("nodeDeleted", now), "name", name)));
}

void Recorder::OnPod(const kube::Pod& pod, TimePoint now) {
  sink_(Text(With(Line("pod", now), "pod", pod)));
}

void Recorder::OnPodDeleted(std::string_view uid, TimePoint now) {
  sink_(Text(With(Line("podDeleted", now), "uid", uid)));
}

void Recorder::OnNamespace(const kube::Namespace& ns) {
  sink_(Text(With(Line("namespace"), "namespace", ns)));
}

void Recorder::OnNamespaceDeleted(std::string_view name) {
  sink_(Text(With(Line("namespaceDeleted"), "name", name)));
}

void Recorder::OnDisruptionBudget(const kube::PodDisruptionBudget& budget) {
  sink_(Text(With(Line("disruptionBudget"), "disruptionBudget", budget)));
}

void Recorder::OnDisruptionBudgetDeleted(std::string_view uid) {
  sink_(Text(With(Line("disruptionBudgetDeleted"), "uid", uid)));
}

void Recorder::OnDialectObject(const kube::DialectObject& object, TimePoint now) {
  sink_(Text(With(Line("dialectObject", now), "object", object)));
}

void Recorder::OnDialectObjectDeleted(std::string_view uid, TimePoint now) {
  sink_(Text(With(Line("dialectObjectDeleted", now), "uid", uid)));
}

void Recorder::OnPolicy(const config::PolicyConfiguration& policy, TimePoint now) {
  sink_(Text(With(Line("policy", now), "policy", config::EncodePolicy(policy))));
}

void Recorder::OnBeginUsage(const cluster::UsageRecord& record, TimePoint now) {
  sink_(Text(With(Line("beginUsage", now), "record", record)));
}

void Recorder::OnStart(TimePoint now) { sink_(Text(Line("start", now))); }

void Recorder::OnFilter(const engine::FilterQuery& query, const kube::Pod* request_pod,
                        TimePoint now) {
  Json line = With(Line("filter", now), "uid", query.uid);
  Json& offered = line["offered"] = Json::array();
  for (const std::string_view name : query.offered) offered.push_back(name);
  if (request_pod != nullptr) line["pod"] = Writer::Encode(*request_pod);
  sink_(Text(line));
}

void Recorder::OnBind(const engine::BindQuery& query, TimePoint now) {
  Json line = With(Line("bind", now), "uid", query.uid);
  line["namespace"] = query.ns;
  line["name"] = query.name;
  line["node"] = query.node;
  sink_(Text(line));
}

void Recorder::OnBindFinished(std::string_view uid, engine::BindOutcome outcome,
                              std::string_view error, TimePoint now) {
  Json line = With(With(Line("bindFinished", now), "uid", uid), "outcome", outcome);
  if (!error.empty()) line["error"] = error;
  sink_(Text(line));
}

void Recorder::OnBindSettled(std::string_view uid, TimePoint now) {
  sink_(Text(With(Line("bindSettled", now), "uid", uid)));
}

void Recorder::OnBindAbandoned(engine::TicketId ticket) {
  sink_(Text(With(Line("bindAbandoned"), "ticket", ticket)));
}

void Recorder::OnEvictionAnswered(std::string_view workload, std::string_view plan,
                                  std::string_view uid, bool dry_run, bool accepted,
                                  TimePoint now) {
  Json line = With(Line("evictionAnswered", now), "workload", workload);
  line["plan"] = plan;
  line["uid"] = uid;
  line["dryRun"] = dry_run;
  line["accepted"] = accepted;
  sink_(Text(line));
}

void Recorder::OnPreempt(std::string_view uid, const engine::VictimMap& candidates, TimePoint now) {
  sink_(Text(With(With(Line("preempt", now), "uid", uid), "victims", candidates)));
}

void Recorder::OnStep(TimePoint now) { sink_(Text(Line("step", now))); }

}  // namespace berth::replay
