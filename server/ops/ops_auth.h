// `--ops-auth kubernetes`: the cluster's own RBAC decides who may read the operations port. A
// caller's bearer token is sent to the API server (TokenReview), then what its owner wants to
// access (SubjectAccessReview), as kube-scheduler and kube-controller-manager do for their ports.
//
// A request is only let through if the API server allowed it: if the API server does not answer,
// the caller gets a 503. Answers are cached for 10 s, so that a token that expired or was revoked,
// or a right that was removed, counts for at most 10 s more. Tokens are not kept (only their
// digests are) and never logged.
#pragma once

#include <chrono>
#include <cstddef>
#include <expected>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "kube/access_review.h"
#include "kube/http.h"
#include "server/http/http_server.h"
#include "server/logging.h"
#include "server/ops/expiring_cache.h"
#include "server/ops/metrics.h"

namespace berth::server {

/// The header for a token that comes through the API server's service proxy, which removes the one
/// in Authorization.
inline constexpr const char* kProxiedTokenHeader = "Berth-Authorization";

/// How long an answer is cached: the default of Kubernetes' own components (k8s.io/apiserver,
/// DelegatingAuthenticationOptions and DelegatingAuthorizationOptions).
inline constexpr std::chrono::seconds kReviewLife{10};
inline constexpr std::size_t kMaxReviews = 1024;  ///< Cached, of each of the two kinds.
/// For one review. A request needs at most two, so that it is answered before a client's usual 10 s
/// are over.
inline constexpr kube::Duration kReviewTimeout{4'000};
/// Concurrent reviews: requests of unknown clients must not take the API server's time from
/// Bindings.
inline constexpr int kReviewCalls = 4;

/// Thread-safe.
class OpsAuth {
 public:
  /// Sends a request to the API server. Error: why no answer came.
  using Send = std::function<std::expected<kube::Response, std::string>(const kube::Request&)>;
  using Now = std::function<std::chrono::steady_clock::time_point()>;

  /// The references must outlive it.
  OpsAuth(Send send, Metrics& metrics, Logger& logger, Now now = std::chrono::steady_clock::now);

  /// nullopt: the caller may. Otherwise 401 (no token, or no user's), 403 (access denied) or 503
  /// (the API server gave no answer). May block, on the caller's thread.
  std::optional<HttpResponse> Refusal(const HttpRequest& request,
                                      const kube::AccessAttributes& wanted);

 private:
  using User = std::optional<kube::UserInfo>;  ///< nullopt: no user.

  std::expected<User, std::string> WhoIs(const std::string& token);
  std::expected<bool, std::string> May(const kube::UserInfo& user,
                                       const kube::AccessAttributes& wanted);
  std::expected<kube::Response, std::string> Ask(kube::Request request);
  HttpResponse Unknown(const std::string& error);

  const Send send_;
  Metrics& metrics_;
  Logger& logger_;
  const Now now_;

  std::mutex mutex_;  ///< Guards what follows. Never held over a call.
  ExpiringCache<User> users_;
  ExpiringCache<bool> decisions_;
  std::string reported_;  ///< The last failure that was logged; empty: the last review succeeded.
};

}  // namespace berth::server
