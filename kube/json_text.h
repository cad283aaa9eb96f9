// JSON values as the bodies of requests.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace berth::kube {

/// Compact. Bytes that are not UTF-8 are dropped from text.
inline std::string JsonText(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::ignore);
}

}  // namespace berth::kube
