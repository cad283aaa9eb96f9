// berth: one binary with its subcommands.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
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

CLI::App* AddCheck(CLI::App& app, berth::server::CheckCommandOptions& o) {
  CLI::App* check = app.add_subcommand(
      "check", "validate policies, and whether all that names devices says the same");
  CLI::Option* files = check->add_option("files", o.files, "policy files");
  check->add_option("--scheduler-config", o.scheduler_config,
                    "compare this KubeSchedulerConfiguration with the policy");
  check->add_option("--manifests", o.manifests,
                    "compare the admission policies and ConfigMaps in these files with it, such as "
                    "`kubectl kustomize` prints them; - is standard input");
  check->add_flag("--schema", o.schema, "only print the JSON schema of policies, for editors")
      ->excludes(files);
  check->add_flag("--live", o.live, "compare those of the cluster with it");
  check->add_option("--kubeconfig", o.kubeconfig,
                    "for --live: file; without it: the pod's service account");
  check->add_option("-n,--namespace", o.ns, "for --live: where Berth's ConfigMaps are")
      ->capture_default_str();
  return check;
}

void AddServe(CLI::App& app, ServeOptions& o) {
  CLI::App* serve = app.add_subcommand("serve", "the extender service");
  serve->add_option("--kubeconfig", o.kubeconfig, "file; without it: the pod's service account");
  serve->add_option("--policy", o.policy_file, "policy file, reloaded when it changes");
  serve->add_option("--policy-configmap", o.policy_configmap,
                    "NAMESPACE/NAME of a ConfigMap with the key policy.yaml");
  serve->add_option("--listen", o.listen, "ADDR:PORT of the verbs")->capture_default_str();
  serve->add_option("--ops-listen", o.ops_listen, "ADDR:PORT of health, metrics, debug, API")
      ->capture_default_str();
  serve->add_option("--health-listen", o.health_listen,
                    "ADDR:PORT of health alone, in plain text: kubelets' probes then share no "
                    "connections with anybody (default: only on --ops-listen)");
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
                   "namespace of the Lease, of the last good policy, and of what was used")
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
                    "serve a recorded cluster (kubectl get nodes,pods,... -A -o yaml|json); "
                    "PodDisruptionBudgets in it have no effect");
  serve->add_option("--log-format", o.log_format, "text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  serve->add_option("-v", o.verbosity, "log verbosity: 0, 2 a line per decision, 5 everything");
  serve->add_flag("--insecure-verbs", o.insecure_verbs, "plain-text verbs off loopback");
  serve->add_option("--decision-log", o.decision_log, "FILE or -: one JSON line per decision");
  serve->add_flag("--decision-log-inputs", o.decision_log_inputs,
                  "log also what the decisions came from, for `berth simulate replay`");
}

void AddDemo(CLI::App& app, DemoOptions& o) {
  CLI::App* demo = app.add_subcommand(
      "demo", "a cluster in memory and a scheduler model drive the real service for seconds");
  demo->add_option("--seed", o.seed, "the stream of jobs")
      ->check(CLI::Range(std::int64_t{0}, std::numeric_limits<std::int64_t>::max()))
      ->capture_default_str();
  demo->add_flag("--fast", o.fast, "a shorter run, for tests");
  demo->add_option("--cluster", o.cluster, "another cluster: kubectl get nodes -o yaml|json");
  demo->add_flag("--print-cluster", o.print_cluster, "print the built-in cluster and do nothing");
  demo->add_option("--decision-log", o.decision_log,
                   "FILE for the decisions and their inputs, for `berth simulate replay`");
  demo->add_flag("-v", o.verbose, "the service's own log to stderr");
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
  berth::server::CheckCommandOptions check_options;
  CLI::App* check = AddCheck(app, check_options);
  AskOptions ask;
  berth::server::AddQuestions(app, ask);
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
    berth::kube::Write(stdout, berth::server::KubectlCompletions(app, {argv + 1, argv + argc}));
    return 0;
  }

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (const std::string word = UnknownCommand(app); !word.empty()) {
      berth::kube::Write(stderr,
                         fmt::format("{}: unknown command {:?}; --help lists what there is\n",
                                     app.get_name(), word));
      return kUsage;
    }
    const int code = app.exit(error);
    return code == 0 ? 0 : kUsage;
  }
  if (app.got_subcommand("serve")) return berth::server::Serve(serve);
  if (app.got_subcommand("demo")) return berth::server::Demo(demo);
  if (simulate) return simulate();
  if (completion->parsed()) {
    const auto name = plugin ? "kubectl-berth" : FileName(program);
    berth::kube::Write(stdout, berth::server::CompletionScript(app, name, shell).value_or(""));
    return 0;
  }
  if (man->parsed()) {
    berth::kube::Write(stdout, berth::server::ManPage(app, build.version));
    return 0;
  }
  if (import->parsed()) return berth::server::ImportCommand(import_options);
  if (ungate->parsed()) return berth::server::UngateAll(kubeconfig);
  if (check->parsed()) return berth::server::CheckCommand(check_options);
  if (plugin && ask.url.empty() && ask.kubeconfig.empty()) ask.kubeconfig = KubectlConfig();
  if (ask.watch) return Say(WatchList(ask));
  return Say(berth::server::Ask(ask));
}
