#include "server/cli/ask_command.h"

#include <fmt/format.h>

#include <cstdlib>

namespace berth::server {
namespace {

constexpr const char* kFormats = "table, wide, json, yaml, name or jsonpath=TEMPLATE";

void AddConnection(CLI::App& command, AskOptions& o) {
  command.add_option(
      "--berth-url", o.url,
      fmt::format("the service's --ops-listen address (env: BERTH_URL; default: with "
                  "--kubeconfig through its API server, else {})",
                  kDefaultUrl));
  command.add_option("--token-file", o.token_file, "bearer token to show to the service");
  command.add_option("--kubeconfig", o.kubeconfig,
                     "file that says where the cluster is and who asks, with a token; kubectl "
                     "plug-in: $KUBECONFIG or ~/.kube/config");
  command.add_option("--context", o.context, "of that file (default: its current one)");
  command.add_option("--service", o.service, "Berth's, for the API server's proxy")
      ->capture_default_str();
  command.add_option("--certificate-authority", o.certificate_authority,
                     "file with the CA of the service's certificate");
  command.add_option("--tls-server-name", o.tls_server_name,
                     "name in that certificate, when not the host of the URL");
  command.add_flag("--insecure-skip-tls-verify", o.insecure_skip_tls_verify,
                   "do not check that certificate");
}

CLI::App* Add(CLI::App& app, AskOptions& o, Question question, const char* help) {
  CLI::App* command = app.add_subcommand(std::string(NameOf(question)), help);
  command
      ->add_option_function<std::string>(
          "-o,--output",
          [&o](const std::string& text) {
            const auto parsed = ParseFormat(text, o.output);
            if (!parsed) throw CLI::ValidationError("-o", parsed.error());
          },
          kFormats)
      ->type_name("{table,wide,json,yaml,name,jsonpath=}");
  command->callback([&o, question] { o.question = question; });
  AddConnection(*command, o);
  return command;
}

/// The options of commands that print a list.
void AddListOptions(CLI::App& command, AskOptions& o, const char* what) {
  command.add_option("names", o.wanted.names, std::string("only these ") + what);
  command.add_flag("-w,--watch", o.watch, "then print what changes, every two seconds");
  command.add_flag("!--no-headers", o.output.headers, "no line of headers in tables");
  command.add_option("--sort-by", o.output.sort_by,
                     "a field of the JSON output to sort by, such as .waitingSeconds");
}

void AddNamespaces(CLI::App& command, AskOptions& o) {
  command.add_option("-n,--namespace", o.ns, "only this namespace");
  command.add_flag("-A,--all-namespaces", o.all_namespaces,
                   "every namespace, which is the default");
  command.add_option("-q,--queue", o.wanted.queue, "only this queue");
}

}  // namespace

void AddQuestions(CLI::App& app, AskOptions& o) {
  if (const char* url = std::getenv("BERTH_URL"); url != nullptr && *url != '\0') o.url = url;
  CLI::App* why = Add(app, o, Question::kWhy, "why a pod or gang waits");
  why->add_option("-n,--namespace", o.ns, "its namespace (default: default)");
  why->add_option("pod", o.pod, "POD, GANG or NAMESPACE/POD")->required();
  CLI::App* queues = Add(app, o, Question::kQueues, "the queues: use, quota, limit, what waits");
  AddListOptions(*queues, o, "queues");
  queues->add_option("-n,--namespace", o.ns, "only the queues that pods of this namespace may use");
  queues->add_flag("--users", o.output.by_user, "what the users of each queue have used, in hours");
  CLI::App* gangs = Add(app, o, Question::kGangs, "the gangs: phase, members, wait");
  AddListOptions(*gangs, o, "gangs");
  AddNamespaces(*gangs, o);
  CLI::App* pods =
      Add(app, o, Question::kPods, "the pods that wait, with their place in the queue");
  AddListOptions(*pods, o, "pods");
  AddNamespaces(*pods, o);
  CLI::App* nodes = Add(app, o, Question::kNodes, "the nodes: devices used and free, racks");
  AddListOptions(*nodes, o, "nodes");
  nodes->add_flag("--by-model", o.output.by_model, "one line for each model of device");
}

}  // namespace berth::server
