#include "server/ops/ops_auth.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "tests/support/catch.h"

namespace berth::server {
namespace {

using nlohmann::json;
using std::chrono::seconds;

/// An API server that knows `good-N` (user N, who may read /metrics) and `other` (who may not).
struct Fixture {
  std::expected<kube::Response, std::string> Send(const kube::Request& request) {
    CHECK(request.timeout == kReviewTimeout);
    asked.push_back(request.path.substr(request.path.rfind('/') + 1));
    if (!down.empty()) return std::unexpected(down);
    if (refuse != 0) {
      return kube::Response{.status = refuse, .body = "{}", .retry_after = {}};
    }
    const json spec = json::parse(request.body)["spec"];
    json status;
    if (spec.contains("token")) {
      const std::string token = spec["token"];
      const bool good = !revoked && (token.starts_with("good-") || token == "other");
      status = {{"authenticated", good}};
      if (good) status["user"] = {{"username", token}};
    } else {
      status = {{"allowed", !taken_away && spec["user"] != "other"}};
    }
    return kube::Response{
        .status = 201, .body = json{{"status", status}}.dump(), .retry_after = {}};
  }

  int Ask(const std::string& authorization,
          const kube::AccessAttributes& wanted = {.path = "/metrics"}) {
    HttpRequest request;
    if (!authorization.empty()) request.headers = {{"Authorization", authorization}};
    const auto refusal = auth.Refusal(request, wanted);
    body = refusal ? refusal->body : "";
    return refusal ? refusal->status : 200;
  }
  int AskWith(const std::string& token) { return Ask("Bearer " + token); }

  double Count(const std::string& result) {
    const std::string page = metrics.Serialize();
    const std::string series = "berth_ops_auth_total{result=\"" + result + "\"} ";
    const auto at = page.find(series);
    return at == page.npos ? 0 : std::stod(page.substr(at + series.size()));
  }

  std::vector<std::string> asked;
  std::string down;
  int refuse = 0;
  bool revoked = false;
  bool taken_away = false;
  std::string body;
  std::string own_log;
  std::string* log = &own_log;
  std::chrono::steady_clock::time_point now{std::chrono::hours(1)};
  Metrics metrics{{}};
  Logger logger{LogFormat::kText, 5, [this](std::string_view line) { *log += line; }};
  OpsAuth auth{[this](const kube::Request& request) { return Send(request); }, metrics, logger,
               [this] { return now; }};
};

TEST_CASE("who has no token, or nobody's, is not asked about further", "[opsauth]") {
  Fixture f;
  for (const char* none : {"", "Bearer", "Bearer ", "Basic Z29vZDpi", "good-1", "Bearer a b",
                           "Bearer a\"b", "Bearer \xff"}) {
    CHECK(f.Ask(none) == 401);
  }
  CHECK(f.asked.empty());
  CHECK(f.AskWith("unknown") == 401);
  CHECK(f.asked == std::vector<std::string>{"tokenreviews"});
  CHECK(f.Count("unauthorized") == 9);
}

TEST_CASE("a token's owner gets what the cluster's rules allow", "[opsauth]") {
  Fixture f;
  CHECK(f.AskWith("good-1") == 200);
  CHECK(f.asked == std::vector<std::string>{"tokenreviews", "subjectaccessreviews"});
  CHECK(f.Ask("bEARER   good-1 ") == 200);  // The scheme's case does not count.
  CHECK(f.AskWith("other") == 403);
  CHECK(f.body == "Forbidden: user \"other\" cannot get path \"/metrics\"\n");
  CHECK(f.Ask("Bearer other", {.resource = "pods", .ns = "a", .name = "p"}) == 403);
  CHECK(f.body ==
        "Forbidden: user \"other\" cannot get resource \"pods\" in the namespace \"a\"\n");
  CHECK(f.Count("allowed") == 2);
  CHECK(f.Count("forbidden") == 2);
}

TEST_CASE("answers are believed for ten seconds", "[opsauth]") {
  Fixture f;
  CHECK(f.AskWith("good-1") == 200);
  CHECK(f.AskWith("other") == 403);
  CHECK(f.AskWith("unknown") == 401);
  f.revoked = f.taken_away = true;
  f.now += seconds(10) - std::chrono::nanoseconds(1);
  const auto before = f.asked.size();
  CHECK(f.AskWith("good-1") == 200);
  CHECK(f.AskWith("other") == 403);
  CHECK(f.AskWith("unknown") == 401);
  CHECK(f.asked.size() == before);

  f.now += std::chrono::nanoseconds(1);
  SECTION("a token that has expired or was withdrawn is nobody's then") {
    CHECK(f.AskWith("good-1") == 401);
    CHECK(f.AskWith("other") == 401);
  }
  SECTION("a right that was taken away is gone then") {
    f.revoked = false;
    CHECK(f.AskWith("good-1") == 403);
  }
}

TEST_CASE("each path and pod is a question of its own", "[opsauth]") {
  Fixture f;
  CHECK(f.Ask("Bearer good-1", {.path = "/metrics"}) == 200);
  CHECK(f.Ask("Bearer good-1", {.path = "/configz"}) == 200);
  CHECK(f.Ask("Bearer good-1", {.resource = "pods", .ns = "a", .name = "p"}) == 200);
  CHECK(f.Ask("Bearer good-1", {.resource = "pods", .ns = "b", .name = "p"}) == 200);
  CHECK(f.Ask("Bearer good-2", {.resource = "pods", .ns = "b", .name = "p"}) == 200);
  CHECK(f.asked.size() == 2 + 5);
}

TEST_CASE("an API server that does not answer is a 503, and is asked again", "[opsauth]") {
  Fixture f;
  SECTION("no connection") { f.down = "timed out"; }
  SECTION("it refuses Berth itself") { f.refuse = GENERATE(401, 403, 429, 500); }
  SECTION("no review") { f.refuse = 200; }
  CHECK(f.AskWith("good-1") == 503);
  CHECK(f.AskWith("good-1") == 503);
  CHECK(f.Count("error") == 2);
  f.down.clear();
  f.refuse = 0;
  CHECK(f.AskWith("good-1") == 200);
  f.down = "timed out";
  CHECK(f.AskWith("good-1") == 200);  // What is known is known.
  f.now += seconds(10);
  CHECK(f.AskWith("good-1") == 503);
}

TEST_CASE("a failure is one line in the log until reviews succeed again; tokens are in none",
          "[opsauth]") {
  std::string log;
  {
    Fixture f;
    f.log = &log;
    f.down = "timed out";
    for (int i = 0; i < 5; ++i) CHECK(f.AskWith("good-secret") == 503);
    f.down.clear();
    CHECK(f.AskWith("good-secret") == 200);
    f.now += seconds(10);
    f.refuse = 500;
    for (int i = 0; i < 5; ++i) CHECK(f.AskWith("good-secret") == 503);
  }  // The logger has written everything.
  CHECK(std::ranges::count(log, '\n') == 2);
  CHECK_THAT(log, Catch::Contains("timed out") && Catch::Contains("HTTP 500") &&
                      !Catch::Contains("good-secret"));
}

TEST_CASE("unknown tokens take no more room than there is", "[opsauth]") {
  Fixture f;
  CHECK(f.AskWith("good-1") == 200);
  for (std::size_t i = 0; i < kMaxReviews; ++i) CHECK(f.AskWith("x" + std::to_string(i)) == 401);
  const auto before = f.asked.size();
  CHECK(f.AskWith("good-1") == 200);  // Forgotten, so asked about again; what they may is not.
  CHECK(f.asked.size() == before + 1);
}

}  // namespace
}  // namespace berth::server
