// How what queues and users have used is kept in a ConfigMap.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/usage_meter.h"

namespace berth::server {

/// A ConfigMap has 1 MiB at most; the rest is for what is around the text.
inline constexpr std::size_t kMostUsageBytes = 900 * 1024;

/// As JSON. Where it would be longer than `most_bytes`, those who used least are summed up.
std::string EncodeUsage(cluster::UsageRecord record, std::size_t most_bytes = kMostUsageBytes);

/// What could be read of a ConfigMap's text.
struct DecodedUsage {
  cluster::UsageRecord record;
  std::vector<std::string> problems;  ///< What was left out, and why; a few of them.
};
/// Accepts any text: what cannot be true is left out.
DecodedUsage DecodeUsage(std::string_view text);

}  // namespace berth::server
