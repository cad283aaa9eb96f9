#include "server/cli_client.h"

#include <CLI/CLI.hpp>

#include "server/completion.h"
#include "server/http_server.h"
#include "server/man_page.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"

namespace berth::server {
namespace {

using Json = nlohmann::ordered_json;

const Json kQueues = Json::parse(R"({"items":[
  {"name":"research","namespaces":["research"],"quota":{"nvidia.com/gpu":"16"},
   "limit":{"nvidia.com/gpu":"32"},"used":{"cpu":"64","nvidia.com/gpu":"24"},
   "pending":{"Fragmented":1,"WaitingForQuota":2}},
  {"name":"idle","namespaces":[],"quota":{},"limit":{},"used":{},"pending":{}}]})");
const Json kGangs = Json::parse(R"({"items":[
  {"namespace":"a","name":"g1","queue":"research","phase":"Pending","size":8,"minMember":6,
   "members":7,"bound":0,"reason":"WaitingForMembers","message":"Seven.","waitingSeconds":192,
   "nodes":[]},
  {"namespace":"b","name":"g2","queue":"research","phase":"Started","size":2,"minMember":2,
   "members":2,"bound":2,"reason":"","message":"","waitingSeconds":0,"nodes":["n1","n2"]}]})");
const Json kNodes = Json::parse(R"({"items":[
  {"name":"n1","unschedulable":false,"domains":{"rack":"block-1/rack-a","host":"block-1/rack-a/n1"},
   "devices":{"nvidia.com/gpu":{"allocatable":"8","used":"5"}},
   "pods":[{"pod":"a/p","queue":"research","devices":5.0,"planned":true}]},
  {"name":"n2","unschedulable":true,"domains":{},"devices":{},"pods":[]}]})");
const Json kWhy = Json::parse(R"({"pod":"a/p","phase":"Pending","reason":"WaitingForQuota",
  "message":"It needs 8; its queue has 4 left.","want":8000,"have":4000,"subject":"nvidia.com/gpu",
  "queue":"research","workload":"g1","gang":true,"members":7,"minMember":6,"bound":0,"node":"",
  "waitingSeconds":11520})");

TEST_CASE("tables have kubectl's look", "[cli]") {
  CHECK(Print(Question::kQueues, kQueues, OutputFormat::kTable) ==
        "NAME       RESOURCE         USED   QUOTA   LIMIT   PENDING\n"
        "research   nvidia.com/gpu   24     16      32      3 (Fragmented 1, WaitingForQuota 2)\n"
        "idle       -                0      -       -       0\n");
  CHECK(Print(Question::kGangs, kGangs, OutputFormat::kTable) ==
        "NAMESPACE   NAME   QUEUE      PHASE     MEMBERS   BOUND   WAIT    REASON\n"
        "a           g1     research   Pending   7/8       0       3m12s   WaitingForMembers\n"
        "b           g2     research   Started   2/2       2       -       -\n");
  CHECK(Print(Question::kNodes, kNodes, OutputFormat::kTable) ==
        "NAME   STATUS               RACK     RESOURCE         USED   FREE   TOTAL   PODS\n"
        "n1     Schedulable          rack-a   nvidia.com/gpu   5      3      8       1\n"
        "n2     SchedulingDisabled   -        -                -      -      -       0\n");
}

TEST_CASE("wide shows more", "[cli]") {
  CHECK(Print(Question::kQueues, kQueues, OutputFormat::kWide).find("cpu") != std::string::npos);
  CHECK(Print(Question::kGangs, kGangs, OutputFormat::kWide).find("n1,n2") != std::string::npos);
  CHECK(Print(Question::kNodes, kNodes, OutputFormat::kWide).find("a/p(planned)") !=
        std::string::npos);
}

TEST_CASE("why is a paragraph", "[cli]") {
  CHECK(Print(Question::kWhy, kWhy, OutputFormat::kTable) ==
        "a/p: Pending, WaitingForQuota\n\n"
        "  It needs 8; its queue has 4 left.\n\n"
        "Queue:    research\n"
        "Gang:     g1: 7 members exist, 0 bound, it starts with 6\n"
        "Waiting:  3h12m\n");
}

TEST_CASE("JSON and YAML say everything", "[cli]") {
  CHECK(Json::parse(Print(Question::kWhy, kWhy, OutputFormat::kJson)) == kWhy);
  CHECK(Print(Question::kWhy, kWhy, OutputFormat::kYaml).starts_with("pod: a/p\nphase: Pending\n"));
}

