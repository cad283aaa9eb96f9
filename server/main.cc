// berth: one binary with its subcommands.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <limits>
#include <thread>

#include "kube/terminal.h"
#include "server/cli/ask_command.h"
#include "server/cli/check_command.h"
#include "server/cli/completion.h"
#include "server/cli/exit_codes.h"
#include "server/cli/import_command.h"
#include "server/cli/man_page.h"
#include "server/cli/ungate.h"
#include "server/demo/demo.h"
#include "server/serve.h"
#include "server/version.h"
#include "sim/command.h"

namespace {

using berth::kUsage;
using berth::server::AskOptions;
using berth::server::DemoOptions;
using berth::server::ServeOptions;

/// The name of the program as a plug-in of kubectl.
constexpr std::string_view kPlugin = "kubectl-berth";

/// The file that kubectl would read: the first one in $KUBECONFIG, else ~/.kube/config; empty:
/// none.
std::string KubectlConfig() {
  const char* named = std::getenv("KUBECONFIG");
  if (named != nullptr && *named != '\0')
    return std::string(named).substr(0, std::string_view(named).find(':'));
  const char* home = std::getenv("HOME");
  const std::string file = home == nullptr ? std::string() : std::string(home) + "/.kube/config";
  std::error_code error;
  return !file.empty() && std::filesystem::exists(file, error) ? file : std::string();
}

berth::server::Answer WatchList(const AskOptions& ask) {
  const auto emit = [](const std::string& text) {
    berth::kube::Write(stdout, text);
    std::fflush(stdout);
  };
  return berth::server::Watch(ask, emit, [] {
    std::this_thread::sleep_for(std::chrono::seconds(2));
    return std::ferror(stdout) == 0;
  });
}

void AddCheck(CLI::App& app, berth::server::CheckCommandOptions& o) {
  CLI::App* check = app.add_subcommand(
      "check", "validate policy files, and check that all lists of devices agree with the policy");
  CLI::Option* files = check->add_option("files", o.files, "policy files");
  check->add_option("--scheduler-config", o.scheduler_config,
                    "compare this KubeSchedulerConfiguration with the policy");
  check->add_option("--manifests", o.manifests,
                    "compare the admission policies and ConfigMaps in these files, such as "
                    "`kubectl kustomize` prints them, with the policy; - is standard input");
  check->add_flag("--schema", o.schema, "only print the JSON schema of policies, for editors")
      ->excludes(files);
  check->add_flag("--live", o.live,
                  "compare the admission policies and ConfigMaps of the cluster with the policy");
  check->add_option("--kubeconfig", o.kubeconfig,
                    "for --live: kubeconfig file (default: the pod's service account)");
  check->add_option("-n,--namespace", o.ns, "for --live: namespace of Berth's ConfigMaps")
      ->capture_default_str();
}

/// Where `serve` listens, and who may call it there.
void AddPorts(CLI::App& serve, ServeOptions& o) {
  serve.add_option("--listen", o.listen, "ADDR:PORT on which to serve the extender verbs")
      ->capture_default_str();
  serve
      .add_option("--ops-listen", o.ops_listen,
                  "ADDR:PORT on which to serve health, metrics, debug pages and the API")
      ->capture_default_str();
  serve.add_option(
      "--health-listen", o.health_listen,
      "ADDR:PORT on which to serve health alone, over plain HTTP, so that the probes of kubelets "
      "share no connections with other clients (default: only on --ops-listen)");
  serve
      .add_option("--ops-auth", o.ops_auth,
                  "authorization on --ops-listen, except for health: kubernetes (bearer tokens, "
                  "by TokenReview and SubjectAccessReview) or none (everybody may read it); "
                  "default: none on loopback, else kubernetes")
      ->check(CLI::IsMember({"kubernetes", "none"}));
  serve.add_option("--tls-cert-file", o.tls_cert_file, "TLS certificate of --listen");
  serve.add_option("--tls-private-key-file", o.tls_private_key_file,
                   "private key of --tls-cert-file");
  serve.add_option("--client-ca-file", o.client_ca_file,
                   "CA that must have signed the client certificates of callers of the verbs");
  serve.add_option("--client-allowed-names", o.client_allowed_names,
                   "comma-separated names (CN or DNS); a client certificate must have one of them");
  serve.add_option("--ops-tls-cert-file", o.ops_tls_cert_file,
                   "TLS certificate of --ops-listen (default: plain HTTP)");
  serve.add_option("--ops-tls-private-key-file", o.ops_tls_private_key_file,
                   "private key of --ops-tls-cert-file");
}

void AddElection(CLI::App& serve, ServeOptions& o) {
  serve.add_flag("--leader-elect,!--no-leader-elect", o.leader_elect,
                 "answer the verbs only while holding the Lease `berth`; several replicas need it "
                 "(default: true in a cluster, false with --kubeconfig or --snapshot)");
  serve
      .add_option(
          "--leader-elect-namespace", o.leader_elect_namespace,
          "namespace of the Lease, and of the ConfigMaps with the last good policy and the usage")
      ->capture_default_str();
  serve
      .add_option("--leader-elect-lease-duration", o.leader_elect_lease_duration,
                  "how long other replicas wait for a renewal before they take the Lease")
      ->capture_default_str();
  serve
      .add_option("--leader-elect-renew-deadline", o.leader_elect_renew_deadline,
                  "how long a leader that cannot renew the Lease continues to lead; shorter than "
                  "the lease duration")
      ->capture_default_str();
  serve
      .add_option("--leader-elect-retry-period", o.leader_elect_retry_period,
                  "time between attempts to acquire or renew the Lease")
      ->capture_default_str();
}

void AddServe(CLI::App& app, ServeOptions& o) {
  CLI::App* serve = app.add_subcommand("serve", "run the scheduler extender");
  serve->add_option("--kubeconfig", o.kubeconfig,
                    "kubeconfig file (default: the pod's service account)");
  serve->add_option("--policy", o.policy_file, "policy file, reloaded when it changes");
  serve->add_option("--policy-configmap", o.policy_configmap,
                    "NAMESPACE/NAME of a ConfigMap with the key policy.yaml");
  AddPorts(*serve, o);
  AddElection(*serve, o);
  serve->add_option("--snapshot", o.snapshot,
                    "serve a recorded cluster (kubectl get nodes,pods,... -A -o yaml|json); "
                    "PodDisruptionBudgets in it have no effect");
  serve->add_option("--log-format", o.log_format, "format of log lines: text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  serve->add_option("-v", o.verbosity,
                    "log verbosity, 0 to 5; 2: one line per decision; 5: everything");
  serve->add_flag("--insecure-verbs", o.insecure_verbs,
                  "allow the verbs over plain HTTP on other addresses than loopback");
  serve->add_option("--decision-log", o.decision_log,
                    "write one JSON line per decision to this file; - is standard output");
  serve->add_flag("--decision-log-inputs", o.decision_log_inputs,
                  "also log the inputs of the decisions, for `berth simulate replay`");
}

void AddDemo(CLI::App& app, DemoOptions& o) {
  CLI::App* demo = app.add_subcommand("demo",
                                      "run the service for some seconds against an in-memory "
                                      "cluster and a model of kube-scheduler");
  demo->add_option("--seed", o.seed, "seed of the random stream of jobs")
      ->check(CLI::Range(std::int64_t{0}, std::numeric_limits<std::int64_t>::max()))
      ->capture_default_str();
  demo->add_flag("--fast", o.fast, "a shorter run, for tests");
  demo->add_option("--cluster", o.cluster,
                   "file with another cluster, as `kubectl get nodes -o yaml|json` prints it");
  demo->add_flag("--print-cluster", o.print_cluster, "print the built-in cluster and exit");
  demo->add_option(
      "--decision-log", o.decision_log,
      "write the decisions and their inputs to this file, for `berth simulate replay`");
  demo->add_flag("-v", o.verbose, "print the service's log to standard error");
}

void AddUngate(CLI::App& app, std::string& kubeconfig, bool& all) {
  CLI::App* ungate = app.add_subcommand("ungate", "break-glass: remove Berth's gates from pods");
  ungate->add_option("--kubeconfig", kubeconfig,
                     "kubeconfig file (default: the pod's service account)");
  ungate->add_flag("--all", all, "remove the gates of all pods in the cluster")->required();
}

void AddImport(CLI::App& app, berth::server::ImportOptions& o) {
  CLI::App* import = app.add_subcommand(
      "import", "print another project's queues as a policy, from files or the live cluster");
  import->add_option("project", o.peer, "kueue, volcano or kai")
      ->check(CLI::IsMember({"kueue", "volcano", "kai"}))
      ->required();
  CLI::Option* files = import->add_option(
      "files", o.files,
      "manifests, or the output of `kubectl get -o yaml|json`; - is standard input");
  import
      ->add_option(
          "--kubeconfig", o.kubeconfig,
          "kubeconfig file of the live cluster (default, without files: the pod's service account)")
      ->excludes(files);
}

void AddCompletion(CLI::App& app, std::string& shell) {
  CLI::App* completion = app.add_subcommand("completion", "print a completion script for a shell");
  completion->add_option("shell", shell, "bash, zsh or fish")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}))
      ->required();
}

