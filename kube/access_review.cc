#include "kube/access_review.h"

#include <nlohmann/json.hpp>

#include "kube/api_status.h"
#include "kube/json_text.h"

namespace berth::kube {
namespace {

using nlohmann::json;

/// The review's `status`; an error if it lacks the flag that holds the answer.
std::expected<json, std::string> StatusOf(const Response& response, const char* flag) {
  if (!response.Ok()) {
    const ApiStatus status = ParseStatus(response.body, response.status);
    return std::unexpected("HTTP " + std::to_string(response.status) + ": " + status.message);
  }
  const json review = json::parse(response.body, nullptr, /*allow_exceptions=*/false);
  json status = review.is_object() ? review.value("status", json()) : json();
  if (!status.is_object()) return std::unexpected("the answer is no review");
  // Omitted where it is false.
  const auto at = status.find(flag);
  if (at != status.end() && !at->is_boolean()) return std::unexpected("the answer is no review");
  return status;
}

bool Says(const json& status, const char* flag) {
  const auto at = status.find(flag);
  return at != status.end() && at->is_boolean() && at->get<bool>();
}

std::string Text(const json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_string() ? at->get<std::string>() : std::string();
}

std::vector<std::string> Texts(const json& list) {
  std::vector<std::string> texts;
  for (const json& item : list.is_array() ? list : json::array()) {
    if (item.is_string()) texts.push_back(item.get<std::string>());
  }
  return texts;
}

}  // namespace

std::string DescribeRefusal(const AccessAttributes& wanted) {
  if (!wanted.path.empty()) return "cannot " + wanted.verb + " path \"" + wanted.path + "\"";
  return "cannot " + wanted.verb + " resource \"" + wanted.resource + "\" " +
         (wanted.ns.empty() ? std::string("in all namespaces")
                            : "in the namespace \"" + wanted.ns + "\"");
}

Request TokenReviewRequest(std::string_view token) {
  Request request;
  request.method = "POST";
  request.path = "/apis/authentication.k8s.io/v1/tokenreviews";
  request.body = JsonText({{"apiVersion", "authentication.k8s.io/v1"},
                           {"kind", "TokenReview"},
                           {"spec", {{"token", token}}}});
  return request;
}

std::expected<std::optional<UserInfo>, std::string> DecodeTokenReview(const Response& response) {
  const auto status = StatusOf(response, "authenticated");
  if (!status) return std::unexpected(status.error());
  if (!Says(*status, "authenticated")) return std::nullopt;
  const json user = status->value("user", json());
  if (!user.is_object() || Text(user, "username").empty()) {
    return std::unexpected("the answer names no user");
  }
  UserInfo info{.name = Text(user, "username"),
                .uid = Text(user, "uid"),
                .groups = Texts(user.value("groups", json()))};
  const json extra = user.value("extra", json());
  if (extra.is_object()) {
    for (const auto& [key, values] : extra.items()) info.extra[key] = Texts(values);
  }
  return info;
}

Request SubjectAccessReviewRequest(const UserInfo& user, const AccessAttributes& wanted) {
  json spec = {{"user", user.name}};
  if (!user.uid.empty()) spec["uid"] = user.uid;
  if (!user.groups.empty()) spec["groups"] = user.groups;
  if (!user.extra.empty()) spec["extra"] = user.extra;
  if (!wanted.path.empty()) {
    spec["nonResourceAttributes"] = {{"path", wanted.path}, {"verb", wanted.verb}};
  } else {
    json& attributes = spec["resourceAttributes"];
    attributes = {{"verb", wanted.verb}, {"version", "v1"}, {"resource", wanted.resource}};
    if (!wanted.ns.empty()) attributes["namespace"] = wanted.ns;
    if (!wanted.name.empty()) attributes["name"] = wanted.name;
  }
  Request request;
  request.method = "POST";
  request.path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
  request.body = JsonText({{"apiVersion", "authorization.k8s.io/v1"},
                           {"kind", "SubjectAccessReview"},
                           {"spec", std::move(spec)}});
  return request;
}

std::expected<bool, std::string> DecodeSubjectAccessReview(const Response& response) {
  const auto status = StatusOf(response, "allowed");
  if (!status) return std::unexpected(status.error());
  return Says(*status, "allowed") && !Says(*status, "denied");
}

}  // namespace berth::kube
