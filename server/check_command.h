// `berth check`.
#pragma once

#include <string>
#include <vector>

namespace berth::server {

/// Checks policy files, and kube-scheduler's configuration against the last of them, where one is
/// named. The exit code: 1 where a file is wrong, 3 where one cannot be read.
int CheckFiles(const std::vector<std::string>& files, const std::string& scheduler_config);

}  // namespace berth::server
