#include "server/drivers/config_map.h"

#include <nlohmann/json.hpp>

namespace berth::server {
namespace {

std::string PathOf(const std::string& ns) { return "/api/v1/namespaces/" + ns + "/configmaps"; }

std::string ErrorOf(const std::expected<kube::Response, kube::TransportError>& response) {
  if (!response) return response.error().message;
  return "HTTP " + std::to_string(response->status) + " " + response->body.substr(0, 200);
}

}  // namespace

std::expected<std::optional<ConfigMapTexts>, std::string> ReadConfigMap(
    kube::RestClient& client, const std::string& ns, const std::string& name,
    kube::Duration timeout, const std::stop_token& stop) {
  kube::Request request;
  request.path = PathOf(ns) + "/" + name;
  request.timeout = timeout;
  const auto response = client.Do(request, stop);
  if (response && response->status == 404) return std::nullopt;
  if (!response || !response->Ok()) return std::unexpected(ErrorOf(response));
  ConfigMapTexts texts;
  const auto json = nlohmann::json::parse(response->body, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return texts;
  const auto data = json.find("data");
  if (data == json.end() || !data->is_object()) return texts;
  for (const auto& [key, value] : data->items()) {
    if (value.is_string()) texts.emplace(key, value.get<std::string>());
  }
  return texts;
}

std::expected<void, std::string> WriteConfigMap(kube::RestClient& client, const std::string& ns,
                                                const std::string& name,
                                                const ConfigMapTexts& texts, kube::Duration timeout,
                                                const std::stop_token& stop) {
  const nlohmann::json object{{"apiVersion", "v1"},
                              {"kind", "ConfigMap"},
                              {"metadata", {{"name", name}, {"namespace", ns}}},
                              {"data", texts}};
  kube::Request request;
  request.timeout = timeout;
  request.method = "PUT";
  request.path = PathOf(ns) + "/" + name;
  request.body = object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  auto response = client.Do(request, stop);
  if (response && response->status == 404) {
    request.method = "POST";
    request.path = PathOf(ns);
    response = client.Do(request, stop);
  }
  if (!response || !response->Ok()) return std::unexpected(ErrorOf(response));
  return {};
}

}  // namespace berth::server
