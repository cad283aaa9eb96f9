// Objects as the API server sends them, in JSON: the inverse of kube/decode.h, for a world that
// passes Berth the same bytes as in production.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "config/policy_configuration.h"
#include "kube/objects.h"

namespace berth::sim {

/// A v1.Pod with one container. Of `invalid_request` only what the requests themselves express
/// survives.
nlohmann::json PodJson(const kube::Pod& pod);
/// A v1.Node.
nlohmann::json NodeJson(const kube::Node& node);
/// A policy/v1.PodDisruptionBudget with the fields that Berth reads.
nlohmann::json BudgetJson(const kube::PodDisruptionBudget& budget);
/// A batch/v1.Job with the fields that Berth reads.
nlohmann::json JobJson(kube::JobKind kind, const kube::Job& job);
/// The v1.ConfigMap that Berth watches for its policy (server/drivers/informers.h). Its resource
/// version is not used.
nlohmann::json PolicyJson(const config::PolicyConfiguration& policy);

/// The bytes of a JSON document; what is not UTF-8 becomes U+FFFD, as in Go's encoder.
std::string Bytes(const nlohmann::json& document);

/// Path of the first field whose value differs, such as `spec.tolerations`. Empty: none.
std::string Difference(const kube::Pod& a, const kube::Pod& b);
std::string Difference(const kube::Node& a, const kube::Node& b);
std::string Difference(const kube::PodDisruptionBudget& a, const kube::PodDisruptionBudget& b);

}  // namespace berth::sim
