// berth: one binary, its subcommands.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "config/decode.h"
#include "config/scheduler_config.h"
#include "server/policy_source.h"
#include "server/serve.h"
#include "server/version.h"

namespace {

using berth::server::ServeOptions;

constexpr int kBadInput = 1;
constexpr int kUsage = 2;

void AddServe(CLI::App& app, ServeOptions& o) {
  CLI::App* serve = app.add_subcommand("serve", "the extender service");
  serve->add_option("--kubeconfig", o.kubeconfig, "file; without it: the pod's service account");
  serve->add_option("--policy", o.policy_file, "policy file, reloaded when it changes");
  serve->add_option("--policy-configmap", o.policy_configmap,
                    "NAMESPACE/NAME of a ConfigMap with the key policy.yaml");
  serve->add_option("--listen", o.listen, "ADDR:PORT of the verbs")->capture_default_str();
  serve->add_option("--ops-listen", o.ops_listen, "ADDR:PORT of health, metrics, debug, API")
      ->capture_default_str();
  serve->add_option("--ops-auth", o.ops_auth, "kubernetes or none; default: none on loopback")
      ->check(CLI::IsMember({"kubernetes", "none"}));
  serve->add_option("--tls-cert-file", o.tls_cert_file, "certificate of the verbs' port");
  serve->add_option("--tls-private-key-file", o.tls_private_key_file, "its key");
  serve->add_option("--client-ca-file", o.client_ca_file, "CA that callers' certificates must have");
  serve->add_option("--client-allowed-names", o.client_allowed_names,
                    "comma-separated names that callers' certificates may have");
  serve->add_flag("--leader-elect,!--no-leader-elect", o.leader_elect,
                  "elect a leader (not in this release)");
  serve->add_option("--leader-elect-namespace", o.leader_elect_namespace,
                    "namespace of the Lease and of the last good policy")
      ->capture_default_str();
  serve->add_option("--snapshot", o.snapshot,
                    "serve a recorded cluster (kubectl get nodes,pods,... -A -o yaml|json)");
  serve->add_option("--log-format", o.log_format, "text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  serve->add_option("-v", o.verbosity, "log verbosity: 0, 2 a line per decision, 5 everything");
  serve->add_flag("--insecure-verbs", o.insecure_verbs, "plain-text verbs off loopback");
  serve->add_option("--decision-log", o.decision_log, "FILE or -: one JSON line per decision");
}

int Check(const std::vector<std::string>& files, const std::string& scheduler_config) {
  bool bad = false;
  berth::config::PolicyConfiguration policy;
  for (const std::string& file : files) {
    const auto yaml = berth::server::ReadSmallFile(file);
    if (!yaml) {
      fmt::print(stderr, "{}: cannot be read, or larger than 1 MiB\n", file);
      bad = true;
      continue;
    }
    auto decoded = berth::config::DecodePolicy(*yaml, file);
    if (!decoded) {
      bad = true;
      for (const auto& diagnostic : decoded.error()) {
        fmt::print(stderr, "{}\n", diagnostic.ToString());
      }
      continue;
    }
    fmt::print("{}: ok, {} queue(s)\n", file, decoded->queues.size());
    policy = std::move(*decoded);
  }
  if (!scheduler_config.empty()) {
    const auto yaml = berth::server::ReadSmallFile(scheduler_config);
    if (!yaml) {
      fmt::print(stderr, "{}: cannot be read, or larger than 1 MiB\n", scheduler_config);
      return kBadInput;
    }
    const auto findings = berth::config::CheckSchedulerConfig(*yaml, scheduler_config, policy);
    for (const auto& finding : findings) {
      fmt::print(stderr, "{}\n", finding.ToString());
      bad |= finding.severity == berth::config::Severity::kError;
    }
    if (findings.empty()) fmt::print("{}: ok\n", scheduler_config);
  }
  return bad ? kBadInput : 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Berth: a kube-scheduler extender for AI clusters"};
  app.name("berth");
  app.require_subcommand(1);
  const auto build = berth::server::ThisBuild();
  app.set_version_flag("--version", "berth " + build.version + " (" + build.commit + ")");

  ServeOptions serve;
  AddServe(app, serve);
  std::vector<std::string> files;
  std::string scheduler_config;
  CLI::App* check = app.add_subcommand("check", "validate policy files");
  check->add_option("files", files, "policy files");
  check->add_option("--scheduler-config", scheduler_config,
                    "compare this KubeSchedulerConfiguration with the policy");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : kUsage;
  }
  if (check->parsed()) {
    if (files.empty() && scheduler_config.empty()) {
      fmt::print(stderr, "berth check: give at least one file\n");
      return kUsage;
    }
    return Check(files, scheduler_config);
  }
  return berth::server::Serve(serve);
}
