#include "server/ops/ops_server.h"

#include <nlohmann/json.hpp>

#include "tests/support/catch.h"
#include "tests/support/raw_client.h"

namespace berth::server {
namespace {

using nlohmann::json;
using test::Get;
using test::RawClient;

struct Fixture {
  Fixture() {
    OpsHandlers handlers;
    handlers.livez = {{"ping", [] { return ""; }}};
    handlers.readyz = {{"informers", [this] { return not_synced; }}, {"policy", [] { return ""; }}};
    handlers.authorize = [this](
                             const HttpRequest& request,
                             const kube::AccessAttributes& wanted) -> std::optional<HttpResponse> {
      asked = wanted;
      if (!guarded || request.Header("authorization") == "Bearer good") return std::nullopt;
      return HttpResponse{.status = 401};
    };
    handlers.before_metrics = [this] { ++scrapes; };
    handlers.configz = [] {
      return HttpResponse{.body = "a: b", .content_type = "application/yaml"};
    };
    handlers.debug["plans"] = [] { return HttpResponse{.body = "[1]"}; };
    handlers.queues = [](std::string_view ns, bool namespaces) {
      return HttpResponse{.body = R"(["q"])" + std::string(ns) + (namespaces ? "+" : "")};
    };
    handlers.gangs = [](std::string_view ns) { return HttpResponse{.body = std::string(ns)}; };
    handlers.pods = [](std::string_view ns) { return HttpResponse{.body = std::string(ns)}; };
    handlers.nodes = [](const HttpRequest&) { return HttpResponse{.body = "[]"}; };
    handlers.why = [](std::string_view ns, std::string_view name, const HttpRequest&) {
      return HttpResponse{.body = std::string(ns) + "|" + std::string(name)};
    };
    ServeOps(server, std::move(handlers), metrics, build);
    port = *server.Listen("127.0.0.1", 0);
  }

