// `berth check`.
#pragma once

#include <string>
#include <vector>

namespace berth::server {

struct CheckCommandOptions {
  std::vector<std::string> files;      ///< Policies; the others are compared with the last one.
  std::string scheduler_config;        ///< A file with a KubeSchedulerConfiguration, or empty.
  std::vector<std::string> manifests;  ///< Files of Kubernetes objects; `-` is standard input.
  bool live = false;                   ///< Also the objects of the cluster.
  std::string kubeconfig;              ///< For `live`; empty: the pod's service account.
  bool schema = false;                 ///< Only print the schema of policies.
  std::string ns = "berth-system";     ///< Where Berth's ConfigMaps are.
};

/// Checks policies, and compares kube-scheduler's configuration and Berth's admission policies with
/// them. Among the objects of manifests and cluster, policies are ConfigMaps with the key
/// policy.yaml, and kube-scheduler's configurations are those with the key
/// kube-scheduler-config.yaml. The exit code: 1 where something is wrong, 2 where nothing was
/// named, 3 where something cannot be read.
int CheckCommand(const CheckCommandOptions& options);

}  // namespace berth::server
