// Look-ups in labels and annotations.
#pragma once

#include <string>
#include <string_view>

#include "kube/objects.h"

namespace berth::cluster {

/// Null: there is no such key, or its value is empty.
inline const std::string* Find(const kube::StringMap& map, std::string_view key) {
  const auto it = map.find(key);
  return it == map.end() || it->second.empty() ? nullptr : &it->second;
}

}  // namespace berth::cluster
