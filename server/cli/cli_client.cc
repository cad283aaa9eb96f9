#include "server/cli/cli_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "kube/exec_plugin.h"
#include "kube/read_file.h"
#include "kube/rest_client.h"
#include "kube/terminal.h"
#include "server/cli/exit_codes.h"
#include "server/ops/ops_auth.h"

namespace berth::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr kube::Duration kTimeout{10'000};

Answer Fail(int code, std::string text) {
  return {.code = code, .out = {}, .err = std::move(text) + "\n"};
}

/// Whether the answer can be limited to one namespace.
bool InNamespaces(Question question) {
  return question == Question::kGangs || question == Question::kPods;
}

struct PodName {
  std::string ns;
  std::string name;
};

/// nullopt: not a valid pod name.
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

/// Where the service is, with which credentials, and in which namespace.
struct Target {
  kube::ClientConfig config;
  bool proxied = false;  ///< Through the API server.
};

/// Uses `token_file`, else the kubeconfig user's token, else, over TLS, that of the pod that we run
/// in. In plain text only a token that was named explicitly is sent, and only to loopback.
std::expected<void, Answer> AddToken(const AskOptions& options,
                                     const std::optional<kube::ClientConfig>& kubeconfig,
                                     kube::ClientConfig& config) {
  if (!options.token_file.empty()) {
    const auto token = kube::ReadFile(options.token_file, kube::kMaxTokenBytes);
    if (!token) {
      return std::unexpected(Fail(token.error().unreadable ? kEnvironment : kBadInput,
                                  "error: --token-file: " + token.error().message));
    }
    config.token_file = options.token_file;
    return {};
  }
  if (kubeconfig) {
    if (kubeconfig->token.empty() && kubeconfig->token_file.empty()) {
      return std::unexpected(
          Fail(kBadInput, fmt::format("error: {}: its user has no token, which Berth requires; "
                                      "give --token-file with a token from `kubectl create token`",
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

/// The path of a service behind the API server's proxy; empty: `service` is not
/// NAMESPACE/[SCHEME:]NAME:PORT.
std::string ProxyPath(const std::string& service) {
  const auto slash = service.find('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == service.size()) return {};
  return fmt::format("/api/v1/namespaces/{}/services/{}/proxy",
                     kube::EscapeSegment(service.substr(0, slash)),
                     kube::EscapeSegment(service.substr(slash + 1)));
}

/// REQUIRES: the kubeconfig, if one is named, was read.
std::expected<Target, Answer> TargetOf(const AskOptions& options,
                                       const std::optional<kube::ClientConfig>& kubeconfig) {
  Target target{.config = {}, .proxied = options.url.empty() && kubeconfig};
  kube::ClientConfig& config = target.config;
  if (target.proxied) {
    config = *kubeconfig;
    const std::string path = ProxyPath(options.service);
    if (path.empty()) {
      return std::unexpected(Fail(kUsage, "error: --service is NAMESPACE/[SCHEME:]NAME:PORT"));
    }
    config.server += path;
  } else {
    config.server = options.url.empty() ? kDefaultUrl : options.url;
    while (config.server.ends_with('/')) config.server.pop_back();
    if (!config.server.starts_with("http://") && !config.server.starts_with("https://")) {
      return std::unexpected(
          Fail(kUsage, "error: --berth-url must start with http:// or https://"));
    }
  }
  if (!options.certificate_authority.empty()) {
    config.ca_file = options.certificate_authority;
    config.ca_data.clear();
  }
  if (!options.tls_server_name.empty()) config.tls_server_name = options.tls_server_name;
  config.insecure_skip_verify |= options.insecure_skip_tls_verify;
  if (const auto added = AddToken(options, kubeconfig, config); !added) {
    return std::unexpected(added.error());
  }
  return target;
}

std::expected<kube::Response, Answer> Get(const Target& target, const kube::Request& request) {
  const auto client = kube::RestClient::Create(
      target.config, {.user_agent = "berth-cli",
                      .second_token_header = target.proxied ? kProxiedTokenHeader : ""});
  if (!client) return std::unexpected(Fail(kUsage, "error: --berth-url: " + client.error()));
  auto response = (*client)->Do(request, {});
  if (response) return std::move(*response);
  const auto& error = response.error();
  const char* hint =
      target.proxied
          ? "That is the API server of --kubeconfig; --berth-url names the service itself."
      : error.failure == kube::TransportFailure::kTls
          ? "Its certificate must be signed by --certificate-authority, and be for the host of "
            "--berth-url, or else for --tls-server-name."
          : "Is `berth serve` running? Its --ops-listen address goes into --berth-url or "
            "BERTH_URL.";
  return std::unexpected(
      Fail(kEnvironment, fmt::format("error: no Berth service at {}: {}\n{}", target.config.server,
                                     error.message, hint)));
}

/// Explains a refusal to the user.
Answer Refused(const Target& target, const kube::Request& request, const kube::Response& response) {
  std::string text = response.body.substr(0, 500);
  text.erase(text.find_last_not_of(" \r\n") + 1);
  if (response.status == 401) {
    return Fail(kBadInput, fmt::format("error: {}\nGive --token-file or --kubeconfig; a token that "
                                       "has expired must be renewed.",
                                       text));
  }
  if (target.proxied && text.starts_with('{')) {  // a Status: Berth's own refusals are plain text
    const std::string said = kube::ParseStatus(response.body, response.status).message;
    if (response.status == 403) {
      return Fail(kBadInput, fmt::format("Error from the API server (Forbidden): {}\nThe Role "
                                         "berth-proxy of Berth's manifests gives that right.",
                                         said));
    }
    return Fail(kEnvironment,
                fmt::format("error: the API server got no answer from Berth at {}: {}",
                            target.config.server, said));
  }
  if (response.status == 403) return Fail(kBadInput, "Error from Berth: " + text);
  return Fail(kEnvironment,
              fmt::format("error: {}{} answered HTTP {}{}{}", target.config.server, request.path,
                          response.status, text.empty() ? "" : ": ", text));
}

/// The cluster and the credentials from the kubeconfig, if there is one. With --token-file its
/// user's credentials are not needed, and no plug-in is run for them.
std::expected<std::optional<kube::ClientConfig>, Answer> ReadKubeconfig(const AskOptions& options) {
  if (options.kubeconfig.empty()) return std::nullopt;
  auto read = options.token_file.empty()
                  ? kube::LoadUserKubeconfig(options.kubeconfig, options.context)
                  : kube::LoadKubeconfig(options.kubeconfig, options.context);
  if (!read) return std::unexpected(Fail(kEnvironment, "error: " + read.error()));
  read->exec.reset();
  return std::move(*read);
}

/// The page that answers the question.
std::expected<Json, Answer> Fetch(const AskOptions& given,
                                  const std::optional<kube::ClientConfig>& kubeconfig) {
  AskOptions options = given;
  // As kubectl: in the namespace of the context, unless another is given. Queues have no namespace.
  if (kubeconfig && options.ns.empty() && options.question != Question::kQueues) {
    options.ns = kubeconfig->ns;
  }
  const auto target = TargetOf(options, kubeconfig);
  if (!target) return std::unexpected(target.error());
  kube::Request request;
  request.timeout = kTimeout;
  request.path = fmt::format("/api/v1/{}", NameOf(options.question));
  const bool why = options.question == Question::kWhy;
  PodName pod;
  if (why) {
    const auto parsed = ParsePod(options);
    if (!parsed) {
      return std::unexpected(
          Fail(kUsage, fmt::format("error: {:?} is not a pod's name", options.pod)));
    }
    pod = *parsed;
    request.query = {{"pod", pod.ns + "/" + pod.name}};
  } else if (!options.ns.empty() && !options.all_namespaces && InNamespaces(options.question)) {
    request.query = {{"namespace", options.ns}};
  } else if (options.question == Question::kQueues) {
    if (!options.ns.empty()) request.query.emplace_back("namespace", options.ns);
    if (options.output.format == OutputFormat::kWide || options.output.by_user) {
      request.query.emplace_back("namespaces", "true");
    }
  }
  const auto response = Get(*target, request);
  if (!response) return std::unexpected(response.error());
  // The API server's own 404 is JSON.
  if (why && response->status == 404 && !(target->proxied && response->body.starts_with('{'))) {
    return std::unexpected(
        Fail(kBadInput, fmt::format("Error from Berth (NotFound): neither a pod nor a gang {:?} "
                                    "found in namespace {:?}",
                                    pod.name, pod.ns)));
  }
  if (!response->Ok()) return std::unexpected(Refused(*target, request, *response));
  Json page = Json::parse(response->body, nullptr, /*allow_exceptions=*/false);
  if (!page.is_object()) {
    return std::unexpected(
        Fail(kEnvironment, fmt::format("error: {}{} did not answer with JSON; is it Berth's "
                                       "--ops-listen address?",
                                       target->config.server, request.path)));
  }
  return page;
}

/// Identifies an item.
std::string KeyOf(const Json& item) {
  std::string key;
  for (const char* field : {"namespace", "name"}) {
    const auto it = item.find(field);
    if (it == item.end() || !it->is_string()) continue;
    key += (key.empty() ? "" : "/") + it->get<std::string>();
  }
  return key;
}

/// Keeps only the items of `page` that differ from `last`, and updates `last` to all of them.
/// Returns the keys of items that no longer exist. A change of the waiting time alone, or of
/// what was used so far, does not count.
std::vector<std::string> TakeChanges(Json& page, std::map<std::string, Json>& last) {
  std::map<std::string, Json> now;
  Json changed = Json::array();
  for (const Json& item : page.value("items", Json::array())) {
    if (!item.is_object()) continue;
    Json lasting = item;
    for (const char* passes : {"waitingSeconds", "deviceSeconds", "users"}) lasting.erase(passes);
    const std::string key = KeyOf(item);
    const auto before = last.find(key);
    if (before == last.end() || before->second != lasting) changed.push_back(item);
    now.insert_or_assign(key, std::move(lasting));
  }
  std::vector<std::string> gone;
  for (const auto& [key, item] : last) {
    if (!now.contains(key)) gone.push_back(key);
  }
  page["items"] = std::move(changed);
  last = std::move(now);
  return gone;
}

}  // namespace

Answer Ask(const AskOptions& options) {
  const auto kubeconfig = ReadKubeconfig(options);
  if (!kubeconfig) return kubeconfig.error();
  auto page = Fetch(options, *kubeconfig);
  if (!page) return page.error();
  Answer answer;
  if (options.question != Question::kWhy) {
    if (const auto selected = Select(options.question, options.wanted, *page); !selected) {
      answer = Fail(kBadInput, "Error from Berth (NotFound): " + selected.error());
    }
  }
  auto text = Print(options.question, std::move(*page), options.output);
  if (!text) return Fail(kUsage, "error: " + text.error());
  // As kubectl: the items that exist, then those that do not.
  const bool nothing = answer.code != 0 && options.wanted.names.size() == 1;
  if (!nothing) answer.out = std::move(*text);
  return answer;
}

Answer Watch(const AskOptions& options, const std::function<void(const std::string&)>& emit,
             const std::function<bool()>& again) {
  using Format = OutputFormat;
  const Format format = options.output.format;
  const bool lines = format == Format::kTable || format == Format::kWide || format == Format::kName;
  if (!lines || options.output.by_model || options.output.by_user ||
      options.question == Question::kWhy) {
    return Fail(kUsage, "error: -w is for lists printed as table, wide or name");
  }
  Output output = options.output;
  std::map<std::string, Json> last;
  auto kubeconfig = ReadKubeconfig(options);
  if (!kubeconfig) return kubeconfig.error();
  for (bool first = true; first || again(); first = false) {
    auto page = Fetch(options, *kubeconfig);
    if (!page && !first && *kubeconfig) {  // its token may have expired
      if (auto fresh = ReadKubeconfig(options)) kubeconfig = std::move(fresh);
      page = Fetch(options, *kubeconfig);
    }
    if (!page) return page.error();
    // A named item may appear later.
    (void)Select(options.question, options.wanted, *page);
    const auto gone = TakeChanges(*page, last);
    const bool news = first || !(*page)["items"].empty();
    auto text = Print(options.question, std::move(*page), output);
    if (!text) return Fail(kUsage, "error: " + text.error());
    if (news) emit(*text);
    for (const std::string& key : gone) emit(kube::Printable(key) + ": gone\n");
    if (!last.empty()) output.headers = false;
  }
  return {};
}

}  // namespace berth::server
