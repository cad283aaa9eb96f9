#include "server/cli/ungate.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <vector>

#include "cluster/plan_claim.h"
#include "kube/decode.h"
#include "kube/exec_plugin.h"
#include "kube/terminal.h"
#include "kube/writer.h"
#include "server/cli/exit_codes.h"

namespace berth::server {
namespace {

int Fail(const std::string& message) {
  kube::Write(stderr, fmt::format("berth ungate: {}\n", message));
  return kEnvironment;
}

/// The gated pods of one page of the list; `next` becomes the continue token.
std::expected<std::vector<kube::PodRef>, std::string> GatedPage(kube::RestClient& client,
                                                                std::string& next) {
  kube::Request request;
  request.path = "/api/v1/pods";
  request.query = {{"limit", "500"}, {"fieldSelector", "status.phase=Pending,spec.nodeName="}};
  if (!next.empty()) request.query.emplace_back("continue", next);
  const auto response = client.Do(request, {});
  if (!response) return std::unexpected(response.error().message);
  if (!response->Ok()) {
    return std::unexpected(kube::ParseStatus(response->body, response->status).message);
  }
  simdjson::dom::parser parser;
  simdjson::dom::element list;
  simdjson::dom::array items;
  if (parser.parse(response->body).get(list) != simdjson::SUCCESS ||
      list["items"].get(items) != simdjson::SUCCESS) {
    return std::unexpected("the answer is not a list of pods");
  }
  std::string_view token;
  next = list["metadata"]["continue"].get(token) == simdjson::SUCCESS ? std::string(token) : "";
  std::vector<kube::PodRef> gated;
  for (const auto item : items) {
    const auto pod = kube::DecodePod(item);
    if (pod && std::ranges::find(pod->scheduling_gates, cluster::kAdmissionGate) !=
                   pod->scheduling_gates.end()) {
      gated.push_back({.ns = pod->meta.ns, .name = pod->meta.name, .uid = pod->meta.uid});
    }
  }
  return gated;
}

}  // namespace

int UngateAll(const std::string& kubeconfig) {
  const auto config =
      kubeconfig.empty() ? kube::LoadInCluster() : kube::LoadUserKubeconfig(kubeconfig);
  if (!config) return Fail(config.error());
  auto client = kube::RestClient::Create(*config);
  if (!client) return Fail(client.error());
  kube::Writer writer(**client, "berth-ungate");
  int done = 0;
  int failed = 0;
  std::string next;
  do {
    const auto gated = GatedPage(**client, next);
    if (!gated) return Fail(gated.error());
    for (const kube::PodRef& pod : *gated) {
      const auto result = writer.Send(kube::RemoveGateRequest(pod, cluster::kAdmissionGate), {});
      const bool fine = result.outcome == kube::WriteOutcome::kDone ||
                        result.outcome == kube::WriteOutcome::kNotFound;
      ++(fine ? done : failed);
      if (!fine) kube::Write(stderr, fmt::format("{}/{}: {}\n", pod.ns, pod.name, result.message));
    }
  } while (!next.empty());
  kube::Write(stdout, fmt::format("{} pod(s) ungated, {} failed\n", done, failed));
  return failed == 0 ? 0 : kEnvironment;
}

}  // namespace berth::server
