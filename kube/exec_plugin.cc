#include "kube/exec_plugin.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

namespace berth::kube {
namespace {

using Error = std::unexpected<std::string>;
using Json = nlohmann::json;

/// Limit for a plug-in's output: a token and two certificates.
constexpr std::size_t kMaxOutput = std::size_t{1} << 20U;

class Pipe {
 public:
  Pipe() : open_(::pipe2(ends_.data(), O_CLOEXEC) == 0) {}
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    CloseWriter();
    if (open_) ::close(ends_[0]);
  }
  bool open() const { return open_; }
  int reader() const { return ends_[0]; }
  int writer() const { return ends_[1]; }
  void CloseWriter() {
    if (open_ && ends_[1] >= 0) ::close(ends_[1]);
    ends_[1] = -1;
  }

 private:
  std::array<int, 2> ends_{-1, -1};
  bool open_;
};

/// The content of KUBERNETES_EXEC_INFO for the plug-in.
std::string ExecInfo(const ClientConfig& config, bool interactive) {
  const ExecPlugin& plugin = *config.exec;
  Json spec = {{"interactive", interactive}};
  if (plugin.provide_cluster_info) {
    Json cluster = {{"server", config.server}};
    if (!config.tls_server_name.empty()) cluster["tls-server-name"] = config.tls_server_name;
    if (!config.proxy_url.empty()) cluster["proxy-url"] = config.proxy_url;
    if (config.insecure_skip_verify) cluster["insecure-skip-tls-verify"] = true;
    if (!plugin.ca_base64.empty()) cluster["certificate-authority-data"] = plugin.ca_base64;
    spec["cluster"] = std::move(cluster);
  }
  const Json info = {
      {"apiVersion", plugin.api_version}, {"kind", "ExecCredential"}, {"spec", std::move(spec)}};
  return info.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Our own environment, overridden by the plug-in's, and by KUBERNETES_EXEC_INFO.
std::vector<std::string> EnvironmentOf(const ExecPlugin& plugin, const std::string& info) {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t name = std::min(text.find('='), text.size());
    variables[std::string(text.substr(0, name))] = text.substr(std::min(name + 1, text.size()));
  }
  for (const auto& [name, value] : plugin.env) variables[name] = value;
  variables["KUBERNETES_EXEC_INFO"] = info;
  std::vector<std::string> all;
  for (const auto& [name, value] : variables) all.push_back(name + '=' + value);
  return all;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::expected<pid_t, std::string> Spawn(const ExecPlugin& plugin, const std::string& info,
                                        bool interactive, int output) {
  std::vector<std::string> args{plugin.command};
  args.insert(args.end(), plugin.args.begin(), plugin.args.end());
  std::vector<std::string> env = EnvironmentOf(plugin, info);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  if (!interactive) {
    ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  }
  pid_t child = -1;
  const int failed = ::posix_spawnp(&child, plugin.command.c_str(), &actions, nullptr,
                                    Pointers(args).data(), Pointers(env).data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed == 0) return child;
  const std::string line = plugin.install_hint.substr(0, plugin.install_hint.find('\n'));
  const std::string hint = line.empty() ? "" : "; " + line;
  return Error(fmt::format("cannot be run: {}{}", std::strerror(failed), hint));
}

std::expected<std::string, std::string> ReadAll(int from) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t got = ::read(from, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Error(std::string("cannot be read: ") + std::strerror(errno));
    if (got == 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(got));
    if (text.size() > kMaxOutput) return Error("prints more than 1 MiB");
  }
}

int StatusOf(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// Returns the plug-in's output.
std::expected<std::string, std::string> Run(const ClientConfig& config) {
  const bool interactive = config.exec->may_ask && ::isatty(STDIN_FILENO) != 0;
  Pipe pipe;
  if (!pipe.open()) return Error(std::string("no pipe: ") + std::strerror(errno));
  const auto child = Spawn(*config.exec, ExecInfo(config, interactive), interactive, pipe.writer());
  if (!child) return Error(child.error());
  pipe.CloseWriter();
  auto output = ReadAll(pipe.reader());
  if (!output) ::kill(*child, SIGKILL);
  const int status = StatusOf(*child);
  if (output && status != 0) return Error(fmt::format("ended with status {}", status));
  return output;
}

std::expected<void, std::string> TakeCredential(const std::string& output, ClientConfig& config) {
  const Json answer = Json::parse(output, nullptr, /*allow_exceptions=*/false);
  const auto text = [](const Json& from, const char* key) {
    const auto it = from.is_object() ? from.find(key) : from.end();
    return from.is_object() && it != from.end() && it->is_string() ? it->get<std::string>()
                                                                   : std::string();
  };
  if (text(answer, "kind") != "ExecCredential") return Error("prints no ExecCredential");
  if (text(answer, "apiVersion") != config.exec->api_version) {
    return Error(fmt::format("answers in another version than {}", config.exec->api_version));
  }
  const Json status = answer.value("status", Json::object());
  config.token = text(status, "token");
  config.client_cert_data = text(status, "clientCertificateData");
  config.client_key_data = text(status, "clientKeyData");
  const bool printable =
      std::ranges::all_of(config.token, [](char c) { return c > ' ' && c < '\x7f'; });
  if (!printable) return Error("its token has characters that no token has");
  if (config.client_cert_data.empty() != config.client_key_data.empty()) {
    return Error("a client certificate and a client key are needed together");
  }
  if (config.token.empty() && config.client_cert_data.empty()) return Error("gives no credential");
  return {};
}

}  // namespace

std::expected<ClientConfig, std::string> LoadUserKubeconfig(const std::string& path,
                                                            const std::string& context) {
  auto config = LoadKubeconfig(path, context);
  if (!config || !config->exec) return config;
  const auto fail = [&](const std::string& what) {
    return Error(fmt::format("{}: the exec plug-in \"{}\" {}", path, config->exec->command, what));
  };
  const auto output = Run(*config);
  if (!output) return fail(output.error());
  if (const auto taken = TakeCredential(*output, *config); !taken) return fail(taken.error());
  config->exec.reset();
  return config;
}

}  // namespace berth::kube
