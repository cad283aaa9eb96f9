#include "server/cli_client.h"

#include <fmt/format.h>

#include <algorithm>

#include "kube/client_config.h"
#include "kube/read_file.h"
#include "kube/rest_client.h"
#include "server/exit_codes.h"

namespace berth::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr kube::Duration kTimeout{10'000};

Answer Fail(int code, std::string text) {
  return {.code = code, .out = {}, .err = std::move(text) + "\n"};
}

/// Whether the answer can be of one namespace alone.
bool InNamespaces(Question question) {
  return question == Question::kGangs || question == Question::kPods;
}

struct PodName {
  std::string ns;
  std::string name;
};

/// nullopt: not a pod's name.
std::optional<PodName> ParsePod(const AskOptions& options) {
  PodName pod{.ns = options.ns.empty() ? "default" : options.ns, .name = options.pod};
  if (const auto slash = pod.name.find('/'); slash != std::string::npos) {
    const std::string before = pod.name.substr(0, slash);
    pod.name = pod.name.substr(slash + 1);
    static constexpr std::string_view kKinds[] = {"pod", "pods", "po", "gang", "gangs"};
    if (std::ranges::find(kKinds, before) == std::end(kKinds)) {
      if (!options.ns.empty() && options.ns != before) return std::nullopt;
      pod.ns = before;
    }
  }
  if (pod.name.empty() || pod.ns.empty() || pod.name.find('/') != std::string::npos) {
    return std::nullopt;
  }
  return pod;
}

/// The token to show: --token-file's, else the kubeconfig user's, else, over TLS, that of the pod
/// that we run in. Only what was asked for goes out in plain text, and to loopback alone.
std::expected<void, Answer> AddToken(const AskOptions& options, kube::ClientConfig& config) {
  if (!options.token_file.empty()) {
    const auto token = kube::ReadFile(options.token_file, kube::kMaxTokenBytes);
    if (!token) {
      return std::unexpected(Fail(token.error().unreadable ? kEnvironment : kBadInput,
                                  "error: --token-file: " + token.error().message));
    }
    config.token_file = options.token_file;
    return {};
  }
  if (!options.kubeconfig.empty()) {
    const auto kubeconfig = kube::LoadKubeconfig(options.kubeconfig);
    if (!kubeconfig) return std::unexpected(Fail(kEnvironment, "error: " + kubeconfig.error()));
    if (kubeconfig->token.empty() && kubeconfig->token_file.empty()) {
      return std::unexpected(Fail(
          kBadInput, fmt::format("error: {}: its user has no token, which is what Berth asks for; "
                                 "give --token-file, with one from `kubectl create token`",
                                 options.kubeconfig)));
    }
    config.token = kubeconfig->token;
    config.token_file = kubeconfig->token_file;
    return {};
  }
  if (config.server.starts_with("https://")) {
    if (const auto pod = kube::LoadInCluster()) config.token_file = pod->token_file;
  }
  return {};
}

std::expected<kube::ClientConfig, Answer> Connection(const AskOptions& options) {
  kube::ClientConfig config;
  config.server = options.url;
  while (config.server.ends_with('/')) config.server.pop_back();
  if (!config.server.starts_with("http://") && !config.server.starts_with("https://")) {
    return std::unexpected(Fail(kUsage, "error: --berth-url must start with http:// or https://"));
  }
  config.ca_file = options.certificate_authority;
  config.tls_server_name = options.tls_server_name;
  config.insecure_skip_verify = options.insecure_skip_tls_verify;
  if (const auto added = AddToken(options, config); !added) return std::unexpected(added.error());
  return config;
}

std::expected<kube::Response, Answer> Get(const AskOptions& options, const kube::Request& request) {
  const auto config = Connection(options);
  if (!config) return std::unexpected(config.error());
  const auto client = kube::RestClient::Create(*config, {.user_agent = "berth-cli"});
  if (!client) return std::unexpected(Fail(kUsage, "error: --berth-url: " + client.error()));
  auto response = (*client)->Do(request, {});
  if (response) return std::move(*response);
  const auto& error = response.error();
  const char* hint =
      error.failure == kube::TransportFailure::kTls
          ? "Its certificate must be signed by --certificate-authority, and be for the host of "
            "--berth-url, or else for --tls-server-name."
          : "Is `berth serve` running? Its --ops-listen address goes into --berth-url or "
            "BERTH_URL.";
  return std::unexpected(Fail(kEnvironment, fmt::format("error: no Berth service at {}: {}\n{}",
                                                        options.url, error.message, hint)));
}

/// What a refusal means to whoever asked.
Answer Refused(const AskOptions& options, const kube::Request& request,
               const kube::Response& response) {
  std::string text = response.body.substr(0, 500);
  text.erase(text.find_last_not_of(" \r\n") + 1);
  if (response.status == 401) {
    return Fail(kBadInput, fmt::format("error: {}\nGive --token-file or --kubeconfig; a token that "
                                       "has expired must be renewed.",
                                       text));
  }
  if (response.status == 403) return Fail(kBadInput, "Error from Berth: " + text);
  return Fail(kEnvironment,
              fmt::format("error: {}{} answered HTTP {}{}{}", options.url, request.path,
                          response.status, text.empty() ? "" : ": ", text));
}

}  // namespace

Answer Ask(const AskOptions& options) {
  kube::Request request;
  request.timeout = kTimeout;
  request.path = fmt::format("/api/v1/{}", NameOf(options.question));
  const bool why = options.question == Question::kWhy;
  PodName pod;
  if (why) {
    const auto parsed = ParsePod(options);
    if (!parsed) return Fail(kUsage, fmt::format("error: {:?} is not a pod's name", options.pod));
    pod = *parsed;
    request.query = {{"pod", pod.ns + "/" + pod.name}};
  } else if (!options.ns.empty() && !options.all_namespaces && InNamespaces(options.question)) {
    request.query = {{"namespace", options.ns}};
  } else if (options.question == Question::kQueues) {
    if (!options.ns.empty()) request.query.emplace_back("namespace", options.ns);
    if (options.output.format == OutputFormat::kWide) request.query.emplace_back("namespaces", "true");
  }
  const auto response = Get(options, request);
  if (!response) return response.error();
  if (why && response->status == 404) {
    return Fail(kBadInput, fmt::format("Error from Berth (NotFound): neither a pod nor a gang {:?} "
                                       "found in namespace {:?}",
                                       pod.name, pod.ns));
  }
  if (!response->Ok()) return Refused(options, request, *response);
  Json page = Json::parse(response->body, nullptr, /*allow_exceptions=*/false);
  if (!page.is_object()) {
    return Fail(kEnvironment, fmt::format("error: {}{} did not answer with JSON; is it Berth's "
                                          "--ops-listen address?",
                                          options.url, request.path));
  }
  Answer answer;
  if (!why) {
    if (const auto selected = Select(options.question, options.wanted, page); !selected) {
      answer = Fail(kBadInput, "Error from Berth (NotFound): " + selected.error());
    }
  }
  auto text = Print(options.question, std::move(page), options.output);
  if (!text) return Fail(kUsage, "error: " + text.error());
  // As kubectl: what is there, then what is not.
  const bool nothing = answer.code != 0 && options.wanted.names.size() == 1;
  if (!nothing) answer.out = std::move(*text);
  return answer;
}

}  // namespace berth::server