/// The values of all options, by command.
struct CommandLine {
  ServeOptions serve;
  DemoOptions demo;
  berth::server::CheckCommandOptions check;
  AskOptions ask;
  std::string ungate_kubeconfig;
  bool ungate_all = false;
  berth::server::ImportOptions import;
  std::function<int()> simulate;  ///< Runs the given subcommand of `simulate`; null: none is given.
  std::string shell;
};

/// In the order in which --help lists the commands. `line` must outlive the parsing.
void AddCommands(CLI::App& app, CommandLine& line) {
  AddServe(app, line.serve);
  AddDemo(app, line.demo);
  AddCheck(app, line.check);
  berth::server::AddQuestions(app, line.ask);
  AddUngate(app, line.ungate_kubeconfig, line.ungate_all);
  AddImport(app, line.import);
  berth::sim::AddSimulateCommand(app, line.simulate);
  AddCompletion(app, line.shell);
  app.add_subcommand("man", "print the manual page, for `man -l`");
}

int Say(const berth::server::Answer& answer) {
  berth::kube::Write(stdout, answer.out);
  berth::kube::Write(stderr, answer.err);
  return answer.code;
}

/// A word in the place of a command that is not one; empty: there is none.
std::string UnknownCommand(const CLI::App& app) {
  const CLI::App* deepest = &app;
  while (!deepest->get_subcommands().empty()) deepest = deepest->get_subcommands().front();
  const auto all = deepest->get_subcommands([](const CLI::App*) { return true; });
  const auto words = app.remaining(true);
  return all.empty() || words.empty() || words.front().starts_with('-') ? std::string()
                                                                        : words.front();
}

