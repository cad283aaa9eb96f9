#include "sim/world/verb_bytes.h"

#include <simdjson.h>

#include <algorithm>
#include <set>

#include "kube/decode.h"
#include "server/verbs/extender_client.h"
#include "sim/world/object_json.h"

namespace berth::sim {
namespace {

using VictimsByNode = std::map<std::string, server::Victims, std::less<>>;

VictimsByNode ToWire(const engine::VictimMap& map) {
  VictimsByNode out;
  for (const auto& [node, set] : map) {
    out[node] = {.pod_uids = set.uids, .num_pdb_violations = set.pdb_violations};
  }
  return out;
}

engine::VictimMap FromWire(const VictimsByNode& map) {
  engine::VictimMap out;
  for (const auto& [node, victims] : map) {
    out[node] = {.uids = victims.pod_uids, .pdb_violations = victims.num_pdb_violations};
  }
  return out;
}

template <typename Args>
engine::PodRef RefOf(const Args& args) {
  return {.ns = std::string(args.pod_namespace),
          .name = std::string(args.pod_name),
          .uid = std::string(args.pod_uid)};
}

}  // namespace

// --- kube-scheduler asks -------------------------------------------------------------------------

std::string VerbBytes::Offer(const kube::Pod& pod, const Nodes& offered) {
  return server::EncodeExtenderArgs(Bytes(PodJson(pod)), offered);
}

std::string VerbBytes::BindRequest(const engine::PodRef& pod, const std::string& node) {
  return server::EncodeBindArgs(
      {.pod_name = pod.name, .pod_namespace = pod.ns, .pod_uid = pod.uid, .node = node});
}

std::string VerbBytes::PreemptRequest(const kube::Pod& pod, const engine::VictimMap& candidates) {
  return server::EncodePreemptionArgs(Bytes(PodJson(pod)), ToWire(candidates));
}

// --- Berth answers -------------------------------------------------------------------------------

server::PaddedBody VerbBytes::Padded(const std::string& body) {
  padded_ = body;
  padded_.append(server::kBodyPadding, '\0');
  return {.data = padded_.data(), .size = body.size()};
}

template <typename Args>
bool VerbBytes::Understood(const std::expected<Args, std::string>& args, const Answer& answer) {
  if (args) return true;
  env_.Garble("a verb's request: " + args.error());
  answer(std::nullopt);
  return false;
}

void VerbBytes::ServeFilter(HostDriver& host, const std::string& body, const Answer& answer) {
  const auto args = decoder_.DecodeExtenderArgs(Padded(body));
  if (!Understood(args, answer)) return;
  std::optional<kube::Pod> decoded;
  const auto request_pod = [&]() -> const kube::Pod* {
    simdjson::dom::parser parser;
    auto pod = kube::DecodePod(args->pod_json, parser);
    if (!pod) {
      env_.Garble("a filter request's pod: " + pod.error().ToString());
      return nullptr;
    }
    decoded = *std::move(pod);
    return &*decoded;
  };
  const auto reply = host.Filter(RefOf(*args), args->node_names, request_pod);
  if (!reply) return answer(std::nullopt);
  const server::FilterResult result{
      .kept = {reply->kept.begin(), reply->kept.end()}, .reason = reply->reason, .error = {}};
  std::string out;
  server::EncodeFilterResult(args->node_names, result, out);
  answer(out);
}

void VerbBytes::ServePrioritize(HostDriver& host, const std::string& body, const Answer& answer) {
  const auto args = decoder_.DecodeExtenderArgs(Padded(body));
  if (!Understood(args, answer)) return;
  const auto scores = host.Prioritize(std::string(args->pod_uid), args->node_names);
  if (!scores) return answer(std::nullopt);
  std::vector<server::HostPriority> priorities;
  for (const auto& [node, score] : *scores) priorities.push_back({.host = node, .score = score});
  std::string out;
  server::EncodePriorities(priorities, out);
  answer(out);
}

void VerbBytes::ServeBind(HostDriver& host, const std::string& body,
                          std::weak_ptr<const bool> client, const Answer& answer) {
  const auto args = decoder_.DecodeBindArgs(Padded(body));
  if (!Understood(args, answer)) return;
  host.Bind(RefOf(*args), std::string(args->node), std::move(client),
            [answer](const std::optional<std::string>& error) {
              if (!error) return answer(std::nullopt);
              std::string out;
              server::EncodeBindResult(*error, out);
              answer(out);
            });
}

void VerbBytes::ServePreempt(HostDriver& host, const std::string& body, const Answer& answer) {
  const auto args = decoder_.DecodePreemptionArgs(Padded(body));
  if (!Understood(args, answer)) return;
  host.Preempt(std::string(args->pod_uid), FromWire(args->node_to_victims),
               [answer](const std::optional<engine::VictimMap>& kept) {
                 if (!kept) return answer(std::nullopt);
                 std::string out;
                 server::EncodePreemption(ToWire(*kept), out);
                 answer(out);
               });
}

// --- kube-scheduler reads ------------------------------------------------------------------------

/// Every offered node is either kept or refused, and no other node is; all refused ones have one
/// text.
void VerbBytes::CheckPartition(const FilterReply& reply,
                               const std::map<std::string, std::string>& refused,
                               const Nodes& offered) {
  std::set<std::string> named(reply.kept.begin(), reply.kept.end());
  for (const auto& [node, reason] : refused) {
    named.insert(node);
    if (reason != reply.reason) env_.Garble("filter: two reasons in one answer: " + reason);
  }
  const bool once = named.size() == reply.kept.size() + refused.size();
  if (!once || named != std::set<std::string>(offered.begin(), offered.end())) {
    env_.Garble(fmt::format("I5: filter: {} kept and {} refused of {} offered", reply.kept.size(),
                            refused.size(), offered.size()));
  }
}

std::expected<FilterReply, std::string> VerbBytes::ReadFilter(const std::string& body,
                                                              const Nodes& offered) {
  auto answer = server::DecodeFilterResult(body, offered);
  if (!answer) {
    env_.Garble("a filter answer: " + answer.error());
    return std::unexpected(std::move(answer.error()));
  }
  FilterReply reply{.kept = std::move(answer->kept), .reason = {}};
  if (!answer->refused.empty()) reply.reason = answer->refused.begin()->second;
  CheckPartition(reply, answer->refused, offered);
  return reply;
}

std::expected<VerbBytes::Scores, std::string> VerbBytes::ReadPriorities(const std::string& body) {
  const auto scores = server::DecodePriorities(body);
  if (!scores) {
    env_.Garble("a prioritize answer: " + scores.error());
    return std::unexpected(scores.error());
  }
  return Scores(scores->begin(), scores->end());
}

std::expected<engine::VictimMap, std::string> VerbBytes::ReadVictims(const std::string& body) {
  const auto victims = server::DecodePreemptionResult(body);
  if (!victims) {
    env_.Garble("a preempt answer: " + victims.error());
    return std::unexpected(victims.error());
  }
  return FromWire(*victims);
}

}  // namespace berth::sim
