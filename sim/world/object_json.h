// Objects as the API server sends them, in JSON: the inverse of kube/decode.h, for a world that
// hands Berth the bytes that it gets in production.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "config/policy_configuration.h"
#include "kube/objects.h"

namespace berth::sim {

/// A v1.Pod of one container. Of `invalid_request` only what the requests themselves say survives.
nlohmann::json PodJson(const kube::Pod& pod);
/// A v1.Node.
nlohmann::json NodeJson(const kube::Node& node);
/// A policy/v1.PodDisruptionBudget, as far as Berth reads it.
nlohmann::json BudgetJson(const kube::PodDisruptionBudget& budget);
/// The v1.ConfigMap that Berth watches for its policy (server/informers.h). Nobody looks at its
/// version.
nlohmann::json PolicyJson(const config::PolicyConfiguration& policy);

/// The bytes of a JSON document; what is not UTF-8 becomes U+FFFD, as Go's encoder has it.
std::string Bytes(const nlohmann::json& document);

/// Where two objects differ first, by value: `spec.tolerations`. Empty: nowhere.
std::string Difference(const kube::Pod& a, const kube::Pod& b);
std::string Difference(const kube::Node& a, const kube::Node& b);
std::string Difference(const kube::PodDisruptionBudget& a, const kube::PodDisruptionBudget& b);

}  // namespace berth::sim
