#include "server/import_command.h"

#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "config/decode.h"
#include "config/import.h"
#include "kube/client_config.h"
#include "kube/read_file.h"
#include "kube/rest_client.h"
#include "kube/terminal.h"
#include "server/exit_codes.h"

namespace berth::server {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{64} << 20U;

using Objects = std::vector<config::Manifest>;

int Fail(int code, const std::string& message) {
  kube::Write(stderr, fmt::format("berth import: {}\n", message));
  return code;
}

/// The objects of one kind, of the newest version that is served; none: not installed.
std::expected<Objects, std::string> List(kube::RestClient& client,
                                         const config::PeerResource& resource) {
  for (const std::string_view version : resource.versions) {
    if (version.empty()) break;
    const std::string api = resource.group.empty()
                                ? fmt::format("/api/{}", version)
                                : fmt::format("/apis/{}/{}", resource.group, version);
    kube::Request request;
    request.path = fmt::format("{}/{}", api, resource.plural);
    const auto response = client.Do(request, {});
    if (!response) return std::unexpected(response.error().message);
    if (response->status == 404) continue;
    if (!response->Ok()) {
      return std::unexpected(fmt::format(
          "{}: {}", request.path, kube::ParseStatus(response->body, response->status).message));
    }
    auto list = nlohmann::json::parse(response->body, nullptr, /*allow_exceptions=*/false);
    Objects objects;
    if (!list.is_object() || !list["items"].is_array()) {
      return std::unexpected(request.path + ": the answer is not a list");
    }
    for (auto& item : list["items"]) {
      if (!item.is_object()) continue;
      // Items of a list of the core group do not repeat what they are.
      item["kind"] = resource.kind;
      item["apiVersion"] = resource.group.empty() ? std::string(version)
                                                  : fmt::format("{}/{}", resource.group, version);
      objects.push_back({.kind = std::string(resource.kind), .name = {}, .json = item.dump()});
    }
    return objects;
  }
  return Objects{};
}

std::expected<Objects, int> FromCluster(const std::string& kubeconfig, config::Peer peer) {
  const auto config = kubeconfig.empty() ? kube::LoadInCluster() : kube::LoadKubeconfig(kubeconfig);
  if (!config) return std::unexpected(Fail(kEnvironment, config.error()));
  auto client = kube::RestClient::Create(*config);
  if (!client) return std::unexpected(Fail(kEnvironment, client.error()));
  Objects all;
  for (const config::PeerResource& resource : config::ResourcesOf(peer)) {
    auto objects = List(**client, resource);
    if (!objects) return std::unexpected(Fail(kEnvironment, objects.error()));
    std::ranges::move(*objects, std::back_inserter(all));
  }
  return all;
}

std::expected<Objects, int> FromFiles(const std::vector<std::string>& files) {
  Objects all;
  for (const std::string& file : files) {
    const auto text = file == "-" ? kube::ReadStream(std::cin, "standard input", kMaxBytes)
                                  : kube::ReadFile(file, kMaxBytes);
    if (!text) {
      const int code = text.error().unreadable ? kEnvironment : kBadInput;
      return std::unexpected(Fail(code, text.error().message));
    }
    auto objects = config::ReadManifests(*text);
    if (!objects) return std::unexpected(Fail(kBadInput, file + ": " + objects.error()));
    std::ranges::move(*objects, std::back_inserter(all));
  }
  return all;
}

}  // namespace

int ImportCommand(const ImportOptions& options) {
  const auto peer = config::PeerNamed(options.peer);
  if (!peer) return Fail(kBadInput, options.peer + ": not a project that can be imported from");
  const bool live = options.files.empty();
  const auto objects = live ? FromCluster(options.kubeconfig, *peer) : FromFiles(options.files);
  if (!objects) return objects.error();
  const std::string source =
      live ? std::string("the cluster") : fmt::format("{}", fmt::join(options.files, ", "));
  const auto policy = config::Import(*peer, *objects, source);
  if (!policy) return Fail(kBadInput, policy.error());
  kube::Write(stdout, *policy);
  // Never a policy that Berth would refuse without a word about it.
  const auto decoded = config::DecodePolicy(*policy, "the imported policy");
  if (decoded) return 0;
  for (const auto& diagnostic : decoded.error()) {
    kube::Write(stderr, fmt::format("berth import: {}\n", diagnostic.ToString()));
  }
  return kBadInput;
}

}  // namespace berth::server
