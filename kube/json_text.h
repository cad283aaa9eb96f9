// JSON values as the bodies of requests.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace berth::kube {

/// Compact. Text from outside that is not UTF-8 loses the bytes that are not.
inline std::string JsonText(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::ignore);
}

}  // namespace berth::kube