TEST_CASE("any JSON can be printed", "[cli]") {
  for (const char* text :
       {"{}", "[]", "null", "3", R"({"items":null})", R"({"items":3})",
        R"({"items":[null,1,"x",{},{"name":3,"pods":1,"devices":[],"used":2}]})"}) {
    for (const auto question :
         {Question::kWhy, Question::kQueues, Question::kGangs, Question::kNodes}) {
      for (const auto format : {OutputFormat::kTable, OutputFormat::kWide, OutputFormat::kYaml}) {
        CHECK_NOTHROW(Print(question, Json::parse(text), format));
      }
    }
  }
}

struct Service {
  Service() {
    server.Handle("GET", "/api/v1/gangs", [](const HttpRequest& request) {
      Json page{{"items", Json::array()}};
      const auto ns = request.query.find("namespace");
      for (const Json& gang : kGangs["items"]) {
        if (ns == request.query.end() || gang["namespace"] == ns->second) {
          page["items"].push_back(gang);
        }
      }
      return HttpResponse{.body = page.dump()};
    });
    server.Handle("GET", "/api/v1/nodes",
                  [](const HttpRequest&) { return HttpResponse{.body = "<html>"}; });
    server.Handle("GET", "/api/v1/queues",
                  [](const HttpRequest&) { return HttpResponse{.status = 503}; });
    server.Handle("GET", "/api/v1/why", [](const HttpRequest& request) {
      const auto pod = request.query.find("pod")->second;
      return pod == "a/p" ? HttpResponse{.body = kWhy.dump()} : HttpResponse{.status = 404};
    });
    url = "http://127.0.0.1:" + std::to_string(*server.Listen("127.0.0.1", 0));
  }
  Answer Why(const std::string& pod, const std::string& ns = {}) const {
    return Ask({.question = Question::kWhy, .url = url, .ns = ns, .pod = pod});
  }
  HttpServer server;
  std::string url;
};

TEST_CASE("a service is asked, and the exit code says what came of it", "[cli]") {
  const Service service;
  CHECK(service.Why("p", "a").code == 0);
  CHECK(service.Why("a/p").out == service.Why("pod/p", "a").out);
  const auto unknown = service.Why("q");
  CHECK(unknown.code == 1);
  CHECK(unknown.out.empty());
  CHECK(unknown.err.find("\"q\" not found in namespace \"default\"") != std::string::npos);
  CHECK(service.Why("a/b/c").code == 2);
  CHECK(service.Why("").code == 2);
  CHECK(service.Why("a/p", "other").code == 2);

  const auto gangs = Ask({.question = Question::kGangs, .url = service.url + "/", .ns = "b"});
  CHECK(gangs.code == 0);
  CHECK(gangs.out.find("g2") != std::string::npos);
  CHECK(gangs.out.find("g1") == std::string::npos);
  CHECK(Ask({.question = Question::kNodes, .url = service.url}).code == 3);
  CHECK(Ask({.question = Question::kQueues, .url = service.url}).code == 3);
  CHECK(Ask({.question = Question::kQueues, .url = "ftp://127.0.0.1"}).code == 2);
}

/// A service that lets in who shows the token `good`, and nobody to /api/v1/nodes.
struct GuardedService {
  GuardedService() {
    const auto guard = [](const HttpRequest& request, int allowed) {
      const bool good = request.Header("authorization") == "Bearer good";
      return HttpResponse{.status = good ? allowed : 401, .body = good ? "{}" : "Unauthorized\n"};
    };
    server.Handle("GET", "/api/v1/queues",
                  [guard](const HttpRequest& request) { return guard(request, 200); });
    server.Handle("GET", "/api/v1/nodes",
                  [guard](const HttpRequest& request) { return guard(request, 403); });
    url = "http://127.0.0.1:" + std::to_string(*server.Listen("127.0.0.1", 0));
  }
  HttpServer server;
  std::string url;
};

