// `berth ungate --all`: the break-glass. Needs no running service, only the API server.
#pragma once

#include <string>

namespace berth::server {

/// Removes Berth's scheduling gate from every pending pod, so that kube-scheduler schedules them as
/// they are. Prints what it did. The exit code: 0, or 3 if the API server failed.
int UngateAll(const std::string& kubeconfig);

}  // namespace berth::server
