#include "server/cli_client.h"

#include <fmt/format.h>

#include <fstream>
#include <set>

#include "kube/client_config.h"
#include "kube/quantity.h"
#include "kube/rest_client.h"
#include "server/table.h"

namespace berth::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kBadInput = 1;
constexpr int kUsage = 2;
constexpr int kEnvironment = 3;
constexpr kube::Duration kTimeout{10'000};

Answer Fail(int code, std::string text) {
  return {.code = code, .out = {}, .err = std::move(text) + "\n"};
}

// --- Reading a page that a newer or older service may have written.

const Json& At(const Json& json, std::string_view key) {
  static const Json kNothing;
  if (!json.is_object()) return kNothing;
  const auto it = json.find(std::string(key));
  return it == json.end() ? kNothing : *it;
}

std::string Text(const Json& json, std::string_view key) {
  const Json& value = At(json, key);
  if (value.is_string()) return value.get<std::string>();
  return value.is_null() || value.is_structured() ? std::string() : value.dump();
}

std::int64_t Number(const Json& json, std::string_view key) {
  const Json& value = At(json, key);
  return value.is_number() ? value.get<std::int64_t>() : 0;
}

std::string Joined(const Json& list) {
  std::string out;
  for (const Json& item : list.is_array() ? list : Json::array()) {
    if (!item.is_string()) continue;
    if (!out.empty()) out += ',';
    out += item.get<std::string>();
  }
  return out;
}

// --- One printer a question.

std::string PendingText(const Json& pending) {
  std::int64_t total = 0;
  std::string reasons;
  if (!pending.is_object()) return {};
  for (const auto& [reason, count] : pending.items()) {
    if (!count.is_number()) continue;
    total += count.get<std::int64_t>();
    reasons += fmt::format("{}{} {}", reasons.empty() ? "" : ", ", reason, count.dump());
  }
  return total == 0 ? "0" : fmt::format("{} ({})", total, reasons);
}

/// Resources of a queue worth a row: devices; with `wide` all that are used or limited.
std::set<std::string> ResourcesOf(const Json& queue, bool wide) {
  std::set<std::string> names;
  for (const char* key : {"quota", "limit", "used"}) {
    const Json& amounts = At(queue, key);
    if (!amounts.is_object()) continue;
    for (const auto& [name, amount] : amounts.items()) {
      if (wide || name.find('/') != std::string::npos) names.insert(name);
    }
  }
  return names;
}

std::string QueuesTable(const Json& page, bool wide) {
  std::vector<std::string> header{"NAME", "RESOURCE", "USED", "QUOTA", "LIMIT", "PENDING"};
  if (wide) header.emplace_back("NAMESPACES");
  Table table(std::move(header));
  for (const Json& queue : At(page, "items")) {
    auto names = ResourcesOf(queue, wide);
    if (names.empty()) names.insert("");
    bool first = true;
    for (const std::string& name : names) {
      const auto amount = [&](const char* key, const char* otherwise) {
        const std::string text = Text(At(queue, key), name);
        return text.empty() ? std::string(otherwise) : text;
      };
      std::vector<std::string> row{
          Text(queue, "name"),  name,
          amount("used", "0"),  amount("quota", "-"),
          amount("limit", "-"), first ? PendingText(At(queue, "pending")) : ""};
      if (wide) row.push_back(Joined(At(queue, "namespaces")));
      table.Add(std::move(row));
      first = false;
    }
  }
  return table.empty() ? "No queues found.\n" : table.Render();
}

std::string GangsTable(const Json& page, bool wide) {
  std::vector<std::string> header{"NAMESPACE", "NAME",  "QUEUE", "PHASE",
                                  "MEMBERS",   "BOUND", "WAIT",  "REASON"};
  if (wide) header.insert(header.end(), {"MIN", "NODES", "MESSAGE"});
  Table table(std::move(header));
  for (const Json& gang : At(page, "items")) {
    const std::string phase = Text(gang, "phase");
    std::vector<std::string> row{
        Text(gang, "namespace"),
        Text(gang, "name"),
        Text(gang, "queue"),
        phase,
        Text(gang, "members") + "/" + Text(gang, "size"),
        Text(gang, "bound"),
        phase == "Started" ? "" : HumanDuration(Number(gang, "waitingSeconds")),
        Text(gang, "reason")};
    if (wide) {
      row.insert(row.end(),
                 {Text(gang, "minMember"), Joined(At(gang, "nodes")), Text(gang, "message")});
    }
    table.Add(std::move(row));
  }
  return table.empty() ? "No gangs found.\n" : table.Render();
}

/// Pages name a domain by its path, `block-1/rack-a`; its column says the rest.
std::string LastPart(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// Topology levels in the order of the pages, without the one that is the node itself.
std::vector<std::string> LevelsOf(const Json& page) {
  std::vector<std::string> levels;
  for (const Json& node : At(page, "items")) {
    const Json& domains = At(node, "domains");
    if (!domains.is_object()) continue;
    for (const auto& [level, path] : domains.items()) {
      const bool host = LastPart(Text(domains, level)) == Text(node, "name");
      if (!host && std::ranges::find(levels, level) == levels.end()) levels.push_back(level);
    }
  }
  return levels;
}

std::string NodesTable(const Json& page, bool wide) {
  const auto levels = LevelsOf(page);
  std::vector<std::string> header{"NAME", "STATUS"};
  for (const std::string& level : levels) {
    header.push_back(level);
    for (char& c : header.back())
      c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  header.insert(header.end(), {"RESOURCE", "USED", "FREE", "TOTAL", "PODS"});
  if (wide) header.emplace_back("POD-NAMES");
  Table table(std::move(header));
  for (const Json& node : At(page, "items")) {
    std::vector<std::string> start{Text(node, "name"), At(node, "unschedulable") == true
                                                           ? "SchedulingDisabled"
                                                           : "Schedulable"};
    for (const std::string& level : levels)
      start.push_back(LastPart(Text(At(node, "domains"), level)));
    std::string names;
    for (const Json& pod : At(node, "pods")) {
      names += (names.empty() ? "" : ",") + Text(pod, "pod");
      if (At(pod, "planned") == true) names += "(planned)";
    }
    const Json devices = At(node, "devices").is_object() ? At(node, "devices") : Json::object();
    const auto add = [&](const std::string& name, const Json& device) {
      auto row = start;
      const auto used = kube::ParseFor(name, Text(device, "used"));
      const auto total = kube::ParseFor(name, Text(device, "allocatable"));
      row.insert(
          row.end(),
          {name, Text(device, "used"),
           used && total ? kube::Format(name, std::max<std::int64_t>(0, *total - *used)) : "",
           Text(device, "allocatable"), std::to_string(At(node, "pods").size())});
      if (wide) row.push_back(names);
      table.Add(std::move(row));
    };
    for (const auto& [name, device] : devices.items()) add(name, device);
    if (devices.empty()) add("", Json());
  }
  return table.empty() ? "No nodes found.\n" : table.Render();
}

std::string WhyText(const Json& why, bool wide) {
  const std::string reason = Text(why, "reason");
  std::string out =
      fmt::format("{}: {}{}\n", Text(why, "pod"), Text(why, "phase"),
                  reason.empty() || reason == Text(why, "phase") ? "" : ", " + reason);
  if (const std::string message = Text(why, "message"); !message.empty()) {
    out += fmt::format("\n  {}\n", message);
  }
  out += '\n';
  const auto line = [&](std::string_view name, const std::string& value) {
    if (!value.empty()) out += PadTo(name, 10) + value + "\n";
  };
  line("Queue:", Text(why, "queue"));
  if (At(why, "gang") == true) {
    line("Gang:",
         fmt::format("{}: {} members exist, {} bound, it starts with {}", Text(why, "workload"),
                     Text(why, "members"), Text(why, "bound"), Text(why, "minMember")));
  }
  line("Node:", Text(why, "node"));
  if (Text(why, "phase") != "Bound" && Text(why, "phase") != "Unmanaged") {
    line("Waiting:", HumanDuration(Number(why, "waitingSeconds")));
  }
  if (wide) {
    line("Want:", Text(why, "want"));
    line("Have:", Text(why, "have"));
    line("Subject:", Text(why, "subject"));
  }
  return out;
}

// --- Asking.

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
    if (before != "pod" && before != "pods" && before != "po") {
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
    if (!std::ifstream(options.token_file)) {
      return std::unexpected(
          Fail(kEnvironment, "error: --token-file: cannot read " + options.token_file));
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

std::string Print(Question question, const Json& page, OutputFormat format) {
  if (format == OutputFormat::kJson) return page.dump(2) + "\n";
  if (format == OutputFormat::kYaml) return ToYaml(page);
  const bool wide = format == OutputFormat::kWide;
  switch (question) {
    case Question::kWhy:
      return WhyText(page, wide);
    case Question::kQueues:
      return QueuesTable(page, wide);
    case Question::kGangs:
      return GangsTable(page, wide);
    case Question::kNodes:
      return NodesTable(page, wide);
  }
  return {};
}

Answer Ask(const AskOptions& options) {
  kube::Request request;
  request.timeout = kTimeout;
  static constexpr const char* kPaths[] = {"why", "queues", "gangs", "nodes"};
  request.path = std::string("/api/v1/") + kPaths[static_cast<std::size_t>(options.question)];
  const bool why = options.question == Question::kWhy;
  PodName pod;
  if (why) {
    const auto parsed = ParsePod(options);
    if (!parsed) return Fail(kUsage, fmt::format("error: {:?} is not a pod's name", options.pod));
    pod = *parsed;
    request.query = {{"pod", pod.ns + "/" + pod.name}};
  } else if (options.question == Question::kGangs && !options.ns.empty()) {
    request.query = {{"namespace", options.ns}};
  }
  const auto response = Get(options, request);
  if (!response) return response.error();
  if (why && response->status == 404) {
    return Fail(kBadInput, fmt::format("Error from Berth (NotFound): pod {:?} not found in "
                                       "namespace {:?}",
                                       pod.name, pod.ns));
  }
  if (!response->Ok()) return Refused(options, request, *response);
  const Json page = Json::parse(response->body, nullptr, /*allow_exceptions=*/false);
  if (!page.is_object()) {
    return Fail(kEnvironment, fmt::format("error: {}{} did not answer with JSON; is it Berth's "
                                          "--ops-listen address?",
                                          options.url, request.path));
  }
  return {.code = 0, .out = Print(options.question, page, options.output), .err = {}};
}

}  // namespace berth::server
