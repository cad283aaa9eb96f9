// Kubernetes objects that a command reads: from files, or from the cluster.
#pragma once

#include <expected>
#include <span>
#include <string>
#include <vector>

#include "config/manifests.h"

namespace berth::server {

/// A sentence, and the exit code for it.
struct ReadFailure {
  int code = 0;
  std::string message;
};

using Objects = std::vector<config::Manifest>;

/// `-` is standard input. At most 64 MiB a file.
std::expected<Objects, ReadFailure> ReadObjects(std::span<const std::string> files);

/// All objects of these kinds, each in the newest version that is served; a kind that is not served
/// has none. `kubeconfig` empty: the pod's service account.
std::expected<Objects, ReadFailure> ListObjects(const std::string& kubeconfig,
                                                std::span<const config::ApiResource> resources);

}  // namespace berth::server
