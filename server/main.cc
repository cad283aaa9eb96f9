// berth: one binary, its subcommands.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <functional>

#include "config/decode.h"
#include "config/scheduler_config.h"
#include "server/cli_client.h"
#include "server/completion.h"
#include "server/demo.h"
#include "server/import_command.h"
#include "server/man_page.h"
#include "server/policy_source.h"
#include "server/serve.h"
#include "server/ungate.h"
#include "server/version.h"
#include "sim/command.h"

namespace {

using berth::server::AskOptions;
using berth::server::DemoOptions;
using berth::server::OutputFormat;
using berth::server::Question;
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
  serve
      ->add_option("--ops-auth", o.ops_auth,
                   "who may read that port, health aside: kubernetes (a bearer token, by "
                   "TokenReview and SubjectAccessReview) or none (everybody); default: none on "
                   "loopback, else kubernetes")
      ->check(CLI::IsMember({"kubernetes", "none"}));
  serve->add_option("--tls-cert-file", o.tls_cert_file, "certificate of the verbs' port");
  serve->add_option("--tls-private-key-file", o.tls_private_key_file, "its key");
  serve->add_option("--client-ca-file", o.client_ca_file,
                    "CA that certificates of the verbs' callers must have");
  serve->add_option("--client-allowed-names", o.client_allowed_names,
                    "comma-separated names (CN or DNS) that callers' certificates may have");
  serve->add_option("--ops-tls-cert-file", o.ops_tls_cert_file,
                    "certificate of --ops-listen; without it: plain text");
  serve->add_option("--ops-tls-private-key-file", o.ops_tls_private_key_file, "its key");
  serve->add_flag("--leader-elect,!--no-leader-elect", o.leader_elect,
                  "answer the verbs only while holding the Lease `berth`; several replicas need it "
                  "(default: true in a cluster, false with --kubeconfig or --snapshot)");
  serve
      ->add_option("--leader-elect-namespace", o.leader_elect_namespace,
                   "namespace of the Lease, and of the last good policy")
      ->capture_default_str();
  serve
      ->add_option("--leader-elect-lease-duration", o.leader_elect_lease_duration,
                   "how long a leader that is silent keeps the Lease")
      ->capture_default_str();
  serve
      ->add_option("--leader-elect-renew-deadline", o.leader_elect_renew_deadline,
                   "how long a leader that cannot renew goes on; shorter than the lease duration")
      ->capture_default_str();
  serve
      ->add_option("--leader-elect-retry-period", o.leader_elect_retry_period,
                   "between tries to take or renew the Lease")
      ->capture_default_str();
  serve->add_option("--snapshot", o.snapshot,
                    "serve a recorded cluster (kubectl get nodes,pods,... -A -o yaml|json)");
  serve->add_option("--log-format", o.log_format, "text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  serve->add_option("-v", o.verbosity, "log verbosity: 0, 2 a line per decision, 5 everything");
  serve->add_flag("--insecure-verbs", o.insecure_verbs, "plain-text verbs off loopback");
  serve->add_option("--decision-log", o.decision_log, "FILE or -: one JSON line per decision");
  serve->add_flag("--decision-log-inputs", o.decision_log_inputs,
                  "log also what the decisions came from, for `berth simulate replay`");
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

/// `why`, `queues`, `gangs`, `nodes`.
void AddQuestions(CLI::App& app, AskOptions& o) {
  if (const char* url = std::getenv("BERTH_URL"); url != nullptr && *url != '\0') o.url = url;
  static const std::map<std::string, OutputFormat> kFormats{{"table", OutputFormat::kTable},
                                                            {"wide", OutputFormat::kWide},
                                                            {"json", OutputFormat::kJson},
                                                            {"yaml", OutputFormat::kYaml}};
  const auto add = [&](const char* name, const char* help, Question question) {
    CLI::App* command = app.add_subcommand(name, help);
    command->add_option("--berth-url", o.url, "the service's --ops-listen address (env: BERTH_URL)")
        ->capture_default_str();
    command
        ->add_option_function<std::string>(
            "-o,--output", [&o](const std::string& format) { o.output = kFormats.at(format); },
            "how to print the answer")
        ->check(CLI::IsMember({"table", "wide", "json", "yaml"}));
    command->add_option("--token-file", o.token_file, "bearer token to show to the service");
    command->add_option("--kubeconfig", o.kubeconfig, "file whose current user's token is shown");
    command->add_option("--certificate-authority", o.certificate_authority,
                        "file with the CA of the service's certificate");
    command->add_option("--tls-server-name", o.tls_server_name,
                        "name in that certificate, when not the host of the URL");
    command->add_flag("--insecure-skip-tls-verify", o.insecure_skip_tls_verify,
                      "do not check that certificate");
    command->callback([&o, question] { o.question = question; });
    return command;
  };
  CLI::App* why = add("why", "why a pod waits", Question::kWhy);
  why->add_option("-n,--namespace", o.ns, "the pod's namespace (default: default)");
  why->add_option("pod", o.pod, "POD or NAMESPACE/POD")->required();
  add("queues", "the queues: use, quota, limit, what waits", Question::kQueues);
  add("gangs", "the gangs: phase, members, wait", Question::kGangs)
      ->add_option("-n,--namespace", o.ns, "only this namespace");
  add("nodes", "the nodes: devices used and free, racks", Question::kNodes);
}

void AddDemo(CLI::App& app, DemoOptions& o) {
  CLI::App* demo = app.add_subcommand(
      "demo", "a cluster in memory and a scheduler model drive the real service for seconds");
  demo->add_option("--seed", o.seed, "the stream of jobs")->capture_default_str();
  demo->add_flag("--fast", o.fast, "a shorter run, for tests");
  demo->add_option("--cluster", o.cluster, "another cluster: kubectl get nodes -o yaml|json");
  demo->add_flag("--print-cluster", o.print_cluster, "print the built-in cluster and do nothing");
  demo->add_option("--decision-log", o.decision_log,
                   "FILE for the decisions and their inputs, for `berth simulate replay`");
  demo->add_flag("-v", o.verbose, "the service's own log to stderr");
}

int Say(const berth::server::Answer& answer) {
  fmt::print("{}", answer.out);
  fmt::print(stderr, "{}", answer.err);
  return answer.code;
}

std::string FileName(std::string_view path) {
  const auto slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string program = argc > 0 ? argv[0] : "berth";
  const bool plugin = FileName(program) == "kubectl-berth";
  CLI::App app{"Berth: a kube-scheduler extender for AI clusters"};
  app.name(plugin ? "kubectl berth" : "berth");
  app.require_subcommand(1);
  const auto build = berth::server::ThisBuild();
  app.set_version_flag("--version", "berth " + build.version + " (" + build.commit + ")");

  ServeOptions serve;
  AddServe(app, serve);
  DemoOptions demo{.program = program};
  AddDemo(app, demo);
  std::vector<std::string> files;
  std::string scheduler_config;
  CLI::App* check = app.add_subcommand("check", "validate policy files");
  check->add_option("files", files, "policy files");
  check->add_option("--scheduler-config", scheduler_config,
                    "compare this KubeSchedulerConfiguration with the policy");
  AskOptions ask;
  AddQuestions(app, ask);
  std::string kubeconfig;
  bool all = false;
  CLI::App* ungate = app.add_subcommand("ungate", "break-glass: remove Berth's gates from pods");
  ungate->add_option("--kubeconfig", kubeconfig, "file; without it: the pod's service account");
  ungate->add_flag("--all", all, "of every pod in the cluster")->required();
  berth::server::ImportOptions import_options;
  CLI::App* import = app.add_subcommand(
      "import", "print another project's queues as a policy, from files or the live cluster");
  import->add_option("project", import_options.peer, "kueue, volcano or kai")
      ->check(CLI::IsMember({"kueue", "volcano", "kai"}))
      ->required();
  CLI::Option* import_files =
      import->add_option("files", import_options.files,
                         "manifests, or what `kubectl get -o yaml|json` prints; - is stdin");
  import
      ->add_option("--kubeconfig", import_options.kubeconfig,
                   "file; without it and without files: the pod's service account")
      ->excludes(import_files);
  std::function<int()> simulate;
  berth::sim::AddSimulateCommand(app, simulate);
  std::string shell;
  CLI::App* completion = app.add_subcommand("completion", "a completion script for a shell");
  completion->add_option("shell", shell, "bash, zsh or fish")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}))
      ->required();
  CLI::App* man = app.add_subcommand("man", "the manual page, for `man -l`");
  if (FileName(program) == "kubectl_complete-berth") {
    fmt::print("{}", berth::server::KubectlCompletions(app, {argv + 1, argv + argc}));
    return 0;
  }

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : kUsage;
  }
  if (app.got_subcommand("serve")) return berth::server::Serve(serve);
  if (app.got_subcommand("demo")) return berth::server::Demo(demo);
  if (simulate) return simulate();
  if (completion->parsed()) {
    const auto name = plugin ? "kubectl-berth" : FileName(program);
    fmt::print("{}", berth::server::CompletionScript(app, name, shell).value_or(""));
    return 0;
  }
  if (man->parsed()) {
    fmt::print("{}", berth::server::ManPage(app, build.version));
    return 0;
  }
  if (import->parsed()) return berth::server::ImportCommand(import_options);
  if (ungate->parsed()) return berth::server::UngateAll(kubeconfig);
  if (check->parsed()) {
    if (files.empty() && scheduler_config.empty()) {
      fmt::print(stderr, "berth check: give at least one file\n");
      return kUsage;
    }
    return Check(files, scheduler_config);
  }
  return Say(berth::server::Ask(ask));
}