std::string FileName(std::string_view path) {
  const auto slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

/// Runs the command that was parsed, and returns its exit code. `program`: the name under which
/// this program was started, without folders.
int Run(const CLI::App& app, CommandLine& line, const std::string& program) {
  if (app.got_subcommand("serve")) return berth::server::Serve(line.serve);
  if (app.got_subcommand("demo")) return berth::server::Demo(line.demo);
  if (line.simulate) return line.simulate();
  if (app.got_subcommand("completion")) {
    berth::kube::Write(stdout,
                       berth::server::CompletionScript(app, program, line.shell).value_or(""));
    return 0;
  }
  if (app.got_subcommand("man")) {
    berth::kube::Write(stdout, berth::server::ManPage(app, berth::server::ThisBuild().version));
    return 0;
  }
  if (app.got_subcommand("import")) return berth::server::ImportCommand(line.import);
  if (app.got_subcommand("ungate")) return berth::server::UngateAll(line.ungate_kubeconfig);
  if (app.got_subcommand("check")) return berth::server::CheckCommand(line.check);
  AskOptions& ask = line.ask;
  if (program == kPlugin && ask.url.empty() && ask.kubeconfig.empty()) {
    ask.kubeconfig = KubectlConfig();
  }
  return Say(ask.watch ? WatchList(ask) : berth::server::Ask(ask));
}

/// What was printed may not be written: the disk is full, or the output is closed.
int Finish(int code) {
  std::cout.flush();
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good();
  if (written || code != berth::kFine) return code;
  berth::kube::Write(stderr, "berth: the output could not be written\n");
  return berth::kEnvironment;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string path = argc > 0 ? argv[0] : "berth";
  const std::string program = FileName(path);
  CLI::App app{"Berth: a kube-scheduler extender for AI clusters"};
  app.name(program == kPlugin ? "kubectl berth" : "berth");
  app.require_subcommand(1);
  const auto build = berth::server::ThisBuild();
  app.set_version_flag("--version", "berth " + build.version + " (" + build.commit + ")");
  CommandLine line;
  line.demo.program = path;
  AddCommands(app, line);
  if (program == "kubectl_complete-berth") {
    berth::kube::Write(stdout, berth::server::KubectlCompletions(app, {argv + 1, argv + argc}));
    return Finish(0);
  }

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (const std::string word = UnknownCommand(app); !word.empty()) {
      berth::kube::Write(stderr,
                         fmt::format("{}: unknown command {:?}; --help lists the commands\n",
                                     app.get_name(), word));
      return kUsage;
    }
    const int code = app.exit(error);
    return code == 0 ? Finish(0) : kUsage;
  }
  return Finish(Run(app, line, program));
}
