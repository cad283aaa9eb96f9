// Credentials from the program that a kubeconfig names, as client-go has them.
#include "kube/exec_plugin.h"

#include <filesystem>
#include <string>

#include "kube/rest_client.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"

namespace berth::kube {
namespace {

using Catch::Matchers::Contains;

/// A kubeconfig whose user has a plug-in: a shell script beside it.
class Plugin {
 public:
  /// `user` are further keys of the user's exec.
  explicit Plugin(const std::string& script, const std::string& exec = "",
                  const std::string& user = "") {
    const std::string file = dir_.Write("plugin", "#!/bin/sh\n" + script + "\n");
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    path_ = dir_.Write("config",
                       "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
                       "contexts: [{name: c, context: {cluster: k, user: u}}]\n"
                       "clusters: [{name: k, cluster: {server: 'https://h:6443', "
                       "certificate-authority-data: Q0E=}}]\n"
                       "users: [{name: u, user: {" +
                           user +
                           "exec: {apiVersion: client.authentication.k8s.io/v1, command: ./plugin" +
                           exec + "}}}]\n");
  }
  std::expected<ClientConfig, std::string> Load() const { return LoadUserKubeconfig(path_); }
  std::string Error() const {
    const auto config = Load();
    return config ? std::string() : config.error();
  }
  std::string Saved() const { return dir_.Read("saved"); }
  const std::string& path() const { return path_; }

 private:
  testing::TempDir dir_;
  std::string path_;
};

/// A script that prints a credential with this status.
std::string Prints(const std::string& status,
                   const std::string& version = "client.authentication.k8s.io/v1") {
  return "printf '%s\\n' '{\"kind\": \"ExecCredential\", \"apiVersion\": \"" + version +
         "\", \"status\": " + status + "}'";
}

TEST_CASE("a plug-in gives a token", "[kube][exec_plugin]") {
  const Plugin plugin("echo \"$1 $2 $REGION $KUBERNETES_EXEC_INFO\" > \"$(dirname $0)/saved\"\n" +
                          Prints(R"({"token": "abc"})"),
                      ", args: [get-token, 'a b'], env: [{name: REGION, value: eu}], "
                      "provideClusterInfo: true, interactiveMode: Never");
  const auto config = plugin.Load();
  REQUIRE(config);
  CHECK(config->token == "abc");
  CHECK_FALSE(config->exec);
  CHECK(plugin.Saved() ==
        "get-token a b eu {\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":"
        "\"ExecCredential\",\"spec\":{\"cluster\":{\"certificate-authority-data\":\"Q0E=\","
        "\"server\":\"https://h:6443\"},\"interactive\":false}}\n");
}

TEST_CASE("a plug-in gives a client certificate", "[kube][exec_plugin]") {
  const auto config =
      Plugin(Prints(R"({"clientCertificateData": "C", "clientKeyData": "K"})")).Load();
  REQUIRE(config);
  CHECK(config->client_cert_data == "C");
  CHECK(config->client_key_data == "K");
}

TEST_CASE("a token in the file wins over a plug-in", "[kube][exec_plugin]") {
  const auto config = Plugin("exit 1", "", "token: given, ").Load();
  REQUIRE(config);
  CHECK(config->token == "given");
}

TEST_CASE("what plug-ins do wrong is told without what they print", "[kube][exec_plugin]") {
  CHECK_THAT(Plugin("echo s3cret; exit 3").Error(),
             Contains("plugin\" ended with status 3") && !Contains("s3cret"));
  CHECK_THAT(Plugin("echo s3cret").Error(),
             Contains("prints no ExecCredential") && !Contains("s3cret"));
  CHECK_THAT(Plugin(Prints("{}")).Error(), Contains("gives no credential"));
  CHECK_THAT(Plugin(Prints(R"({"token": "a\nHost: b"})")).Error(), Contains("no token has"));
  CHECK_THAT(Plugin(Prints(R"({"clientKeyData": "K"})")).Error(), Contains("needed together"));
  CHECK_THAT(Plugin(Prints(R"({"token": 5})")).Error(), Contains("gives no credential"));
  CHECK_THAT(Plugin(Prints(R"("x")")).Error(), Contains("gives no credential"));
  CHECK_THAT(Plugin("yes").Error(), Contains("more than 1 MiB"));
  CHECK_THAT(Plugin(Prints(R"({"token": "a"})", "client.authentication.k8s.io/v1beta1")).Error(),
             Contains("another version"));
}

TEST_CASE("a plug-in that is not there: how to get it", "[kube][exec_plugin]") {
  const testing::TempDir dir;
  const std::string path =
      dir.Write("config",
                "current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n"
                "clusters: [{name: k, cluster: {server: 'https://h'}}]\n"
                "users: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1beta1, "
                "command: no-such-plugin, installHint: Install it.}}}]\n");
  const auto config = LoadUserKubeconfig(path);
  REQUIRE_FALSE(config);
  CHECK_THAT(config.error(),
             Contains("\"no-such-plugin\" cannot be run: No such file") && Contains("Install it."));
}

TEST_CASE("a service runs no plug-in", "[kube][exec_plugin]") {
  const Plugin plugin("touch \"$(dirname $0)/saved\"");
  const auto config = LoadKubeconfig(plugin.path());
  REQUIRE(config);
  REQUIRE(config->exec);
  CHECK(plugin.Saved().empty());
  const auto client = RestClient::Create(*config);
  REQUIRE_FALSE(client);
  CHECK_THAT(client.error(), Contains("a service does not run"));
}

}  // namespace
}  // namespace berth::kube
