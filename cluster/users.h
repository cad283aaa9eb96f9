// Which user a pod belongs to. A queue can share its devices among users, and count the jobs of
// each.
#pragma once

#include <string>
#include <string_view>

#include "config/policy_configuration.h"
#include "kube/objects.h"

namespace berth::cluster {

inline constexpr std::string_view kUserLabel = "berth.dev/user";

/// What the pod says: its label `berth.dev/user`, or, where that is missing, empty or no value of a
/// label, its namespace.
const std::string& UserOf(const kube::Pod& pod);

/// Of a bound pod: the user that was charged when it was bound, by the claim of its Binding;
/// without such a claim, UserOf.
std::string UserOfBound(const kube::Pod& pod);

/// How the claim of a pod that is charged to `user` names that user: empty for its namespace.
std::string ClaimedUser(const kube::Pod& pod, const std::string& user);

/// What a queue is shared among, as `within` says: `user` or `ns`; empty: it is not shared.
std::string_view SharerOf(config::FairWithin within, std::string_view user, std::string_view ns);

}  // namespace berth::cluster
