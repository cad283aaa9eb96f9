// `--ops-auth kubernetes`: who may read the operations port is the cluster's own RBAC's to say. A
// caller's bearer token is shown to the API server (TokenReview), then what its owner wants
// (SubjectAccessReview), as kube-scheduler and kube-controller-manager do for their ports.
//
// Nothing is let through that the API server did not allow: when it does not answer, the caller
// gets a 503. Answers are believed for 10 s, so that a token that expired or was withdrawn, or a
// right that was taken away, counts for 10 s more at the most. Tokens are not kept (their digests
// are) and never logged.
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
#include "server/expiring_cache.h"
#include "server/http_server.h"
#include "server/logging.h"
#include "server/metrics.h"

namespace berth::server {

/// Where a token may be that came through the API server's service proxy, which takes the one in
/// Authorization for itself.
inline constexpr const char* kProxiedTokenHeader = "Berth-Authorization";

/// How long an answer is believed: what Kubernetes' own components do by default
/// (k8s.io/apiserver, DelegatingAuthenticationOptions and DelegatingAuthorizationOptions).
inline constexpr std::chrono::seconds kReviewLife{10};
inline constexpr std::size_t kMaxReviews = 1024;  ///< Kept, of each of the two kinds.
/// Of one review. A request needs two at the most, so that it is answered before a client's usual
/// 10 s are over.
inline constexpr kube::Duration kReviewTimeout{4'000};
/// Under way at once: what strangers send must not take the API server's time from Bindings.
inline constexpr int kReviewCalls = 4;

/// Thread-safe.
class OpsAuth {
 public:
  /// Sends a request to the API server. Error: why no answer came.
  using Send = std::function<std::expected<kube::Response, std::string>(const kube::Request&)>;
  using Now = std::function<std::chrono::steady_clock::time_point()>;

  /// The references must outlive it.
  OpsAuth(Send send, Metrics& metrics, Logger& logger, Now now = std::chrono::steady_clock::now);

  /// nullopt: the caller may. Else 401 (no token, or nobody's), 403 (they may not) or 503 (the API
  /// server did not say). May block, on the caller's thread.
  std::optional<HttpResponse> Refusal(const HttpRequest& request,
                                      const kube::AccessAttributes& wanted);

 private:
  using User = std::optional<kube::UserInfo>;  ///< nullopt: nobody.

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
