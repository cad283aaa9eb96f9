#include "server/ops/ops_auth.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace berth::server {
namespace {

HttpResponse Text(int status, std::string body) {
  return {.status = status,
          .body = std::move(body) + "\n",
          .content_type = "text/plain; charset=utf-8"};
}

/// SHA-256, so that the cache holds no tokens and is small.
std::string Digest(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  if (EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr) != 1) {
    throw std::bad_alloc();
  }
  return {digest.begin(), digest.begin() + size};
}

bool IsTokenCharacter(char c) {  // RFC 6750, b64token
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("-._~+/=").find(c) != std::string_view::npos;
}

/// The token of `Authorization: Bearer TOKEN`, else of kProxiedTokenHeader; empty: no header holds
/// a possible token.
std::string TokenOf(const HttpRequest& request) {
  std::string_view value = request.Header("authorization");
  if (value.empty()) value = request.Header(kProxiedTokenHeader);
  constexpr std::string_view kScheme = "bearer ";
  if (value.size() <= kScheme.size() ||
      !std::ranges::equal(value.substr(0, kScheme.size()), kScheme, [](char a, char b) {
        return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
      })) {
    return {};
  }
  value.remove_prefix(kScheme.size());
  while (value.starts_with(' ')) value.remove_prefix(1);
  while (value.ends_with(' ')) value.remove_suffix(1);
  if (!std::ranges::all_of(value, IsTokenCharacter)) return {};
  return std::string(value);
}

}  // namespace

OpsAuth::OpsAuth(Send send, Metrics& metrics, Logger& logger, Now now)
    : send_(std::move(send)),
      metrics_(metrics),
      logger_(logger),
      now_(std::move(now)),
      users_(kMaxReviews, kReviewLife),
      decisions_(kMaxReviews, kReviewLife) {}

std::optional<HttpResponse> OpsAuth::Refusal(const HttpRequest& request,
                                             const kube::AccessAttributes& wanted) {
  const std::string token = TokenOf(request);
  User user;
  if (!token.empty()) {
    auto answer = WhoIs(token);
    if (!answer) return Unknown(answer.error());
    user = std::move(*answer);
  }
  if (!user) {
    metrics_.CountOpsAuth("unauthorized");
    return Text(401, "Unauthorized: a bearer token that this cluster's API server knows is needed");
  }
  const auto may = May(*user, wanted);
  if (!may) return Unknown(may.error());
  if (!*may) {
    metrics_.CountOpsAuth("forbidden");
    return Text(403, "Forbidden: user \"" + user->name + "\" " + kube::DescribeRefusal(wanted));
  }
  metrics_.CountOpsAuth("allowed");
  return std::nullopt;
}

std::expected<OpsAuth::User, std::string> OpsAuth::WhoIs(const std::string& token) {
  const std::string key = Digest(token);
  {
    const std::lock_guard lock(mutex_);
    if (const User* known = users_.Find(key, now_())) return *known;
  }
  const auto response = Ask(kube::TokenReviewRequest(token));
  if (!response) return std::unexpected(response.error());
  auto user = kube::DecodeTokenReview(*response);
  if (!user) return std::unexpected("TokenReview: " + user.error());
  const std::lock_guard lock(mutex_);
  users_.Put(key, *user, now_());
  return std::move(*user);
}

std::expected<bool, std::string> OpsAuth::May(const kube::UserInfo& user,
                                              const kube::AccessAttributes& wanted) {
  kube::Request request = kube::SubjectAccessReviewRequest(user, wanted);
  const std::string key = Digest(request.body);
  {
    const std::lock_guard lock(mutex_);
    if (const bool* known = decisions_.Find(key, now_())) return *known;
  }
  const auto response = Ask(std::move(request));
  if (!response) return std::unexpected(response.error());
  const auto may = kube::DecodeSubjectAccessReview(*response);
  if (!may) return std::unexpected("SubjectAccessReview: " + may.error());
  const std::lock_guard lock(mutex_);
  decisions_.Put(key, *may, now_());
  reported_.clear();
  return *may;
}

std::expected<kube::Response, std::string> OpsAuth::Ask(kube::Request request) {
  request.timeout = kReviewTimeout;
  return send_(request);
}

/// Logged once, until a review succeeds again: any client can cause it at will.
HttpResponse OpsAuth::Unknown(const std::string& error) {
  metrics_.CountOpsAuth("error");
  bool report = false;
  {
    const std::lock_guard lock(mutex_);
    report = std::exchange(reported_, error).empty();
  }
  if (report) {
    logger_.Log(Severity::kWarning, "the API server does not say who may read the operations port",
                {{"error", error}});
  }
  return Text(503, "the API server does not say whether you may: try again");
}

}  // namespace berth::server
