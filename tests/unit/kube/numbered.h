// Objects with more keys than are read.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace berth::kube {

/// PREFIX0000, PREFIX0001, ... with this value.
inline nlohmann::json Numbered(const std::string& prefix, int count, const std::string& value) {
  auto map = nlohmann::json::object();
  for (int i = 0; i < count; ++i) {
    const std::string number = std::to_string(i);
    map[prefix + std::string(4 - number.size(), '0') + number] = value;
  }
  return map;
}

}  // namespace berth::kube
