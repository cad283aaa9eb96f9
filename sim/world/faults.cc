#include "sim/world/faults.h"

#include <fmt/format.h>

namespace berth::sim {

std::string_view Name(FaultKind kind) {
  static constexpr std::array<std::string_view, kFaultKinds> kNames{"api-429",
                                                                    "api-500",
                                                                    "api-500-after-write",
                                                                    "api-request-lost",
                                                                    "api-answer-lost",
                                                                    "api-slow",
                                                                    "watch-break",
                                                                    "watch-410",
                                                                    "watch-slow",
                                                                    "watch-duplicate",
                                                                    "verb-slow",
                                                                    "verb-reset",
                                                                    "berth-crash",
                                                                    "berth-slow-threads",
                                                                    "scheduler-restart",
                                                                    "node-cordon",
                                                                    "node-taint",
                                                                    "node-delete",
                                                                    "device-health",
                                                                    "pod-delete",
                                                                    "kubelet-reject",
                                                                    "hidden-refusal",
                                                                    "policy-edit",
                                                                    "forged-claim",
                                                                    "forged-nomination",
                                                                    "forged-ungate",
                                                                    "forged-member",
                                                                    "berth-crash-in-gang",
                                                                    "clock-jump",
                                                                    "watch-outage",
                                                                    "lease-blocked",
                                                                    "lease-stolen",
                                                                    "lease-deleted",
                                                                    "passthrough",
                                                                    "queues-change",
                                                                    "berth-frozen",
                                                                    "stale-list",
                                                                    "full-queues",
                                                                    "tree-edit",
                                                                    "flavor-edit",
                                                                    "berth-ends"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string Fault::ToString() const {
  return fmt::format("{:>10.3f} {} for {} ms, choice {}",
                     static_cast<double>(at % 100'000'000) / 1000.0, Name(kind), lasts, choice);
}

void ActiveFaults::Begin(const Fault& fault) {
  std::erase_if(active_, [this](const Fault& f) { return f.at + f.lasts <= timeline_.now(); });
  active_.push_back(fault);
}

const Fault* ActiveFaults::Find(FaultKind kind) const {
  for (const Fault& fault : active_) {
    if (fault.kind == kind && fault.at + fault.lasts > timeline_.now()) return &fault;
  }
  return nullptr;
}

}  // namespace berth::sim
