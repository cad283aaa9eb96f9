// ConfigMaps of our own, in which something is kept over restarts and changes of the leader.
#pragma once

#include <expected>
#include <map>
#include <optional>
#include <stop_token>
#include <string>

#include "kube/rest_client.h"

namespace berth::server {

/// The texts of a ConfigMap, by key.
using ConfigMapTexts = std::map<std::string, std::string>;

/// Without those that are no text; nullopt: there is no such ConfigMap. Error: it could not be
/// read, for people.
std::expected<std::optional<ConfigMapTexts>, std::string> ReadConfigMap(
    kube::RestClient& client, const std::string& ns, const std::string& name,
    kube::Duration timeout, const std::stop_token& stop);

/// Replaces it as a whole, or makes it: two requests at most, each of which takes `timeout` at
/// most. Bytes that are not UTF-8 are replaced. Error: it could not be written, for people.
std::expected<void, std::string> WriteConfigMap(kube::RestClient& client, const std::string& ns,
                                                const std::string& name,
                                                const ConfigMapTexts& texts, kube::Duration timeout,
                                                const std::stop_token& stop);

}  // namespace berth::server
