// Who a pod is of: the users among whom a queue shares its devices, and whose jobs it counts.
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

/// Of a bound pod: who it was charged to when it was bound, by the claim of its Binding; without
/// such a claim, UserOf.
std::string UserOfBound(const kube::Pod& pod);

/// How the claim of a pod that is charged to `user` names that user: empty for its namespace.
std::string ClaimedUser(const kube::Pod& pod, const std::string& user);

/// Among whom `within` shares a queue: the user or the namespace; empty: nobody.
std::string_view SharerOf(config::FairWithin within, std::string_view user, std::string_view ns);

}  // namespace berth::cluster
