// Whose token is this, and may they? The two questions that a server in a cluster asks of the API
// server (authentication.k8s.io/v1 TokenReview, authorization.k8s.io/v1 SubjectAccessReview), as
// values. Pure: server/ops_auth.h sends them.
#pragma once

#include <expected>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kube/http.h"

namespace berth::kube {

/// Who somebody is, as the API server knows them.
struct UserInfo {
  std::string name;
  std::string uid = {};
  std::vector<std::string> groups = {};
  std::map<std::string, std::vector<std::string>> extra = {};
};

/// What somebody wants to do: to a path that is no resource, or else to core resources.
struct AccessAttributes {
  std::string verb = "get";
  std::string path = {};      ///< Not empty: a nonResourceURL, and the rest does not count.
  std::string resource = {};  ///< `pods`
  std::string ns = {};        ///< Empty: in all namespaces.
  std::string name = {};      ///< Empty: all of them.
};

/// `cannot get path "/metrics"`, `cannot get resource "pods" in the namespace "team-a"`.
std::string DescribeRefusal(const AccessAttributes& wanted);

Request TokenReviewRequest(std::string_view token);
/// The user whose token it is; nullopt: nobody's, since it is wrong, expired or withdrawn. Error:
/// the API server did not say.
std::expected<std::optional<UserInfo>, std::string> DecodeTokenReview(const Response& response);

Request SubjectAccessReviewRequest(const UserInfo& user, const AccessAttributes& wanted);
/// Whether they may. Error: the API server did not say.
std::expected<bool, std::string> DecodeSubjectAccessReview(const Response& response);

}  // namespace berth::kube
