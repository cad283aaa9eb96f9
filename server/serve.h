// `berth serve`: wires the service together and runs it until a signal.
#pragma once

#include <optional>
#include <string>

namespace berth::server {

struct ServeOptions {
  std::string kubeconfig;
  std::string policy_file;
  std::string policy_configmap;  ///< NAMESPACE/NAME
  std::string listen = "127.0.0.1:8888";
  std::string ops_listen = "127.0.0.1:9090";
  std::string ops_auth;  ///< kubernetes | none; empty: by address.
  std::string tls_cert_file;
  std::string tls_private_key_file;
  std::string client_ca_file;
  std::string client_allowed_names;  ///< Comma-separated.
  std::optional<bool> leader_elect;  ///< Not given: in a cluster, so without --kubeconfig.
  std::string leader_elect_namespace = "berth-system";
  std::string snapshot;
  std::string log_format = "text";
  int verbosity = 0;
  bool insecure_verbs = false;
  std::string decision_log;
  bool decision_log_inputs = false;
  bool no_watch_list = false;
};

/// The process's exit code (CONTRACT: 0 fine, 1 bad input, 2 usage, 3 environment).
int Serve(const ServeOptions& options);

}  // namespace berth::server
