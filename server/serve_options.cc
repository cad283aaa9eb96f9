#include "server/serve_options.h"

#include <arpa/inet.h>

#include <charconv>
#include <sstream>

#include "kube/time.h"

namespace berth::server {
namespace {

using Error = std::unexpected<std::string>;

std::vector<std::string> SplitNames(const std::string& text) {
  std::vector<std::string> names;
  std::istringstream in(text);
  for (std::string name; std::getline(in, name, ',');) {
    if (!name.empty()) names.push_back(name);
  }
  return names;
}

std::expected<void, std::string> ReadTls(const ServeOptions& o, ServeSettings& settings) {
  if (o.tls_cert_file.empty() != o.tls_private_key_file.empty()) {
    return Error("--tls-cert-file and --tls-private-key-file belong together");
  }
  if (o.ops_tls_cert_file.empty() != o.ops_tls_private_key_file.empty()) {
    return Error("--ops-tls-cert-file and --ops-tls-private-key-file belong together");
  }
  if (o.tls_cert_file.empty() && !o.client_ca_file.empty()) {
    return Error("--client-ca-file needs --tls-cert-file");
  }
  const auto names = SplitNames(o.client_allowed_names);
  if (o.client_ca_file.empty() && !o.client_allowed_names.empty()) {
    return Error(
        "--client-allowed-names needs --client-ca-file: without it callers do not prove their "
        "names");
  }
  if (names.empty() && !o.client_allowed_names.empty()) {
    return Error("--client-allowed-names holds no name");
  }
  if (o.tls_cert_file.empty() && !settings.verbs.loopback() && !o.insecure_verbs) {
    return Error("--listen " + o.listen +
                 ": the verbs are served in plain text on loopback only; give --tls-cert-file, or "
                 "--insecure-verbs if the network is trusted");
  }
  if (!o.tls_cert_file.empty()) {
    settings.verbs_tls = TlsOptions{.cert_file = o.tls_cert_file,
                                    .key_file = o.tls_private_key_file,
                                    .client_ca_file = o.client_ca_file,
                                    .client_allowed_names = names};
  }
  if (!o.ops_tls_cert_file.empty()) {
    settings.ops_tls =
        TlsOptions{.cert_file = o.ops_tls_cert_file, .key_file = o.ops_tls_private_key_file};
  }
  return {};
}

std::expected<void, std::string> ReadDuration(const char* option, const std::string& text,
                                              kube::Duration& into) {
  const auto parsed = kube::ParseDuration(text);
  const auto most = std::chrono::hours(1);  // Nobody wants to wait longer for a dead leader.
  if (!parsed || *parsed < std::chrono::milliseconds(1) || *parsed > most) {
    return Error(std::string(option) + " " + text + ": must be a duration like 15s, at most 1h");
  }
  into = std::chrono::duration_cast<kube::Duration>(*parsed);
  return {};
}

/// As client-go's NewLeaderElector: a leader that renews late must have stopped before another may
/// begin, and must have had more than one attempt.
std::expected<void, std::string> ReadElection(const ServeOptions& o,
                                              kube::ElectionOptions& election) {
  for (const auto& read : {ReadDuration("--leader-elect-lease-duration",
                                        o.leader_elect_lease_duration, election.lease_duration),
                           ReadDuration("--leader-elect-renew-deadline",
                                        o.leader_elect_renew_deadline, election.renew_deadline),
                           ReadDuration("--leader-elect-retry-period", o.leader_elect_retry_period,
                                        election.retry_period)}) {
    if (!read) return read;
  }
  if (election.lease_duration % std::chrono::seconds(1) != kube::Duration(0)) {
    return Error("--leader-elect-lease-duration must be whole seconds: the Lease counts in them");
  }
  if (election.lease_duration <= election.renew_deadline) {
    return Error(
        "--leader-elect-lease-duration must be greater than --leader-elect-renew-deadline");
  }
  if (election.renew_deadline * 5 <= election.retry_period * 6) {
    return Error(
        "--leader-elect-renew-deadline must be greater than 1.2 x --leader-elect-retry-period");
  }
  return {};
}

}  // namespace

bool Address::loopback() const {
  if (host == "::1" || host == "localhost") return true;
  in_addr address{};
  return inet_pton(AF_INET, host.c_str(), &address) == 1 && (ntohl(address.s_addr) >> 24U) == 127U;
}

std::expected<Address, std::string> ParseAddress(const std::string& text) {
  const auto colon = text.rfind(':');
  if (colon == std::string::npos) return Error(text + ": must be ADDR:PORT");
  Address address;
  address.host = text.substr(0, colon);
  if (address.host.starts_with('[') && address.host.ends_with(']')) {
    address.host = address.host.substr(1, address.host.size() - 2);
  }
  const std::string port = text.substr(colon + 1);
  int value = -1;
  const auto [end, code] = std::from_chars(port.data(), port.data() + port.size(), value);
  if (code != std::errc{} || end != port.data() + port.size() || value < 0 || value > 65535) {
    return Error(text + ": the port must be 0 to 65535");
  }
  address.port = static_cast<std::uint16_t>(value);
  return address;
}

std::expected<ServeSettings, std::string> CheckOptions(const ServeOptions& o) {
  ServeSettings settings;
  const auto verbs = ParseAddress(o.listen);
  if (!verbs) return Error("--listen: " + verbs.error());
  settings.verbs = *verbs;
  const auto ops = ParseAddress(o.ops_listen);
  if (!ops) return Error("--ops-listen: " + ops.error());
  settings.ops = *ops;
  if (!o.health_listen.empty()) {
    const auto health = ParseAddress(o.health_listen);
    if (!health) return Error("--health-listen: " + health.error());
    settings.health = *health;
  }
  if (!o.policy_file.empty() && !o.policy_configmap.empty()) {
    return Error("--policy and --policy-configmap exclude each other");
  }
  if (!o.policy_configmap.empty() &&
      (o.policy_configmap.find('/') == std::string::npos || !o.snapshot.empty())) {
    return Error("--policy-configmap is NAMESPACE/NAME, and needs an API server");
  }
  if (const auto read = ReadTls(o, settings); !read) return Error(read.error());
  settings.elects = o.leader_elect.value_or(o.kubeconfig.empty() && o.snapshot.empty());
  if (settings.elects && !o.snapshot.empty()) return Error("--leader-elect needs an API server");
  if (const auto read = ReadElection(o, settings.election); !read) return Error(read.error());
  settings.ops_auth = o.ops_auth.empty() ? !settings.ops.loopback() : o.ops_auth == "kubernetes";
  if (settings.ops_auth && !o.snapshot.empty()) {
    return Error(
        "--ops-auth kubernetes, the default off loopback, needs an API server: listen on loopback, "
        "or give --ops-auth none");
  }
  if (o.decision_log_inputs && o.decision_log.empty()) {
    return Error("--decision-log-inputs needs --decision-log");
  }
  return settings;
}

}  // namespace berth::server
