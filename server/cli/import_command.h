// `berth import`: reads another project's queues from files or a cluster and prints the policy.
#pragma once

#include <string>
#include <vector>

namespace berth::server {

struct ImportOptions {
  std::string peer;                ///< `kueue`, `volcano`, `kai`.
  std::vector<std::string> files;  ///< `-` is standard input. None: the cluster.
  std::string kubeconfig;          ///< Empty: the pod's service account.
};

/// The exit code: 1 where the input is wrong, 3 where the cluster or a file cannot be read.
int ImportCommand(const ImportOptions& options);

}  // namespace berth::server
