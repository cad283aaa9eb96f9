#include "server/verbs/extender_client.h"

#include <nlohmann/json.hpp>
#include <set>

namespace berth::server {
namespace {

using nlohmann::json;

constexpr const char* kNoAnswer = "the answer does not have the format of this verb";

/// `read` may throw what nlohmann throws: a field is missing or of another type.
template <typename T, typename Read>
std::expected<T, std::string> Decode(std::string_view body, Read read) try {
  return read(json::parse(body));
} catch (const json::exception&) {
  return std::unexpected(kNoAnswer);
}

void TakeRefusals(const json& answer, const char* key, FilterAnswer& result) {
  const auto failed = answer.find(key);
  if (failed == answer.end() || failed->is_null()) return;
  for (const auto& [node, reason] : failed->items()) {
    result.refused[node] = reason.get<std::string>();
  }
}

}  // namespace

std::string EncodeExtenderArgs(std::string_view pod, std::span<const std::string> nodes) {
  return R"({"Pod":)" + std::string(pod) + R"(,"Nodes":null,"NodeNames":)" +
         json(json::array_t(nodes.begin(), nodes.end())).dump() + "}";
}

std::string EncodeBindArgs(const BindArgs& args) {
  return json{{"PodName", args.pod_name},
              {"PodNamespace", args.pod_namespace},
              {"PodUID", args.pod_uid},
              {"Node", args.node}}
      .dump();
}

std::string EncodePreemptionArgs(std::string_view pod,
                                 const std::map<std::string, Victims, std::less<>>& candidates) {
  json map = json::object();
  for (const auto& [node, victims] : candidates) {
    json pods = json::array();
    for (const std::string& uid : victims.pod_uids) pods.push_back({{"UID", uid}});
    map[node] = {{"Pods", std::move(pods)}, {"NumPDBViolations", victims.num_pdb_violations}};
  }
  return R"({"Pod":)" + std::string(pod) + R"(,"NodeNameToVictims":null,"NodeNameToMetaVictims":)" +
         map.dump() + "}";
}

std::expected<FilterAnswer, std::string> DecodeFilterResult(std::string_view body,
                                                            std::span<const std::string> offered) {
  std::string error;
  auto result = Decode<FilterAnswer>(body, [&](const json& answer) {
    FilterAnswer read;
    error = answer.value("Error", "");
    TakeRefusals(answer, "FailedNodes", read);
    TakeRefusals(answer, "FailedAndUnresolvableNodes", read);
    const auto names = answer.find("NodeNames");
    if (names != answer.end() && !names->is_null()) read.kept = names->get<decltype(read.kept)>();
    return read;
  });
  if (!result) return result;
  if (!error.empty()) return std::unexpected(error);
  const std::set<std::string_view> known(offered.begin(), offered.end());
  for (const std::string& node : result->kept) {
    if (!known.contains(node)) {
      return std::unexpected("filter named a node that was not offered: " + node);
    }
  }
  return result;
}

std::expected<std::vector<std::pair<std::string, std::int64_t>>, std::string> DecodePriorities(
    std::string_view body) {
  using Scores = std::vector<std::pair<std::string, std::int64_t>>;
  return Decode<Scores>(body, [](const json& answer) {
    Scores scores;
    for (const json& entry : answer) {
      scores.emplace_back(entry.at("Host").get<std::string>(),
                          entry.at("Score").get<std::int64_t>());
    }
    return scores;
  });
}

std::string DecodeBindResult(std::string_view body) {
  const auto error = Decode<std::string>(
      body, [](const json& answer) { return answer.at("Error").get<std::string>(); });
  return error ? *error : error.error();
}

std::expected<std::map<std::string, Victims, std::less<>>, std::string> DecodePreemptionResult(
    std::string_view body) {
  using Map = std::map<std::string, Victims, std::less<>>;
  auto result = Decode<Map>(body, [](const json& answer) {
    Map kept;
    for (const auto& [node, entry] : answer.at("NodeNameToMetaVictims").items()) {
      Victims& victims = kept[node];
      for (const json& pod : entry.at("Pods")) {
        victims.pod_uids.push_back(pod.at("UID").get<std::string>());
      }
      victims.num_pdb_violations = entry.at("NumPDBViolations").get<std::int64_t>();
    }
    return kept;
  });
  if (!result) return result;
  for (const auto& [node, victims] : *result) {
    if (victims.pod_uids.empty()) return std::unexpected("no victims on " + node);
  }
  return result;
}

}  // namespace berth::server
