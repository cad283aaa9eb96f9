#include "server/serve_options.h"

#include <functional>

#include "tests/support/catch.h"

namespace berth::server {
namespace {

using Change = std::function<void(ServeOptions&)>;

/// The error, or empty.
std::string Refusal(const Change& change) {
  ServeOptions options;
  options.kubeconfig = "config";
  change(options);
  const auto settings = CheckOptions(options);
  return settings ? "" : settings.error();
}

ServeSettings Accepted(const Change& change) {
  ServeOptions options;
  options.kubeconfig = "config";
  change(options);
  const auto settings = CheckOptions(options);
  REQUIRE(settings.has_value());
  return *settings;
}

TEST_CASE("without options all is on loopback, in plain, open", "[options]") {
  const auto settings = Accepted([](ServeOptions&) {});
  CHECK(settings.verbs.host == "127.0.0.1");
  CHECK(settings.verbs.port == 8888);
  CHECK(settings.ops.port == 9090);
  CHECK_FALSE(settings.verbs_tls);
  CHECK_FALSE(settings.ops_tls);
  CHECK_FALSE(settings.ops_auth);
  CHECK_FALSE(settings.elects);
}

TEST_CASE("in a cluster a leader is elected", "[options]") {
  CHECK(Accepted([](auto& o) { o.leader_elect = true; }).elects);
  CHECK(Accepted([](auto& o) { o.kubeconfig.clear(); }).elects);
  CHECK_FALSE(Accepted([](auto& o) {
                o.kubeconfig.clear();
                o.leader_elect = false;
              }).elects);
}

TEST_CASE("verbs in plain text stay on loopback", "[options]") {
  for (const std::string address : {"127.0.0.1:1", "127.1.2.3:1", "[::1]:1", "localhost:1"}) {
    CHECK(Refusal([&](auto& o) { o.listen = address; }).empty());
  }
  for (const std::string address :
       {"0.0.0.0:1", ":1", "10.0.0.1:1", "[::]:1", "128.0.0.1:1", "berth.example.com:1",
        "127.example.com:1", "127.0.0.1@10.0.0.1:1"}) {
    CHECK_THAT(Refusal([&](auto& o) { o.listen = address; }),
               Catch::Contains("plain text on loopback only"));
    CHECK(Refusal([&](auto& o) {
            o.listen = address;
            o.insecure_verbs = true;
          }).empty());
    CHECK(Refusal([&](auto& o) {
            o.listen = address;
            o.tls_cert_file = "c";
            o.tls_private_key_file = "k";
          }).empty());
  }
}

TEST_CASE("health has a port of its own where one is given", "[options]") {
  CHECK_FALSE(Accepted([](auto&) {}).health);
  const auto given = Accepted([](auto& o) { o.health_listen = ":8081"; }).health;
  REQUIRE(given);
  CHECK(given->port == 8081);
  CHECK_THAT(Refusal([](auto& o) { o.health_listen = "8081"; }),
             Catch::Contains("--health-listen"));
}

TEST_CASE("who may read the operations port goes by its address, unless said", "[options]") {
  const auto auth = [](const std::string& address, const std::string& given) {
    return Accepted([&](auto& o) {
             o.ops_listen = address;
             o.ops_auth = given;
           })
        .ops_auth;
  };
  CHECK_FALSE(auth("127.0.0.1:1", ""));
  CHECK(auth("0.0.0.0:1", ""));
  CHECK(auth("127.0.0.1:1", "kubernetes"));
  CHECK_FALSE(auth("0.0.0.0:1", "none"));
  CHECK_THAT(Refusal([](auto& o) {
               o.kubeconfig.clear();
               o.snapshot = "s";
               o.ops_listen = "0.0.0.0:1";
             }),
             Catch::Contains("--ops-auth none"));
}

TEST_CASE("TLS files belong together, and names need a CA", "[options]") {
  const auto tls = Accepted([](auto& o) {
    o.tls_cert_file = "c";
    o.tls_private_key_file = "k";
    o.client_ca_file = "ca";
    o.client_allowed_names = "system:kube-scheduler,,other";
  });
  REQUIRE(tls.verbs_tls);
  CHECK(tls.verbs_tls->client_allowed_names ==
        std::vector<std::string>{"system:kube-scheduler", "other"});
  CHECK_FALSE(tls.ops_tls);

  CHECK_FALSE(Refusal([](auto& o) { o.tls_cert_file = "c"; }).empty());
  CHECK_FALSE(Refusal([](auto& o) { o.ops_tls_cert_file = "c"; }).empty());
  CHECK_FALSE(Refusal([](auto& o) { o.client_ca_file = "ca"; }).empty());
  // They were ignored: everybody was let in.
  CHECK_THAT(Refusal([](auto& o) {
               o.tls_cert_file = "c";
               o.tls_private_key_file = "k";
               o.client_allowed_names = "scheduler";
             }),
             Catch::Contains("--client-ca-file"));
  CHECK_THAT(Refusal([](auto& o) {
               o.tls_cert_file = "c";
               o.tls_private_key_file = "k";
               o.client_ca_file = "ca";
               o.client_allowed_names = ",";
             }),
             Catch::Contains("holds no name"));
}

TEST_CASE("the election's durations, as client-go wants them", "[options]") {
  const auto refusal = [](const std::string& lease, const std::string& renew,
                          const std::string& retry) {
    return Refusal([&](auto& o) {
      o.leader_elect_lease_duration = lease;
      o.leader_elect_renew_deadline = renew;
      o.leader_elect_retry_period = retry;
    });
  };
  CHECK(refusal("15s", "10s", "2s").empty());
  CHECK(refusal("1m", "59.999s", "1ms").empty());
  const auto slow = Accepted([](auto& o) { o.leader_elect_lease_duration = "1m"; });
  CHECK(slow.election.lease_duration == std::chrono::seconds(60));

  CHECK_THAT(refusal("10s", "10s", "2s"), Catch::Contains("greater than --leader-elect-renew"));
  CHECK_THAT(refusal("15s", "2.4s", "2s"), Catch::Contains("1.2 x"));
  CHECK(refusal("15s", "2401ms", "2s").empty());
  CHECK_THAT(refusal("15500ms", "10s", "2s"), Catch::Contains("whole seconds"));
  for (const std::string bad : {"", "0", "-1s", "15", "x", "2h", "1us"}) {
    CHECK_THAT(refusal(bad, "10s", "2s"), Catch::Contains("--leader-elect-lease-duration"));
    CHECK_THAT(refusal("15s", bad, "2s"), Catch::Contains("--leader-elect-renew-deadline"));
    CHECK_THAT(refusal("15s", "10s", bad), Catch::Contains("--leader-elect-retry-period"));
  }
}

TEST_CASE("addresses", "[options]") {
  CHECK(ParseAddress("[::1]:80")->host == "::1");
  CHECK(ParseAddress(":0")->host.empty());
  CHECK(ParseAddress("a:65535")->port == 65535);
  for (const std::string bad :
       {"", "host", "host:", "host:x", "host:65536", "host:-1", "host:1x"}) {
    CHECK_FALSE(ParseAddress(bad).has_value());
  }
}

}  // namespace
}  // namespace berth::server
