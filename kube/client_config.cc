#include "kube/client_config.h"

#include <yaml-cpp/yaml.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>

#include "kube/read_file.h"

namespace berth::kube {
namespace {

using Error = std::unexpected<std::string>;

int Base64Value(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+') return 62;
  if (c == '/') return 63;
  return -1;
}

/// Limit for a kubeconfig, which may hold several clusters' certificates.
constexpr std::size_t kMaxBytes = std::size_t{8} << 20U;

std::expected<std::string, std::string> ReadSmallFile(const std::string& path) {
  auto text = ReadFile(path, kMaxBytes);
  if (!text) return Error(text.error().message);
  return std::move(*text);
}

std::string TrimEnd(std::string text) {
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  return text;
}

/// The scalar under `key`, or empty.
std::string Text(const YAML::Node& node, const char* key) {
  if (!node.IsMap()) return {};
  const YAML::Node value = node[key];
  return value && value.IsScalar() ? value.Scalar() : std::string();
}

bool Has(const YAML::Node& node, const char* key) {
  if (!node.IsMap()) return false;
  const YAML::Node value = node[key];
  return value && !value.IsNull();
}

/// The `member` of the list entry called `name`: clusters, users and contexts all look like this.
std::expected<YAML::Node, std::string> Find(const YAML::Node& root, const char* list,
                                            const char* member, const std::string& name) {
  const YAML::Node entries = root[list];
  if (entries && entries.IsSequence()) {
    for (const YAML::Node& entry : entries) {
      if (Text(entry, "name") != name || !Has(entry, member)) continue;
      return entry[member];
    }
  }
  return Error(std::string("no ") + member + " named \"" + name + "\"");
}

/// One *-data field, decoded.
std::expected<std::string, std::string> Data(const YAML::Node& node, const char* key) {
  auto data = DecodeBase64(Text(node, key));
  if (!data) return Error(std::string(key) + ": " + data.error());
  return data;
}

std::string Resolve(const std::filesystem::path& base, const std::string& file) {
  if (file.empty()) return {};
  return (base / file).lexically_normal().string();  // An absolute `file` replaces the base.
}

std::expected<void, std::string> ReadCluster(const YAML::Node& cluster,
                                             const std::filesystem::path& base,
                                             ClientConfig& config) {
  config.server = Text(cluster, "server");
  while (config.server.ends_with('/')) config.server.pop_back();
  if (!config.server.starts_with("https://") && !config.server.starts_with("http://")) {
    return Error("cluster: server must be an http:// or https:// address");
  }
  auto ca = Data(cluster, "certificate-authority-data");
  if (!ca) return Error(ca.error());
  config.ca_data = *std::move(ca);
  config.ca_file = Resolve(base, Text(cluster, "certificate-authority"));
  config.tls_server_name = Text(cluster, "tls-server-name");
  config.proxy_url = Text(cluster, "proxy-url");
  config.insecure_skip_verify = Text(cluster, "insecure-skip-tls-verify") == "true";
  return {};
}

std::expected<void, std::string> ReadExec(const YAML::Node& exec, const std::filesystem::path& base,
                                          ClientConfig& config) {
  ExecPlugin plugin;
  plugin.api_version = Text(exec, "apiVersion");
  plugin.command = Text(exec, "command");
  constexpr std::string_view kGroup = "client.authentication.k8s.io/";
  if (plugin.api_version != std::string(kGroup) + "v1" &&
      plugin.api_version != std::string(kGroup) + "v1beta1") {
    return Error("user: exec: apiVersion must be " + std::string(kGroup) + "v1 or v1beta1");
  }
  if (plugin.command.empty()) return Error("user: exec: no command");
  if (plugin.command.find('/') != std::string::npos) plugin.command = Resolve(base, plugin.command);
  if (const YAML::Node args = exec["args"]; args && args.IsSequence()) {
    for (const YAML::Node& arg : args) plugin.args.push_back(arg.as<std::string>());
  }
  if (const YAML::Node env = exec["env"]; env && env.IsSequence()) {
    for (const YAML::Node& entry : env) {
      plugin.env.emplace_back(Text(entry, "name"), Text(entry, "value"));
    }
  }
  plugin.install_hint = Text(exec, "installHint");
  plugin.may_ask = Text(exec, "interactiveMode") != "Never";
  plugin.provide_cluster_info = Text(exec, "provideClusterInfo") == "true";
  if (plugin.provide_cluster_info && !config.ca_file.empty()) {
    return Error(
        "user: exec: provideClusterInfo goes with certificate-authority-data, not with a file");
  }
  config.exec = std::move(plugin);
  return {};
}

std::expected<void, std::string> ReadUser(const YAML::Node& user, const std::filesystem::path& base,
                                          ClientConfig& config) {
  for (const char* unsupported :
       {"auth-provider", "username", "password", "as", "as-uid", "as-groups", "as-user-extra"}) {
    if (!Has(user, unsupported)) continue;
    return Error(std::string("user: \"") + unsupported +
                 "\" is not supported; use a token, tokenFile or client certificate "
                 "(for instance a service account's)");
  }
  auto cert = Data(user, "client-certificate-data");
  if (!cert) return Error(cert.error());
  auto key = Data(user, "client-key-data");
  if (!key) return Error(key.error());
  config.client_cert_data = *std::move(cert);
  config.client_key_data = *std::move(key);
  config.client_cert_file = Resolve(base, Text(user, "client-certificate"));
  config.client_key_file = Resolve(base, Text(user, "client-key"));
  config.token = Text(user, "token");
  config.token_file = Resolve(base, Text(user, "tokenFile"));
  const bool cert_given = !config.client_cert_data.empty() || !config.client_cert_file.empty();
  const bool key_given = !config.client_key_data.empty() || !config.client_key_file.empty();
  if (cert_given != key_given) {
    return Error("user: a client certificate and a client key are needed together");
  }
  // As in client-go, a token or a certificate in the file wins.
  const bool given = cert_given || !config.token.empty() || !config.token_file.empty();
  if (given || !Has(user, "exec")) return {};
  return ReadExec(user["exec"], base, config);
}

std::expected<ClientConfig, std::string> Parse(const std::string& text,
                                               const std::filesystem::path& base,
                                               const std::string& wanted) {
  const YAML::Node root = YAML::Load(text);
  if (!root.IsMap()) return Error("not a kubeconfig file");
  const std::string name = wanted.empty() ? Text(root, "current-context") : wanted;
  if (name.empty()) return Error("no current-context is set");
  auto context = Find(root, "contexts", "context", name);
  if (!context) return Error(context.error());
  auto cluster = Find(root, "clusters", "cluster", Text(*context, "cluster"));
  if (!cluster) return Error(cluster.error());

  ClientConfig config;
  config.ns = Text(*context, "namespace");
  if (auto read = ReadCluster(*cluster, base, config); !read) return Error(read.error());
  if (const std::string user_name = Text(*context, "user"); !user_name.empty()) {
    auto user = Find(root, "users", "user", user_name);
    if (!user) return Error(user.error());
    if (auto read = ReadUser(*user, base, config); !read) return Error(read.error());
    if (config.exec) config.exec->ca_base64 = Text(*cluster, "certificate-authority-data");
  }
  return config;
}

}  // namespace

std::expected<std::string, std::string> DecodeBase64(std::string_view text) {
  std::string out;
  out.reserve(text.size() / 4 * 3);
  std::uint32_t bits = 0;
  int count = 0;
  int padding = 0;
  for (const char c : text) {
    if (c == '\n' || c == '\r' || c == ' ' || c == '\t') continue;
    if (c == '=') {
      ++padding;
      continue;
    }
    const int value = Base64Value(c);
    if (value < 0 || padding > 0) return Error("not base64");
    bits = (bits << 6) | static_cast<std::uint32_t>(value);
    if (++count % 4 == 0) {
      out.push_back(static_cast<char>(bits >> 16 & 0xff));
      out.push_back(static_cast<char>(bits >> 8 & 0xff));
      out.push_back(static_cast<char>(bits & 0xff));
    }
  }
  const int rest = count % 4;
  if (rest == 1 || padding > 2 || (padding > 0 && (rest + padding) != 4)) {
    return Error("not base64");
  }
  if (rest == 2) out.push_back(static_cast<char>(bits >> 4 & 0xff));
  if (rest == 3) {
    out.push_back(static_cast<char>(bits >> 10 & 0xff));
    out.push_back(static_cast<char>(bits >> 2 & 0xff));
  }
  return out;
}

std::expected<ClientConfig, std::string> LoadKubeconfig(const std::string& path,
                                                        const std::string& context) {
  auto text = ReadSmallFile(path);
  if (!text) return Error(text.error());
  try {
    const std::filesystem::path base = std::filesystem::absolute(path).parent_path();
    auto config = Parse(*text, base, context);
    if (!config) return Error(path + ": " + config.error());
    return config;
  } catch (const YAML::Exception& e) {
    // Only the position: yaml-cpp's own text may quote a line, and lines hold tokens.
    return Error(path + ":" + std::to_string(e.mark.line + 1) + ":" +
                 std::to_string(e.mark.column + 1) + ": not valid YAML");
  } catch (const std::exception& e) {
    return Error(path + ": " + e.what());
  }
}

std::expected<ClientConfig, std::string> InClusterConfig(std::string_view host,
                                                         std::string_view port,
                                                         const std::string& service_account_dir) {
  if (host.empty() || port.empty()) {
    return Error(
        "not in a cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set; "
        "give --kubeconfig");
  }
  ClientConfig config;
  const bool ipv6 = host.find(':') != std::string_view::npos && !host.starts_with('[');
  config.server = "https://";
  config.server.append(ipv6 ? "[" : "").append(host).append(ipv6 ? "]" : "");
  config.server.append(":").append(port);
  config.token_file = service_account_dir + "/token";
  config.ca_file = service_account_dir + "/ca.crt";
  auto token = ReadSmallFile(config.token_file);
  if (!token) return Error("no service account is mounted: " + token.error());
  config.token = TrimEnd(*std::move(token));
  // Without this file curl would use the system's authorities, which must never be trusted for a
  // cluster.
  if (auto ca = ReadSmallFile(config.ca_file); !ca) return Error(ca.error());
  if (auto ns = ReadSmallFile(service_account_dir + "/namespace"))
    config.ns = TrimEnd(*std::move(ns));
  return config;
}

std::expected<ClientConfig, std::string> LoadInCluster() {
  const char* host = std::getenv("KUBERNETES_SERVICE_HOST");
  const char* port = std::getenv("KUBERNETES_SERVICE_PORT");
  return InClusterConfig(host == nullptr ? "" : host, port == nullptr ? "" : port,
                         std::string(kServiceAccountDir));
}

}  // namespace berth::kube
