// `berth check`.
#pragma once

#include <string>
#include <vector>

namespace berth::server {

struct CheckCommandOptions {
  std::vector<std::string> files;  ///< Policies; the last one is what the others are compared with.
  std::string scheduler_config;    ///< A KubeSchedulerConfiguration's file, or empty.
  std::vector<std::string> manifests;  ///< Files of Kubernetes objects; `-` is standard input.
  bool live = false;                   ///< The objects of the cluster, too.
  std::string kubeconfig;              ///< For that; empty: the pod's service account.
  std::string ns = "berth-system";     ///< Where Berth's ConfigMaps are.
};

/// Checks policies, and compares kube-scheduler's configuration and Berth's admission policies with
/// them. Among the objects of manifests and cluster, policies are ConfigMaps with the key
/// policy.yaml, and kube-scheduler's configurations those with kube-scheduler-config.yaml. The exit
/// code: 1 where something is wrong, 2 where nothing was named, 3 where something cannot be read.
int CheckCommand(const CheckCommandOptions& options);

}  // namespace berth::server
