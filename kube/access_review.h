// Whose token is this, and what may its owner do? The two questions that a server in a cluster asks
// the API server (authentication.k8s.io/v1 TokenReview, authorization.k8s.io/v1
// SubjectAccessReview), as values. Pure: server/ops/ops_auth.h sends them.
#pragma once

#include <expected>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kube/http.h"

namespace berth::kube {

/// A user as the API server knows them.
struct UserInfo {
  std::string name;
  std::string uid = {};
  std::vector<std::string> groups = {};
  std::map<std::string, std::vector<std::string>> extra = {};
};

/// What a user wants to access: a path that is not a resource, or else core resources.
struct AccessAttributes {
  std::string verb = "get";
  std::string path = {};      ///< Not empty: a nonResourceURL, and the other fields are ignored.
  std::string resource = {};  ///< `pods`
  std::string ns = {};        ///< Empty: in all namespaces.
  std::string name = {};      ///< Empty: all of them.
};

/// `cannot get path "/metrics"`, `cannot get resource "pods" in the namespace "team-a"`.
std::string DescribeRefusal(const AccessAttributes& wanted);

/// Asks the API server whose token it is.
Request TokenReviewRequest(std::string_view token);
/// The user whose token it is; nullopt: no user's, since the token is wrong, expired or revoked.
/// Error: the API server gave no usable answer.
std::expected<std::optional<UserInfo>, std::string> DecodeTokenReview(const Response& response);

/// Asks the API server whether the user may do that.
Request SubjectAccessReviewRequest(const UserInfo& user, const AccessAttributes& wanted);
/// Whether the user may. Error: the API server gave no usable answer.
std::expected<bool, std::string> DecodeSubjectAccessReview(const Response& response);

}  // namespace berth::kube
