#include "server/cli/read_objects.h"

#include <fmt/format.h>

#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "kube/exec_plugin.h"
#include "kube/read_file.h"
#include "kube/rest_client.h"
#include "server/cli/exit_codes.h"

namespace berth::server {
namespace {

using nlohmann::literals::operator""_json_pointer;

constexpr std::size_t kMaxBytes = std::size_t{64} << 20U;

std::unexpected<ReadFailure> ReadFailed(int code, std::string message) {
  return std::unexpected(ReadFailure{.code = code, .message = std::move(message)});
}

/// The objects of one kind, in the newest version that is served; empty: not installed.
std::expected<Objects, std::string> List(kube::RestClient& client,
                                         const config::ApiResource& resource) {
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
      // Items of a list of the core group do not have their kind.
      item["kind"] = resource.kind;
      item["apiVersion"] = resource.group.empty() ? std::string(version)
                                                  : fmt::format("{}/{}", resource.group, version);
      const auto name = item.value("/metadata/name"_json_pointer, nlohmann::json());
      objects.push_back({.kind = std::string(resource.kind),
                         .name = name.is_string() ? name.get<std::string>() : std::string(),
                         .json = item.dump()});
    }
    return objects;
  }
  return Objects{};
}

}  // namespace

std::expected<Objects, ReadFailure> ReadObjects(std::span<const std::string> files) {
  Objects all;
  for (const std::string& file : files) {
    const auto text = file == "-" ? kube::ReadStream(std::cin, "standard input", kMaxBytes)
                                  : kube::ReadFile(file, kMaxBytes);
    if (!text) {
      return ReadFailed(text.error().unreadable ? kEnvironment : kBadInput, text.error().message);
    }
    auto objects = config::ReadManifests(*text);
    if (!objects) return ReadFailed(kBadInput, file + ": " + objects.error());
    std::ranges::move(*objects, std::back_inserter(all));
  }
  return all;
}

std::expected<Objects, ReadFailure> ListObjects(const std::string& kubeconfig,
                                                std::span<const config::ApiResource> resources) {
  const auto config =
      kubeconfig.empty() ? kube::LoadInCluster() : kube::LoadUserKubeconfig(kubeconfig);
  if (!config) return ReadFailed(kEnvironment, config.error());
  auto client = kube::RestClient::Create(*config);
  if (!client) return ReadFailed(kEnvironment, client.error());
  Objects all;
  for (const config::ApiResource& resource : resources) {
    auto objects = List(**client, resource);
    if (!objects) return ReadFailed(kEnvironment, objects.error());
    std::ranges::move(*objects, std::back_inserter(all));
  }
  return all;
}

}  // namespace berth::server
