// The options of `berth serve`, and their validation.
#pragma once

#include <chrono>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <vector>

#include "kube/leader_election.h"
#include "server/http/tls_context.h"

namespace berth::server {

/// As given on the command line.
struct ServeOptions {
  std::string kubeconfig;
  std::string policy_file;
  std::string policy_configmap;  ///< NAMESPACE/NAME
  std::string listen = "127.0.0.1:8888";
  std::string ops_listen = "127.0.0.1:9090";
  std::string health_listen;  ///< Empty: health is on --ops-listen alone.
  std::string ops_auth;       ///< kubernetes | none; empty: by address.
  std::string tls_cert_file;
  std::string tls_private_key_file;
  std::string client_ca_file;
  std::string client_allowed_names;  ///< Comma-separated.
  std::string ops_tls_cert_file;
  std::string ops_tls_private_key_file;
  std::optional<bool> leader_elect;  ///< Not given: only in a cluster, that is without
                                     ///< --kubeconfig.
  std::string leader_elect_namespace = "berth-system";
  std::string leader_elect_lease_duration = "15s";  ///< Go durations, as kube-scheduler's flags.
  std::string leader_elect_renew_deadline = "10s";
  std::string leader_elect_retry_period = "2s";
  std::string snapshot;
  std::string log_format = "text";
  int verbosity = 0;
  bool insecure_verbs = false;
  std::string decision_log;
  bool decision_log_inputs = false;
};

/// Where a port listens.
struct Address {
  std::string host;  ///< Without brackets.
  std::uint16_t port = 0;
  /// Whether only this machine can reach it.
  bool loopback() const;
};

/// ADDR:PORT; an IPv6 address in brackets, port 0 to 65535.
std::expected<Address, std::string> ParseAddress(const std::string& text);

/// The options, parsed and checked.
struct ServeSettings {
  Address verbs;
  Address ops;
  std::optional<Address> health{};      ///< A port for health only.
  std::optional<TlsOptions> verbs_tls;  ///< None: plain text.
  std::optional<TlsOptions> ops_tls;
  bool ops_auth = false;  ///< Callers of the operations port are checked against the cluster's
                          ///< RBAC.
  bool elects = false;    ///< A leader is elected; otherwise this process leads from the start.
  kube::ElectionOptions election;  ///< Its durations.
};

/// Error: one line that names the option.
std::expected<ServeSettings, std::string> CheckOptions(const ServeOptions& options);

}  // namespace berth::server