TEST_CASE("a token comes from a file or a kubeconfig, and a refusal says what to do", "[cli]") {
  const GuardedService service;
  const berth::testing::TempFile good("token", "good\n");
  const berth::testing::TempFile bad("token-bad", "bad");
  const auto kubeconfig = [](const std::string& user) {
    return "current-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"
           "clusters: [{name: c, cluster: {server: 'https://elsewhere'}}]\n"
           "users: [{name: u, user: {" +
           user + "}}]\n";
  };
  const berth::testing::TempFile config("kubeconfig", kubeconfig("token: good"));
  const berth::testing::TempFile empty("kubeconfig-empty", kubeconfig(""));
  AskOptions options{.question = Question::kQueues, .url = service.url};
  CHECK(Ask(options).code == 1);
  CHECK(Ask(options).err.find("--token-file") != std::string::npos);
  options.kubeconfig = empty.path();
  CHECK(Ask(options).err.find("has no token") != std::string::npos);
  options.kubeconfig = config.path();
  CHECK(Ask(options).code == 0);
  options.token_file = bad.path();  // It wins.
  CHECK(Ask(options).code == 1);
  options.token_file = good.path() + "-none";
  CHECK(Ask(options).code == 3);
  options.token_file = good.path();
  CHECK(Ask(options).code == 0);
  options.question = Question::kNodes;
  CHECK(Ask(options).code == 1);
  options.url = "http://192.0.2.1:9090";
  CHECK(Ask(options).code == 2);  // In plain text to loopback only.
}

TEST_CASE("no service there is the environment's fault", "[cli]") {
  std::string url;
  {
    const Service service;
    url = service.url;
  }
  const auto answer = Ask({.question = Question::kQueues, .url = url});
  CHECK(answer.code == 3);
  CHECK(answer.err.find(url) != std::string::npos);
}

TEST_CASE("completion follows the commands", "[cli]") {
  CLI::App app{"An app"};
  CLI::App* command = app.add_subcommand("fly", "it's a [test]");
  std::string value;
  command->add_option("-o,--output", value, "how")->check(CLI::IsMember({"table", "json"}));
  bool fast = false;
  command->add_flag("--fast", fast, "hurry");
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const auto script = CompletionScript(app, "the-app", shell);
    REQUIRE(script);
    for (const char* word : {"fly", "output", "fast", "table json", "the-app"}) {
      CHECK(script->find(word) != std::string::npos);
    }
  }
  CHECK_FALSE(CompletionScript(app, "the-app", "csh"));
}

TEST_CASE("kubectl's completion of the plugin", "[cli]") {
  CLI::App app{"An app"};
  CLI::App* command = app.add_subcommand("fly", "takes off");
  std::string value;
  command->add_option("-o,--output", value, "how")->check(CLI::IsMember({"table", "json"}));
  command->add_option("--policy", value, "a file");
  app.add_subcommand("flee", "runs");
  const auto complete = [&](std::vector<std::string> words) {
    return KubectlCompletions(app, words);
  };
  CHECK(complete({}) == "fly\ttakes off\nflee\truns\n:4\n");
  CHECK(complete({"fle"}) == "flee\truns\n:4\n");
  CHECK(complete({"fly", "--o"}) == "--output\thow\n:4\n");
  CHECK(complete({"fly", "-o", ""}) == "table\t\njson\t\n:4\n");
  CHECK(complete({"fly", "-o", "json", "--policy", "x"}) == ":0\n");
  CHECK(complete({"fly", ""}) == ":0\n");
}

TEST_CASE("the manual page has every command and option, and no text of ours is a troff request",
          "[cli]") {
  CLI::App app{"An app"};
  CLI::App* command = app.add_subcommand("fly", ".br is said, 'tis \\fBbold\\fR");
  std::string value = "table";
  command->add_option("-o,--output", value, "how")
      ->check(CLI::IsMember({"table", "json"}))
      ->capture_default_str();
  std::string where;
  command->add_option("place", where, "where");
  command->add_subcommand("high", "inner");
  const std::string page = ManPage(app, "1.2");
  for (const char* piece :
       {".TH BERTH 1 \"\" \"berth 1.2\"", ".SS \\fBfly\\fR \\fIPLACE\\fR \\fICOMMAND\\fR\n",
        "\n\\&.br is said, 'tis \\efBbold\\efR.\n",
        "\\fB\\-o\\fR, \\fB\\-\\-output\\fR \\fIVALUE\\fR\nhow; one of table json (default: table)",
        ".SS \\fBfly high\\fR\ninner."}) {
    INFO(piece << "\n" << page);
    CHECK(page.find(piece) != std::string::npos);
  }
}

}  // namespace
}  // namespace berth::server
