#include "cluster/reason.h"

#include <fmt/format.h>

#include <array>

#include "kube/quantity.h"

namespace berth::cluster {
namespace {

struct ReasonText {
  std::string_view token;
  std::string_view refusal;
};

// In the order of ReasonId.
constexpr std::array<ReasonText, kReasonCount> kTexts{{
    {"", ""},  // nothing reads it beside a kept node, and kube-scheduler decodes 5,000 of them
    {"WaitingForMembers", "berth: WaitingForMembers: its gang is not complete yet"},
    {"Starting", "berth: Starting: its gang is being placed"},
    {"NeverFits", "berth: NeverFits: it would not fit into the empty cluster"},
    {"ExceedsLimit", "berth: ExceedsLimit: it asks for more than its queue may ever use"},
    {"WaitingForQuota", "berth: WaitingForQuota: its queue has no quota left"},
    {"InsufficientDevices", "berth: InsufficientDevices: not enough free devices"},
    {"InsufficientCpuOrMemory",
     "berth: InsufficientCpuOrMemory: devices are free, but too little CPU or memory beside them"},
    {"NoMatchingNodes", "berth: NoMatchingNodes: no node matches its selectors and tolerations"},
    {"Fragmented",
     "berth: Fragmented: enough devices are free in total, but not where the pods need them"},
    {"TopologyUnsatisfied",
     "berth: TopologyUnsatisfied: no single domain of the required level has room"},
    {"SearchExhausted", "berth: SearchExhausted: no placement found within the search budget"},
    {"BehindReservation", "berth: BehindReservation: the room is reserved for an earlier workload"},
    {"WaitingForVictims", "berth: WaitingForVictims: evicted pods are still ending"},
    {"RefusedByScheduler",
     "berth: RefusedByScheduler: kube-scheduler or a kubelet refused the planned nodes"},
    {"CoolingDown", "berth: CoolingDown: waiting before the next attempt"},
    {"Recovering", "berth: Recovering: a failed member of its gang is being replaced"},
    {"Suspended", "berth: Suspended"},
    {"QueueHeld", "berth: QueueHeld: its queue is held"},
    {"UnknownQueue", "berth: UnknownQueue: the queue it names does not exist"},
    {"QueueNotAllowed", "berth: QueueNotAllowed: no queue admits pods of this namespace"},
    {"GangConflict", "berth: GangConflict: it disagrees with the first member of its gang"},
    {"InvalidRequest",
     "berth: InvalidRequest: a label, annotation or device request of the pod is invalid"},
    {"NodesNotOffered",
     "berth: NodesNotOffered: kube-scheduler did not offer the nodes that have room"},
    {"NotReady", "berth: NotReady"},
}};

std::string MembersNeed(std::int64_t count) {
  return count == 1 ? "1 member needs" : fmt::format("{} members need", count);
}

/// In the unit of the resource. The subject may be a part of it (Part): its name comes first.
std::string Amount(const Verdict& v, std::int64_t value) {
  return kube::Format(
      v.subject.empty() ? "nvidia.com/gpu" : v.subject.substr(0, v.subject.find(' ')), value);
}

/// The queue whose cap decides.
std::string Queue(const Verdict& v) {
  return v.queue.empty() ? "its queue" : fmt::format("queue {}, above its own,", v.queue);
}

/// Verdicts of these reasons may bring their sentence along, as the subject.
bool SubjectMayBeSentence(ReasonId reason) {
  switch (reason) {
    case ReasonId::kWaitingForMembers:
    case ReasonId::kStarting:
    case ReasonId::kNeverFits:
    case ReasonId::kWaitingForVictims:
    case ReasonId::kRefusedByScheduler:
    case ReasonId::kCoolingDown:
    case ReasonId::kQueueNotAllowed:
    case ReasonId::kGangConflict:
    case ReasonId::kInvalidRequest:
      return true;
    default:
      return false;
  }
}

/// The constant text of the reason, without `berth: TOKEN: `.
std::string ConstantSentence(ReasonId reason) {
  const std::string_view text = RefusalText(reason).substr(std::string_view("berth: ").size());
  const auto colon = text.find(": ");
  return std::string(colon == std::string_view::npos ? text : text.substr(colon + 2)) + ".";
}

/// What is short on the nodes.
std::string RoomSentence(const Verdict& v) {
  switch (v.reason) {
    case ReasonId::kInsufficientDevices:
      return fmt::format("It needs {} of {}; {} are free on matching nodes.", Amount(v, v.want),
                         v.subject, Amount(v, v.have));
    case ReasonId::kInsufficientCpuOrMemory:
      return fmt::format(
          "{} members have free devices, but CPU, memory or pod slots allow only {}.", v.want,
          v.have);
    case ReasonId::kNoMatchingNodes:
      return v.subject.empty()
                 ? "No node matches its selectors and tolerations."
                 : fmt::format("No node matches the selectors and tolerations of {}.", v.subject);
    case ReasonId::kFragmented:
      if (!v.subject.empty()) {  // host ports
        return fmt::format(
            "{} {}, each on a node of its own; that is free on {} of the nodes with room.",
            MembersNeed(v.want), v.subject, v.have);
      }
      return fmt::format("{} room at once; the free devices are spread so that only {} fit.",
                         MembersNeed(v.want), v.have);
    case ReasonId::kTopologyUnsatisfied:
      return fmt::format("{} members must share one {}; {}the best one {} room for {}.", v.want,
                         v.subject, v.never ? "if all were empty, " : "",
                         v.never ? "would have" : "has", v.have);
    case ReasonId::kNeverFits:
      return fmt::format("{} member{} must run at once; the empty cluster has room for {}.", v.want,
                         v.want == 1 ? "" : "s", v.have);
    default:
      return ConstantSentence(v.reason);
  }
}

/// What the policy does not allow, or does not allow now.
std::string QueueSentence(const Verdict& v) {
  switch (v.reason) {
    case ReasonId::kWaitingForQuota:
      if (!v.user.empty()) {
        return fmt::format(
            "User {} may have {} at once in its queue; {} now.", v.user,
            v.want == 1 ? "1 job" : fmt::format("{} jobs", v.want),
            v.have == 1 ? "1 holds devices" : fmt::format("{} hold devices", v.have));
      }
      return fmt::format("It needs {} of {}; {} has {} left.", Amount(v, v.want), v.subject,
                         Queue(v), Amount(v, v.have));
    case ReasonId::kExceedsLimit:
      return fmt::format("It needs {} of {}; {} may use {} at most.", Amount(v, v.want), v.subject,
                         Queue(v), Amount(v, v.have));
    case ReasonId::kQueueHeld:
      return fmt::format("Queue {} is held: nothing new starts in it.", v.subject);
    case ReasonId::kUnknownQueue:
      return fmt::format("The policy has no queue {:?}.", v.subject);
    default:
      return ConstantSentence(v.reason);
  }
}

/// Who or what it waits for, now that neither room nor quota is short.
std::string ProgressSentence(const Verdict& v) {
  switch (v.reason) {
    case ReasonId::kWaitingForMembers:
      return fmt::format("The gang starts with {} members; {} exist that can be placed.", v.want,
                         v.have);
    case ReasonId::kStarting:
      return fmt::format("Placed and released: {} of {} members have arrived.", v.have, v.want);
    case ReasonId::kWaitingForVictims:
      if (v.want == 0) {
        return "Its gang is being evicted: new members wait until the old ones have ended.";
      }
      return fmt::format(
          "It gets the room of pods that are being evicted or end anyway: {} {} left.", v.want,
          v.want == 1 ? "is" : "are");
    case ReasonId::kRefusedByScheduler:
      return fmt::format(
          "kube-scheduler or a kubelet refused the nodes where its {} members have room; they are "
          "tried again {}.",
          v.want, v.have > 0 ? fmt::format("in {} s", v.have) : "after a pause");
    case ReasonId::kCoolingDown:
      return fmt::format(
          "kube-scheduler or a kubelet refused the planned nodes, or the members did not arrive in "
          "time (attempt {}); the next attempt follows in {} s.",
          v.want, v.have);
    default:
      return ConstantSentence(v.reason);
  }
}

}  // namespace

std::string_view Token(ReasonId reason) { return kTexts[static_cast<std::size_t>(reason)].token; }

std::string_view RefusalText(ReasonId reason) {
  return kTexts[static_cast<std::size_t>(reason)].refusal;
}

std::string Sentence(const Verdict& v) {
  if (!v.subject.empty() && SubjectMayBeSentence(v.reason)) return v.subject;
  switch (v.reason) {
    case ReasonId::kNone:
      return "";
    case ReasonId::kInsufficientDevices:
    case ReasonId::kInsufficientCpuOrMemory:
    case ReasonId::kNoMatchingNodes:
    case ReasonId::kFragmented:
    case ReasonId::kTopologyUnsatisfied:
    case ReasonId::kNeverFits:
      return RoomSentence(v);
    case ReasonId::kWaitingForQuota:
    case ReasonId::kExceedsLimit:
    case ReasonId::kQueueHeld:
    case ReasonId::kUnknownQueue:
      return QueueSentence(v);
    case ReasonId::kWaitingForMembers:
    case ReasonId::kStarting:
    case ReasonId::kWaitingForVictims:
    case ReasonId::kRefusedByScheduler:
    case ReasonId::kCoolingDown:
      return ProgressSentence(v);
    default:
      return ConstantSentence(v.reason);
  }
}

}  // namespace berth::cluster
