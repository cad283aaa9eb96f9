// Credentials from the program that a kubeconfig names (`users[].user.exec`), as client-go gets
// them: client.authentication.k8s.io, v1 and v1beta1.
#pragma once

#include <expected>
#include <string>

#include "kube/client_config.h"

namespace berth::kube {

/// LoadKubeconfig, followed by the token or client certificate of the user's exec plug-in, if there
/// is one. For commands that people run in a terminal: the plug-in may ask questions there, and has
/// no time limit. The error is one line without secrets.
std::expected<ClientConfig, std::string> LoadUserKubeconfig(const std::string& path,
                                                            const std::string& context = "");

}  // namespace berth::kube
