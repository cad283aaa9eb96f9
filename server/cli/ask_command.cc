#include "server/cli/ask_command.h"

#include <fmt/format.h>

#include <cstdlib>

namespace berth::server {
namespace {

constexpr const char* kFormats = "table, wide, json, yaml, name or jsonpath=TEMPLATE";

void AddConnection(CLI::App& command, AskOptions& o) {
  command.add_option(
      "--berth-url", o.url,
      fmt::format("URL of the service's --ops-listen address (env: BERTH_URL; default: through the "
                  "API server if --kubeconfig is given, else {})",
                  kDefaultUrl));
  command.add_option("--token-file", o.token_file, "file with a bearer token for the service");
  command.add_option("--kubeconfig", o.kubeconfig,
                     "kubeconfig file whose user has a token (default of the kubectl plug-in: "
                     "$KUBECONFIG or ~/.kube/config)");
  command.add_option("--context", o.context,
                     "context of the kubeconfig file (default: its current context)");
  command
      .add_option("--service", o.service,
                  "Berth's Service, NAMESPACE/[SCHEME:]NAME:PORT, for the API server's proxy")
      ->capture_default_str();
  command.add_option("--certificate-authority", o.certificate_authority,
                     "file with the CA of the service's certificate");
  command.add_option(
      "--tls-server-name", o.tls_server_name,
      "name that the service's certificate must have, if it is not the host of the URL");
  command.add_flag("--insecure-skip-tls-verify", o.insecure_skip_tls_verify,
                   "do not verify the service's certificate");
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
  command.add_flag("-w,--watch", o.watch, "after the list, print changes every two seconds");
  command.add_flag("!--no-headers", o.output.headers, "print tables without a header line");
  command.add_option("--sort-by", o.output.sort_by,
                     "a field of the JSON output to sort by, such as .waitingSeconds");
}

void AddNamespaces(CLI::App& command, AskOptions& o) {
  command.add_option("-n,--namespace", o.ns, "only this namespace");
  command.add_flag("-A,--all-namespaces", o.all_namespaces, "all namespaces (the default)");
  command.add_option("-q,--queue", o.wanted.queue, "only this queue");
}

}  // namespace

void AddQuestions(CLI::App& app, AskOptions& o) {
  if (const char* url = std::getenv("BERTH_URL"); url != nullptr && *url != '\0') o.url = url;
  CLI::App* why = Add(app, o, Question::kWhy, "explain why a pod or gang waits");
  why->add_option("-n,--namespace", o.ns, "namespace of the pod or gang (default: default)");
  why->add_option("pod", o.pod, "POD, GANG or NAMESPACE/POD")->required();
  CLI::App* queues = Add(app, o, Question::kQueues,
                         "list queues: devices in use, quota, limit, waiting workloads");
  AddListOptions(*queues, o, "queues");
  queues->add_option("-n,--namespace", o.ns, "only the queues that pods of this namespace may use");
  queues->add_flag("--users", o.output.by_user,
                   "list what the users of each queue have used, in device hours");
  CLI::App* gangs = Add(app, o, Question::kGangs, "list gangs: phase, members, waiting time");
  AddListOptions(*gangs, o, "gangs");
  AddNamespaces(*gangs, o);
  CLI::App* pods = Add(app, o, Question::kPods, "list waiting pods, with their place in the queue");
  AddListOptions(*pods, o, "pods");
  AddNamespaces(*pods, o);
  CLI::App* nodes = Add(app, o, Question::kNodes, "list nodes: devices in use and free, racks");
  AddListOptions(*nodes, o, "nodes");
  nodes->add_flag("--by-model", o.output.by_model, "print one line for each device model");
}

}  // namespace berth::server
