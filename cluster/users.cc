#include "cluster/users.h"

#include "cluster/plan_claim.h"
#include "cluster/string_map.h"
#include "kube/label_value.h"

namespace berth::cluster {
namespace {

/// kube-apiserver keeps to the rule of label values; a snapshot file may not, and the claim of a
/// plan has the user between semicolons.
bool IsUser(std::string_view text) { return !text.empty() && kube::IsLabelValue(text); }

}  // namespace

const std::string& UserOf(const kube::Pod& pod) {
  const std::string* user = Find(pod.meta.labels, kUserLabel);
  return user != nullptr && IsUser(*user) ? *user : pod.meta.ns;
}

std::string UserOfBound(const kube::Pod& pod) {
  const auto claim = ClaimOf(pod);
  if (!claim || claim->node != pod.node_name) return UserOf(pod);
  return IsUser(claim->user) ? claim->user : pod.meta.ns;
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
