#include "cluster/users.h"

#include <algorithm>

#include "cluster/plan_claim.h"
#include "cluster/string_map.h"

namespace berth::cluster {
namespace {

/// Kubernetes' rule. kube-apiserver keeps to it; a snapshot file may not, and the claim of a plan
/// has the user between semicolons.
bool IsLabelValue(std::string_view text) {
  constexpr std::size_t kMax = 63;
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  const auto inside = [&](char c) { return letter(c) || c == '-' || c == '_' || c == '.'; };
  return !text.empty() && text.size() <= kMax && letter(text.front()) && letter(text.back()) &&
         std::ranges::all_of(text, inside);
}

}  // namespace

const std::string& UserOf(const kube::Pod& pod) {
  const std::string* user = Find(pod.meta.labels, kUserLabel);
  return user != nullptr && IsLabelValue(*user) ? *user : pod.meta.ns;
}

std::string UserOfBound(const kube::Pod& pod) {
  const auto claim = ClaimOf(pod);
  if (!claim || claim->node != pod.node_name) return UserOf(pod);
  return IsLabelValue(claim->user) ? claim->user : pod.meta.ns;
}

std::string ClaimedUser(const kube::Pod& pod, const std::string& user) {
  return user == pod.meta.ns ? std::string() : user;
}

std::string_view SharerOf(config::FairWithin within, std::string_view user, std::string_view ns) {
  switch (within) {
    case config::FairWithin::kNone:
      return {};
    case config::FairWithin::kNamespace:
      return ns;
    case config::FairWithin::kUser:
      return user;
  }
  return {};
}

}  // namespace berth::cluster
