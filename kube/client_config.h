// Where the API server is and which credentials to use: from a kubeconfig file or from the pod's
// service account. Plain values: nothing here opens a connection.
#pragma once

#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace berth::kube {

/// The program that a kubeconfig names for its user's credentials; see kube/exec_plugin.h.
struct ExecPlugin {
  std::string api_version;
  std::string command;  ///< With a slash: a path; else looked up in $PATH.
  std::vector<std::string> args;
  std::vector<std::pair<std::string, std::string>> env;
  std::string install_hint;
  bool may_ask = true;  ///< From interactiveMode: it may use the terminal, if there is one.
  bool provide_cluster_info = false;
  std::string ca_base64;  ///< The cluster's CA, for provide_cluster_info.
};

/// How to reach one API server and authenticate to it. `*_data` holds PEM text and wins over the
/// file of the same name. Holds secrets: never log it.
struct ClientConfig {
  std::string server;  ///< `https://host:port`, optionally with a path; no trailing slash.
  std::string ns;      ///< The context's or the service account's namespace; may be empty.
  std::string ca_file;
  std::string ca_data;
  std::string token;
  std::string token_file;  ///< Re-read as it rotates; wins over `token`.
  std::string client_cert_file;
  std::string client_cert_data;
  std::string client_key_file;
  std::string client_key_data;
  std::string tls_server_name;  ///< The name to expect in the certificate, if it differs from the
                                ///< host's.
  std::string proxy_url;        ///< Empty: the environment decides, but never for loopback.
  bool insecure_skip_verify = false;
  std::optional<ExecPlugin> exec{};  ///< Not run yet: RestClient refuses it.
};

/// Where the kubelet mounts a pod's service account.
inline constexpr std::string_view kServiceAccountDir =
    "/var/run/secrets/kubernetes.io/serviceaccount";

/// Reads a kubeconfig file and resolves `context`, or its current-context where that is empty. File
/// names in it are relative to it, as in kubectl. Refuses what Berth cannot do faithfully
/// (auth-provider plug-ins, basic auth, impersonation) instead of ignoring it. Runs nothing. The
/// error is one line without secrets.
std::expected<ClientConfig, std::string> LoadKubeconfig(const std::string& path,
                                                        const std::string& context = "");

/// The in-cluster configuration, from KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT and the
/// mounted service account.
std::expected<ClientConfig, std::string> LoadInCluster();

/// LoadInCluster() with its environment as arguments. An IPv6 `host` comes without brackets.
std::expected<ClientConfig, std::string> InClusterConfig(std::string_view host,
                                                         std::string_view port,
                                                         const std::string& service_account_dir);

/// Decodes standard base64; blanks and line ends are skipped. Error: not base64.
std::expected<std::string, std::string> DecodeBase64(std::string_view text);

}  // namespace berth::kube
