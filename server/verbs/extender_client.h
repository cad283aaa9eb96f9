// The extender protocol from kube-scheduler's side: its requests as JSON, and how it interprets the
// answers. For models of kube-scheduler; Berth's own side is wire.h.
#pragma once

#include <cstdint>
#include <expected>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/verbs/verbs.h"

namespace berth::server {

// --- Requests, as an entry with `nodeCacheCapable: true` gets them. Throws if a text is not UTF-8:
// kube-scheduler has no such texts.

/// ExtenderArgs, for filter and prioritize. `pod` is a v1.Pod in JSON.
std::string EncodeExtenderArgs(std::string_view pod, std::span<const std::string> nodes);
/// ExtenderBindingArgs.
std::string EncodeBindArgs(const BindArgs& args);
/// ExtenderPreemptionArgs with NodeNameToMetaVictims. `pod` is a v1.Pod in JSON.
std::string EncodePreemptionArgs(std::string_view pod,
                                 const std::map<std::string, Victims, std::less<>>& candidates);

// --- Answers. An error is the answer's own, or says why the answer cannot be used.

struct FilterAnswer {
  std::vector<std::string> kept;
  std::map<std::string, std::string> refused;  ///< Node to reason, of both Failed maps.
};
/// Also an error: a node is kept that was not offered.
std::expected<FilterAnswer, std::string> DecodeFilterResult(std::string_view body,
                                                            std::span<const std::string> offered);
/// Host and score, in the order of the answer.
std::expected<std::vector<std::pair<std::string, std::int64_t>>, std::string> DecodePriorities(
    std::string_view body);
/// Empty: bound.
std::string DecodeBindResult(std::string_view body);
/// Also an error: a node has no victims.
std::expected<std::map<std::string, Victims, std::less<>>, std::string> DecodePreemptionResult(
    std::string_view body);

}  // namespace berth::server
