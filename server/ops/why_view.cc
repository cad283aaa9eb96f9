// Why a pod, or a gang, waits.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cluster/plan_claim.h"
#include "kube/time.h"
#include "server/ops/claim_text.h"
#include "server/ops/views.h"
#include "server/ops/workload_view.h"

namespace berth::server {
namespace {

using cluster::PodInfo;
using cluster::Workload;
using Json = nlohmann::ordered_json;

bool IsOurs(const cluster::Store& store, const kube::Pod& pod) {
  return std::ranges::find(store.policy().scheduler_names, pod.scheduler_name) !=
         store.policy().scheduler_names.end();
}

/// Why Berth does not plan a pod that belongs to no workload.
std::string UnmanagedBecause(const cluster::Store& store, const PodInfo& pod) {
  if (pod.terminating()) return "It is being deleted.";
  if (!IsOurs(store, pod.object)) {
    return fmt::format(
        "Its schedulerName is {}, which is not one of the policy's schedulerNames: Berth ignores "
        "it.",
        pod.object.scheduler_name);
  }
  return "It asks for no device of the policy and is in no gang: kube-scheduler places it without "
         "Berth.";
}

/// Why Berth cannot tell anything yet about a pod that it would plan; empty: it can.
std::string ArrivingBecause(const PodInfo& pod, const cluster::Verdict& verdict) {
  for (const std::string& gate : pod.object.scheduling_gates) {
    if (gate == cluster::kAdmissionGate) continue;
    return fmt::format(
        "It has the scheduling gate {}, which is not Berth's: it waits until that is removed.",
        gate);
  }
  if (verdict.reason != cluster::ReasonId::kNone) return {};
  return "kube-scheduler has not called Berth for it yet. It does so when it is the pod's turn; if "
         "that lasts, the pod's condition PodScheduled says why.";
}

struct Told {
  std::string reason;
  std::string message;
};

Told Tell(const cluster::Store& store, const PodInfo& pod, const engine::Explanation& why) {
  if (why.phase == "Unmanaged") return {"", UnmanagedBecause(store, pod)};
  if (pod.bound()) return {};
  const bool refused = pod.refusal.reason != cluster::ReasonId::kNone;
  if (const auto because = ArrivingBecause(pod, why.verdict); !refused && !because.empty()) {
    return {std::string(kArriving), because};
  }
  return {std::string(cluster::Token(why.verdict.reason)), cluster::Sentence(why.verdict)};
}

/// Who it is of, where its queue shares by user or caps the jobs of a user; else empty.
std::string UserIn(const cluster::Store& store, const Workload* workload) {
  if (workload == nullptr || workload->queue == cluster::kNoQueue) return {};
  const config::Queue& queue = store.queue(workload->queue).config;
  const bool counts = queue.fair_within == config::FairWithin::kUser || queue.max_jobs_per_user > 0;
  return counts ? workload->user : std::string();
}

/// The member whose state explains the gang best: one without a node, else any.
const PodInfo* SpokesmanOf(const Workload& gang) {
  const auto waits = [](const PodInfo* pod) { return !pod->bound(); };
  const auto waiting = std::ranges::find_if(gang.members, waits);
  if (waiting != gang.members.end()) return *waiting;
  if (!gang.members.empty()) return gang.members.front();
  return gang.faulty.empty() ? nullptr : gang.faulty.front();
}

/// REQUIRES: evicts_from is not over.
std::string WhyNobodyIsEvicted(const engine::WorkloadState& state) {
  const std::string from = kube::FormatTime(state.evicts_from);
  if (state.lacks) {
    return fmt::format(
        "No pods are evicted for it, because its pods name the {} {}, which does not exist in its "
        "namespace. Berth looks for it again at {}.",
        kube::ResourceOf(state.lacks->kind).kind, state.lacks->name, from);
  }
  return fmt::format(
      "Pods were evicted for it, but kube-scheduler did not accept its places then: no more pods "
      "are evicted for it before {}.",
      from);
}

}  // namespace

std::string WhyJson(const engine::Engine& engine, std::string_view ns, std::string_view name,
                    engine::TimePoint now) {
  const cluster::Store& store = engine.store();
  const PodInfo* pod = store.FindPod(ns, name);
  const Workload* gang =
      pod != nullptr ? nullptr : store.FindWorkload(fmt::format("{}/gang/{}", ns, name));
  if (gang != nullptr) pod = SpokesmanOf(*gang);
  if (pod == nullptr) return {};
  const auto& meta = pod->object.meta;
  const engine::Explanation why = engine.Why(meta.ns, meta.name, now);
  Told told = Tell(store, *pod, why);
  const Workload* workload = pod->workload;
  if (workload != nullptr && !pod->bound() && !told.message.empty()) {
    const std::string claim = ClaimText(engine, *workload);
    if (!claim.empty()) told.message += " " + claim;
    told.message += SparedText(engine, *workload, now);
    const engine::WorkloadState& state = engine.StateOf(*workload);
    if (state.evicts_from > now) told.message += " " + WhyNobodyIsEvicted(state);
  }
  const auto refused = workload == nullptr ? std::map<std::string, int>() : RefusalsOf(*workload);
  const kube::Millis since = gang == nullptr ? meta.creation : gang->creation;
  const bool waits = !pod->bound() && workload != nullptr;
  const bool is_refused = waits && pod->refusal.reason != cluster::ReasonId::kNone &&
                          pod->refusal.reason != cluster::ReasonId::kWaitingForMembers;
  const std::string_view phase = gang != nullptr ? ShownPhaseOf(engine, *gang)
                                 : is_refused    ? std::string_view("Refused")
                                                 : std::string_view(why.phase);
  const std::string_view member_phase =
      gang != nullptr || workload == nullptr
          ? std::string_view()
          : engine::MemberPhaseTable()[static_cast<std::size_t>(engine.PhaseOfMember(*pod))].name;
  Json page{{"pod", gang == nullptr ? fmt::format("{}/{}", ns, name) : std::string()},
            {"namespace", ns},
            {"phase", phase},
            {"memberPhase", member_phase},
            {"reason", told.reason},
            {"message", told.message},
            {"want", why.verdict.want},
            {"have", why.verdict.have},
            {"subject", why.verdict.subject},
            {"queue", workload == nullptr ? why.queue : QueueOf(store, *pod)},
            {"queueFrom", why.queue_from},
            {"gangFrom", why.gang_from},
            {"workload", why.workload},
            {"gang", why.gang},
            {"size", workload == nullptr ? 0 : workload->size},
            {"members", why.members},
            {"minMember", why.min_member},
            {"refusals", refused},
            {"bound", why.bound},
            {"node", gang == nullptr ? why.node : std::string()},
            {"scheduler", pod->object.scheduler_name},
            {"since", kube::FormatTime(since)},
            {"waitingSeconds", waits ? std::max<std::int64_t>(0, now - since) / 1000 : 0}};
  if (const std::string user = UserIn(store, workload); !user.empty()) page["user"] = user;
  return page.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace berth::server
