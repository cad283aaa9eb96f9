#include "kube/client_config.h"

#include <string>

#include "tests/support/catch.h"
#include "tests/support/files.h"

namespace berth::kube {
namespace {

using Catch::Matchers::Contains;
using testing::TempDir;

std::string Kubeconfig(const std::string& cluster, const std::string& user) {
  return "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
         "contexts:\n- name: other\n  context: {cluster: x, user: y}\n"
         "- name: c\n  context: {cluster: k, user: u, namespace: team}\n"
         "clusters:\n- name: k\n  cluster: " +
         cluster + "\nusers:\n- name: u\n  user: " + user + "\n";
}

TEST_CASE("a kubeconfig with data and files", "[kube][client_config]") {
  const TempDir dir;
  const auto config = LoadKubeconfig(dir.Write(
      "config",
      Kubeconfig("{server: 'https://h:6443/', certificate-authority: pki/ca.crt, tls-server-name: "
                 "kube}",
                 "{client-certificate-data: Q0VSVA==, client-key: /etc/key.pem, tokenFile: tok}")));
  REQUIRE(config);
  CHECK(config->server == "https://h:6443");
  CHECK(config->ns == "team");
  CHECK(config->ca_file == dir.path() + "/pki/ca.crt");
  CHECK(config->tls_server_name == "kube");
  CHECK(config->client_cert_data == "CERT");
  CHECK(config->client_key_file == "/etc/key.pem");
  CHECK(config->token_file == dir.path() + "/tok");
  CHECK_FALSE(config->insecure_skip_verify);
}

TEST_CASE("what Berth cannot honour in a kubeconfig is refused by name", "[kube][client_config]") {
  const TempDir dir;
  const auto error = [&](const std::string& cluster, const std::string& user) {
    const auto config = LoadKubeconfig(dir.Write("config", Kubeconfig(cluster, user)));
    return config ? std::string() : config.error();
  };
  const std::string good = "{server: 'https://h'}";
  CHECK_THAT(error(good, "{exec: {command: aws}}"), Contains("exec: apiVersion must be"));
  CHECK_THAT(error(good, "{exec: {apiVersion: client.authentication.k8s.io/v1}}"),
             Contains("no command"));
  CHECK_THAT(error(good, "{auth-provider: {name: gcp}}"), Contains("auth-provider"));
  CHECK_THAT(error(good, "{username: a, password: b}"), Contains("username"));
  CHECK_THAT(error(good, "{token: t, as: admin}"), Contains("\"as\""));
  CHECK_THAT(error(good, "{client-certificate-data: '!!'}"), Contains("not base64"));
  CHECK_THAT(error(good, "{client-certificate: a.crt}"), Contains("needed together"));
  CHECK_THAT(error("{server: 'h:1'}", "{}"), Contains("server must be"));
  CHECK(error(good, "{token: t}").empty());
}

TEST_CASE("broken kubeconfigs name the file and not the secret", "[kube][client_config]") {
  const TempDir dir;
  CHECK_THAT(LoadKubeconfig(dir.path() + "/none").error(), Contains("cannot be read"));
  const auto path = dir.Write("config", "users: [{token: s3cret\n");
  CHECK_THAT(LoadKubeconfig(path).error(), Contains(path) && Contains("not valid YAML"));
  CHECK_THAT(LoadKubeconfig(path).error(), !Contains("s3cret"));
  CHECK_THAT(LoadKubeconfig(dir.Write("a", "[]")).error(), Contains("not a kubeconfig"));
  CHECK_THAT(LoadKubeconfig(dir.Write("b", "{clusters: []}")).error(), Contains("current-context"));
  CHECK_THAT(LoadKubeconfig(dir.Write("c", "{current-context: x}")).error(),
             Contains("no context named \"x\""));
}

TEST_CASE("in a cluster", "[kube][client_config]") {
  const TempDir dir;
  CHECK_THAT(InClusterConfig("10.0.0.1", "443", dir.path()).error(),
             Contains("no service account"));
  dir.Write("token", "abc\n");
  CHECK_THAT(InClusterConfig("10.0.0.1", "443", dir.path()).error(), Contains("ca.crt"));
  dir.Write("ca.crt", "PEM");
  dir.Write("namespace", "berth-system");
  const auto config = InClusterConfig("10.0.0.1", "443", dir.path());
  REQUIRE(config);
  CHECK(config->server == "https://10.0.0.1:443");
  CHECK(config->token == "abc");
  CHECK(config->token_file == dir.path() + "/token");
  CHECK(config->ns == "berth-system");
  CHECK(InClusterConfig("fd00::1", "443", dir.path())->server == "https://[fd00::1]:443");
  CHECK_THAT(InClusterConfig("", "443", dir.path()).error(), Contains("--kubeconfig"));
}

TEST_CASE("base64", "[kube][client_config]") {
  CHECK(DecodeBase64("") == "");
  CHECK(DecodeBase64("Zg==") == "f");
  CHECK(DecodeBase64("Zm8=") == "fo");
  CHECK(DecodeBase64("Zm9v\nYmFy") == "foobar");
  CHECK(DecodeBase64("Zm8") == "fo");
  CHECK(DecodeBase64("//79") == "\xff\xfe\xfd");
  for (const char* bad : {"Z", "Zg=", "Zg===", "Z===", "Zm9v=", "Z=g=", "Zm$v"}) {
    CHECK_FALSE(DecodeBase64(bad));
  }
}

}  // namespace
}  // namespace berth::kube