  const BuildInfo build{.version = "1.2", .commit = "abc", .compiler = "g++ \"12\""};
  std::string not_synced;
  bool guarded = false;
  kube::AccessAttributes asked;
  int scrapes = 0;
  Metrics metrics{build};
  HttpServer server;
  std::uint16_t port = 0;
};

TEST_CASE("health is ok, or says what is not", "[ops]") {
  Fixture f;
  RawClient client(f.port);
  for (const auto* path : {"/livez", "/readyz", "/healthz"}) {
    const auto answer = client.Call(Get(path));
    CHECK(answer->status == 200);
    CHECK(answer->body == "ok");
  }
  CHECK(client.Call(Get("/readyz?verbose"))->body ==
        "[+]informers ok\n[+]policy ok\nreadyz check passed\n");

  f.not_synced = "pods not listed yet";
  const auto failed = client.Call(Get("/readyz"));
  CHECK(failed->status == 500);
  CHECK(failed->body ==
        "[-]informers failed: pods not listed yet\n[+]policy ok\nreadyz check failed\n");
  CHECK(client.Call(Get("/livez"))->status == 200);
  const auto without = client.Call(Get("/readyz?verbose&exclude=informers&exclude=typo"));
  CHECK(without->status == 200);
  CHECK_THAT(without->body, Catch::Contains("[+]informers excluded: ok") &&
                                Catch::Contains("no matches for \"typo\""));
}

TEST_CASE("pages of the owner and of our own", "[ops]") {
  Fixture f;
  RawClient client(f.port);
  const auto configz = client.Call(Get("/configz"));
  CHECK(configz->body == "a: b");
  CHECK_THAT(configz->head, Catch::Contains("Content-Type: application/yaml"));
  CHECK(client.Call(Get("/debug/plans"))->body == "[1]");
  const auto nothing = client.Call(Get("/debug/nothing"));
  CHECK(nothing->status == 404);
  CHECK(nothing->body == "404 page not found\n");
  CHECK_THAT(nothing->head, Catch::Contains("Content-Type: text/plain"));
  CHECK(client.Call(Get("/api/v1/queues"))->body == R"(["q"])");
  CHECK(client.Call(Get("/api/v1/queues?namespace=team-a"))->body == R"(["q"]team-a)");
  CHECK(client.Call(Get("/api/v1/queues?namespaces=true"))->body == R"(["q"]+)");
  CHECK(client.Call(Get("/api/v1/gangs?namespace=team-a"))->body == "team-a");
  CHECK(client.Call(Get("/api/v1/pods?namespace=team-a"))->body == "team-a");
  CHECK(json::parse(client.Call(Get("/debug/buildinfo"))->body) ==
        json({{"version", "1.2"}, {"commit", "abc"}, {"compiler", "g++ \"12\""}}));
  CHECK(json::parse(client.Call(Get("/debug/threads"))->body)["threads"].get<int>() >= 3);
  const auto metrics = client.Call(Get("/metrics"));
  CHECK_THAT(metrics->head, Catch::Contains("Content-Type: text/plain; version=0.0.4"));
  CHECK_THAT(metrics->body, Catch::Contains("version=\"1.2\"} 1"));
  CHECK(f.scrapes == 1);
}

TEST_CASE("what is not given is not served", "[ops]") {
  const BuildInfo build{};
  Metrics metrics{build};
  HttpServer server;
  ServeOps(server, {}, metrics, build);
  RawClient client(*server.Listen("127.0.0.1", 0));
  for (const auto* path :
       {"/configz", "/api/v1/queues", "/api/v1/gangs", "/api/v1/nodes", "/api/v1/why?pod=a/b"}) {
    CHECK(client.Call(Get(path))->status == 404);
  }
  CHECK(client.Call(Get("/metrics"))->status == 200);
}

TEST_CASE("why wants a pod", "[ops]") {
  Fixture f;
  RawClient client(f.port);
  CHECK(client.Call(Get("/api/v1/why?pod=team-a/job-0"))->body == "team-a|job-0");
  CHECK(client.Call(Get("/api/v1/why?pod=team-a%2Fjob-0"))->body == "team-a|job-0");
  for (const auto* query : {"", "?pod=", "?pod=x", "?pod=/x", "?pod=x/", "?pod=a/b/c"}) {
    CHECK(client.Call(Get("/api/v1/why" + std::string(query)))->status == 400);
  }
}

TEST_CASE("all but health asks first, for what the page shows", "[ops]") {
  Fixture f;
  f.guarded = true;
  RawClient client(f.port);
  for (const auto* path : {"/readyz", "/livez", "/healthz?verbose"}) {
    CHECK(client.Call(Get(path))->status == 200);
  }
  CHECK(f.asked.path.empty());
  const auto asked = [&](const std::string& path) {
    CHECK(client.Call(Get(path))->status == 401);
    return kube::DescribeRefusal(f.asked) + (f.asked.name.empty() ? "" : " " + f.asked.name);
  };
  for (const std::string path : {"/metrics", "/configz", "/debug/buildinfo", "/debug/threads",
                                 "/debug/plans", "/api/v1/queues"}) {
    CHECK(asked(path) == "cannot get path \"" + path + "\"");
  }
  CHECK(asked("/api/v1/nodes") == "cannot list resource \"pods\" in all namespaces");
  CHECK(asked("/api/v1/pods") == "cannot list resource \"pods\" in all namespaces");
  CHECK(asked("/api/v1/gangs") == "cannot list resource \"pods\" in all namespaces");
  CHECK(asked("/api/v1/gangs?namespace=team-a") ==
        "cannot list resource \"pods\" in the namespace \"team-a\"");
  CHECK(asked("/api/v1/why?pod=team-a/job-0") ==
        "cannot get resource \"pods\" in the namespace \"team-a\" job-0");
  // The first of two is asked for, and answered.
  CHECK(asked("/api/v1/gangs?namespace=team-a&namespace=team-b") ==
        "cannot list resource \"pods\" in the namespace \"team-a\"");
  CHECK(f.scrapes == 0);
  CHECK(client.Call("GET /configz HTTP/1.1\r\nHost: x\r\nAUTHORIZATION: Bearer good\r\n\r\n")
            ->status == 200);
}

}  // namespace
}  // namespace berth::server
