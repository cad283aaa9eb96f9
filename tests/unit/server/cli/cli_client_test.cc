#include "server/cli/cli_client.h"

#include <algorithm>

#include "kube/terminal.h"
#include "server/http/http_server.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"

namespace berth::server {
namespace {

using Json = nlohmann::ordered_json;

const Json kQueues = Json::parse(R"({"items":[
  {"name":"research","namespaces":["research"],"quota":{"nvidia.com/gpu":"16"},
   "limit":{"nvidia.com/gpu":"32"},"used":{"cpu":"64","nvidia.com/gpu":"24"},
   "borrowed":{"nvidia.com/gpu":"8"},"lent":{},"fairShare":{"nvidia.com/gpu":"20"},
   "pending":{"Fragmented":1,"WaitingForQuota":2},"refused":{"GangConflict":2}},
  {"name":"idle","namespaces":[],"quota":{},"limit":{},"used":{},"pending":{},
   "fairShare":{"nvidia.com/gpu":"0"}}]})");
const Json kGangs = Json::parse(R"({"items":[
  {"namespace":"a","name":"g1","queue":"research","phase":"Pending","size":8,"minMember":6,
   "members":7,"bound":0,"reason":"WaitingForMembers","message":"Seven.","waitingSeconds":192,
   "refusals":{"GangConflict":1},"since":"2026-05-01T12:00:00Z",
   "nodes":[]},
  {"namespace":"b","name":"g2","queue":"research","phase":"Started","size":2,"minMember":2,
   "members":2,"bound":2,"reason":"","message":"","waitingSeconds":0,"nodes":["n1","n2"]}]})");
const Json kNodes = Json::parse(R"({"items":[
  {"name":"n1","unschedulable":false,"ready":true,"model":"H100","taints":["a=b:NoSchedule"],
   "domains":{"rack":"block-1/rack-a","host":"block-1/rack-a/n1"},
   "devices":{"nvidia.com/gpu":{"allocatable":"8","used":"5"}},
   "pods":[{"pod":"a/p","queue":"research","devices":5.0,"planned":true}]},
  {"name":"n2","unschedulable":true,"ready":false,"reason":"KubeletNotReady, broken=nvlink","domains":{},"devices":{},"pods":[]}]})");
const Json kPods = Json::parse(R"({"items":[
  {"namespace":"a","name":"p2","queue":"research","position":2,"gang":"","priority":0,
   "devices":{"nvidia.com/gpu":"2"},"phase":"Pending","reason":"InsufficientDevices",
   "message":"None.","since":"2026-05-01T12:00:00Z","waitingSeconds":60},
  {"namespace":"a","name":"p1","queue":"other","position":0,"gang":"g","priority":5,
   "devices":{},"phase":"Refused","reason":"GangConflict","message":"No.",
   "since":"2026-05-01T11:00:00Z","waitingSeconds":3660}]})");
const Json kWhy = Json::parse(R"({"pod":"a/p","phase":"Pending","reason":"WaitingForQuota",
  "message":"It needs 8; its queue has 4 left.","want":8000,"have":4000,"subject":"nvidia.com/gpu",
  "queue":"research","workload":"g1","gang":true,"size":8,"members":7,
  "refusals":{"GangConflict":1},"since":"2026-05-01T12:00:00Z","minMember":6,"bound":0,"node":"",
  "waitingSeconds":11520})");

std::string Printed(Question question, const Json& page, OutputFormat format) {
  return Print(question, page, {.format = format}).value();
}

TEST_CASE("tables have kubectl's look", "[cli]") {
  CHECK(Printed(Question::kQueues, kQueues, OutputFormat::kTable) ==
        "NAME       RESOURCE         USED   QUOTA   BORROWED   LENT   FAIR-SHARE   LIMIT   "
        "PENDING                               REFUSED\n"
        "research   nvidia.com/gpu   24     16      8          0      20           32      "
        "3 (Fragmented 1, WaitingForQuota 2)   2 (GangConflict 2)\n"
        "idle       -                0      -       0          0      -            -       "
        "0                                     -\n");
  CHECK(Printed(Question::kGangs, kGangs, OutputFormat::kTable) ==
        "NAMESPACE   NAME   QUEUE      PHASE     MEMBERS   BOUND   WAIT    REASON\n"
        "a           g1     research   Pending   7/8       0       3m12s   WaitingForMembers; "
        "refused: 1 (GangConflict 1)\n"
        "b           g2     research   Started   2/2       2       -       -\n");
  CHECK(Printed(Question::kNodes, kNodes, OutputFormat::kTable) ==
        "NAME   STATUS                        RACK     MODEL   RESOURCE         USED   FREE   "
        "TOTAL   "
        "PODS   REASON\n"
        "n1     Schedulable                   rack-a   H100    nvidia.com/gpu   5      3      8    "
        "   "
        "1      -\n"
        "n2     NotReady,SchedulingDisabled   -        -       -                -      -      -    "
        "   "
        "0      KubeletNotReady, broken=nvlink\n");
}

TEST_CASE("parts of resources have rows of their own", "[cli]") {
  const Json page = Json::parse(R"({"items":[{"name":"a","parent":"","quota":{},"limit":{},
    "used":{"nvidia.com/gpu":"3"},"borrowed":{},"lent":{},"fairShare":{},"pending":{},"refused":{},
    "parts":[{"resource":"nvidia.com/gpu","flavor":"h100","nonPreemptible":false,"used":"3",
              "quota":"2","limit":"4"},
             {"resource":"nvidia.com/gpu","flavor":"","nonPreemptible":true,"used":"1","limit":"2"},
             {"resource":"cpu","flavor":"","nonPreemptible":true,"used":"1"}]}]})");
  CHECK(Printed(Question::kQueues, page, OutputFormat::kTable) ==
        "NAME   RESOURCE                           USED   QUOTA   BORROWED   LENT   FAIR-SHARE   "
        "LIMIT   PENDING   REFUSED\n"
        "a      nvidia.com/gpu                     3      -       0          0      -            "
        "-       0         0\n"
        "a      nvidia.com/gpu (h100)              3      2       -          -      -            "
        "4       -         -\n"
        "a      nvidia.com/gpu (non-preemptible)   1      -       -          -      -            "
        "2       -         -\n");
}

TEST_CASE("what was used is told in hours", "[cli]") {
  const Json page = Json::parse(R"({"items":[{"name":"a","namespaces":["x"],
    "quota":{},"limit":{},"used":{},"fairShare":{"nvidia.com/gpu":"0"},"pending":{},"refused":{},
    "deviceSeconds":{"nvidia.com/gpu":45000},
    "users":[{"user":"ann","deviceSeconds":{"nvidia.com/gpu":36000}},
             {"user":"bob","deviceSeconds":{"nvidia.com/gpu":9179,"x":-1}},3,{"user":"eve"}]},
    {"name":"b","users":7,"deviceSeconds":"much","next":
     {"namespace":"x","name":"g","gang":true,"position":3,"waitingSeconds":18000}},
    {"name":"c","next":{"namespace":"x","name":"p","position":1,"waitingSeconds":5,
     "estimatedStart":"2026-12-01T08:00:00Z"}},
    {"name":"d","next":"p"}]})");
  CHECK(Printed(Question::kQueues, page, OutputFormat::kWide) ==
        "NAME   RESOURCE         USED   QUOTA   BORROWED   LENT   FAIR-SHARE   LIMIT   PENDING   "
        "REFUSED   NEXT        ESTIMATED-START        HOURS   NAMESPACES\n"
        "a      nvidia.com/gpu   0      -       0          0      0            -       0         "
        "0         -           -                      12.5    x\n"
        "b      -                0      -       0          0      -            -       -         "
        "-         #3 x/g 5h   unknown                -       -\n"
        "c      -                0      -       0          0      -            -       -         "
        "-         x/p 5s      2026-12-01T08:00:00Z   -       -\n"
        "d      -                0      -       0          0      -            -       -         "
        "-         -           -                      -       -\n");
  const Output by_user{.by_user = true};
  CHECK(Print(Question::kQueues, page, by_user).value() ==
        "QUEUE   USER   RESOURCE         HOURS\n"
        "a       ann    nvidia.com/gpu   10.0\n"
        "a       bob    nvidia.com/gpu   2.5\n"
        "a       bob    x                -0.0\n");
  CHECK(Print(Question::kQueues, kQueues, by_user).value() == "No users found.\n");
}

TEST_CASE("what was held on average has a column where it counts", "[cli]") {
  const Json page = Json::parse(R"({"items":[{"name":"a","namespaces":["x"],
    "fairShare":{"nvidia.com/gpu":"0"},"used":{"nvidia.com/gpu":"1"},"pastUse":{"nvidia.com/gpu":4.5,"x":"y"}},
    {"name":"b","fairShare":{"nvidia.com/gpu":"4"},"pastUse":7}]})");
  CHECK(Printed(Question::kQueues, page, OutputFormat::kWide) ==
        "NAME   RESOURCE         USED   QUOTA   BORROWED   LENT   FAIR-SHARE   LIMIT   PENDING   "
        "REFUSED   PAST-USE   NEXT   ESTIMATED-START   HOURS   NAMESPACES\n"
        "a      nvidia.com/gpu   1      -       0          0      0            -       -         "
        "-         4.5        -      -                 -       x\n"
        "b      nvidia.com/gpu   0      -       0          0      4            -       -         "
        "-         -          -      -                 -       -\n");
}

TEST_CASE("wide shows more", "[cli]") {
  CHECK(Printed(Question::kQueues, kQueues, OutputFormat::kWide).find("cpu") != std::string::npos);
  CHECK(Printed(Question::kGangs, kGangs, OutputFormat::kWide).find("n1,n2") != std::string::npos);
  CHECK(Printed(Question::kNodes, kNodes, OutputFormat::kWide).find("a/p(planned)") !=
        std::string::npos);
}

TEST_CASE("why is a paragraph", "[cli]") {
  CHECK(Printed(Question::kWhy, kWhy, OutputFormat::kTable) ==
        "a/p: Pending, WaitingForQuota\n\n"
        "  It needs 8; its queue has 4 left.\n\n"
        "Queue:     research\n"
        "Gang:      g1: 7 of 8 members exist, 0 bound, it starts with 6; refused: 1 (GangConflict "
        "1)\n"
        "Waiting:   3h12m, since 2026-05-01T12:00:00Z\n");
  Json gang = kWhy;
  gang["pod"] = "";
  gang["namespace"] = "a";
  CHECK(Printed(Question::kWhy, gang, OutputFormat::kTable).starts_with("gang a/g1: Pending"));
}

TEST_CASE("what a tenant wrote cannot act on the terminal", "[cli]") {
  const std::string evil = "x\x1b[2J\n\u009b1mteam-b fake-gang\u202e";
  Json why = kWhy;
  Json gangs = kGangs;
  Json queues = kQueues;
  Json nodes = kNodes;
  for (const char* key : {"pod", "phase", "reason", "message", "queue", "workload", "subject"}) {
    why[key] = evil;
  }
  for (const char* key : {"namespace", "name", "queue", "phase", "reason", "message"}) {
    gangs["items"][0][key] = evil;
  }
  queues["items"][0]["name"] = evil;
  queues["items"][0]["pending"][evil] = 3;
  queues["items"][0]["used"]["a/" + evil] = "3";
  nodes["items"][0]["name"] = evil;
  nodes["items"][0]["domains"][evil] = "block/" + evil;
  nodes["items"][0]["pods"][0]["pod"] = evil;
  const std::pair<Question, const Json*> pages[] = {{Question::kWhy, &why},
                                                    {Question::kGangs, &gangs},
                                                    {Question::kQueues, &queues},
                                                    {Question::kNodes, &nodes}};
  for (const auto& [question, page] : pages) {
    for (const auto format : {OutputFormat::kTable, OutputFormat::kWide, OutputFormat::kYaml}) {
      const std::string text = Printed(question, *page, format);
      INFO(text);
      CHECK(text == kube::PrintableLines(text));
      CHECK(text.find("\n\u009b") == std::string::npos);
      CHECK(text.find("\nteam-b") == std::string::npos);
    }
  }
  const auto lines = [](const std::string& text) { return std::ranges::count(text, '\n'); };
  CHECK(lines(Printed(Question::kGangs, gangs, OutputFormat::kTable)) == 3);
}

TEST_CASE("queues are shown as a tree", "[cli]") {
  const auto queue = [](const char* name, const char* parent) {
    return Json{{"name", name}, {"parent", parent}};
  };
  const auto names = [](const Json& page) {
    std::string column;
    std::istringstream lines(Printed(Question::kQueues, page, OutputFormat::kTable));
    std::string line;
    std::getline(lines, line);
    while (std::getline(lines, line)) {
      line.erase(line.find(" -"));
      column += line.substr(0, line.find_last_not_of(' ') + 1) + '|';
    }
    return column;
  };
  const auto page = [](const Json& items) { return Json{{"items", items}}; };
  const Json tree = Json::array({queue("c", "b"), queue("x", "group"), queue("d", "a"),
                                 queue("b", "a"), queue("a", ""), queue("e", "a")});
  CHECK(names(page(tree)) == "x|a|  d|  b|    c|  e|");
  // A page of one namespace may lack the queues above.
  CHECK(names(page(Json::array({queue("c", "b"), queue("d", "c")}))) == "c|  d|");
  // A page that no service writes must not keep the program busy.
  CHECK(names(page(Json::array({queue("", ""), queue("a", "a"), queue("b", "b")}))).size() < 10);
}

TEST_CASE("JSON and YAML say everything", "[cli]") {
  CHECK(Json::parse(Printed(Question::kWhy, kWhy, OutputFormat::kJson)) == kWhy);
  CHECK(
      Printed(Question::kWhy, kWhy, OutputFormat::kYaml).starts_with("pod: a/p\nphase: Pending\n"));
}

TEST_CASE("any JSON can be printed", "[cli]") {
  for (const char* text :
       {"{}", "[]", "null", "3", R"({"items":null})", R"({"items":3})",
        R"({"items":[null,1,"x",{},{"name":3,"pods":1,"devices":[],"used":2}]})"}) {
    for (const auto question :
         {Question::kWhy, Question::kQueues, Question::kGangs, Question::kPods, Question::kNodes}) {
      for (const auto format :
           {OutputFormat::kTable, OutputFormat::kWide, OutputFormat::kYaml, OutputFormat::kName}) {
        CHECK_NOTHROW(Printed(question, Json::parse(text), format));
      }
    }
  }
}

TEST_CASE("pods that wait, and nodes by model", "[cli]") {
  CHECK(Printed(Question::kPods, kPods, OutputFormat::kTable) ==
        "NAMESPACE   NAME   QUEUE      POSITION   GANG   DEVICES            PHASE     WAIT   "
        "REASON\n"
        "a           p2     research   2          -      2 nvidia.com/gpu   Pending   60s    "
        "InsufficientDevices\n"
        "a           p1     other      -          g      -                  Refused   61m    "
        "GangConflict\n");
  const Output by_model{.by_model = true};
  CHECK(Print(Question::kNodes, kNodes, by_model).value() ==
        "MODEL   RESOURCE         NODES   OUT   USED   FREE   TOTAL\n"
        "H100    nvidia.com/gpu   1       0     5      3      8\n");
}

TEST_CASE("kubectl's ways to print", "[cli]") {
  const auto print = [](const std::string& format, Output output = {}) -> std::string {
    const auto parsed = ParseFormat(format, output);
    if (!parsed) return "! " + parsed.error();
    const auto text = Print(Question::kPods, kPods, output);
    return text ? *text : "! " + text.error();
  };
  CHECK(print("name") == "pod/p2\npod/p1\n");
  CHECK(Json::parse(print("=json")) == kPods);
  CHECK(print("jsonpath={.items[*].name}") == "p2 p1");
  CHECK(
      print(
          R"(jsonpath={range .items[*]}{.namespace}/{.name}{"\t"}{.waitingSeconds}{"\n"}{end})") ==
      "a/p2\t60\na/p1\t3660\n");
  CHECK(print("jsonpath={.items[-1].devices}{.items[0].devices['nvidia.com/gpu']}") == "{}2");
  CHECK(print(R"(jsonpath=n: {.items[0].devices.nvidia\.com/gpu})") == "n: 2");
  CHECK(print("jsonpath={.nothing.at[3].all}").empty());
  for (const char* bad : {"jsonpath={.items[?(@.name)]}", "jsonpath={", "jsonpath={range .items}",
                          "jsonpath={end}", "jsonpath={..name}", "jsonpath={.a b}", "xml", ""}) {
    CAPTURE(bad);
    CHECK(print(bad).starts_with("!"));
  }
  CHECK(print("name", {.sort_by = ".name"}) == "pod/p1\npod/p2\n");
  CHECK(print("name", {.sort_by = "{.waitingSeconds}"}) == "pod/p2\npod/p1\n");
  CHECK(print("name", {.sort_by = "priority"}) == "pod/p2\npod/p1\n");
  CHECK(print("name", {.sort_by = ".nothing"}).starts_with("!"));
  CHECK(print("name", {.sort_by = "..x"}).starts_with("!"));
  CHECK(print("table", {.headers = false}).starts_with("a           p2"));
}

TEST_CASE("names and a queue choose among the items", "[cli]") {
  const auto names = [](const Wanted& wanted) {
    Json page = kPods;
    const auto selected = Select(Question::kPods, wanted, page);
    std::string text;
    for (const Json& item : page["items"]) text += item["name"].get<std::string>() + " ";
    return text + (selected ? "" : selected.error());
  };
  CHECK(names({}) == "p2 p1 ");
  CHECK(names({.names = {"p1"}}) == "p1 ");
  CHECK(names({.names = {"a/p1", "p2"}}) == "p2 p1 ");
  CHECK(names({.names = {"p1", "b/p2"}}) == "p1 pod \"b/p2\" not found");
  CHECK(names({.queue = "other"}) == "p1 ");
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
  CHECK(unknown.err.find("\"q\" found in namespace \"default\"") != std::string::npos);
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
  options.token_file = "/dev/zero";
  CHECK(Ask(options).code == 1);
  CHECK(Ask(options).err.find("larger than 64 KiB") != std::string::npos);
  options.token_file = good.path();
  CHECK(Ask(options).code == 0);
  options.question = Question::kNodes;
  CHECK(Ask(options).code == 1);
  options.url = "http://192.0.2.1:9090";
  CHECK(Ask(options).code == 2);  // In plain text to loopback only.
}

// The API server takes the token in Authorization for itself.
TEST_CASE("a kubeconfig alone asks through the API server's proxy", "[cli]") {
  HttpServer api;
  std::string seen;
  const std::string proxy = "/api/v1/namespaces/berth-system/services/https:berth:ops/proxy";
  const auto page = [&seen](const HttpRequest& request) {
    seen = std::string(request.Header("Berth-Authorization"));
    for (const auto& [key, value] : request.query) seen += " " + key + "=" + value;
    return HttpResponse{.body = R"({"items":[]})"};
  };
  for (const char* path : {"/queues", "/gangs"}) api.Handle("GET", proxy + "/api/v1" + path, page);
  api.Handle("GET", "/api/v1/namespaces/forbidden/services/berth:ops/proxy/api/v1/gangs",
             [](const HttpRequest&) {
               return HttpResponse{
                   .status = 403,
                   .body = R"({"kind":"Status","message":"you may not","code":403})"};
             });
  const std::string server = "http://127.0.0.1:" + std::to_string(*api.Listen("127.0.0.1", 0));
  const berth::testing::TempFile config(
      "kubeconfig",
      "current-context: c\ncontexts: [{name: c, context: {cluster: c, user: u, namespace: team-a}},"
      " {name: other, context: {cluster: c, user: nobody}}]\n"
      "clusters: [{name: c, cluster: {server: '" +
          server +
          "'}}]\n"
          "users: [{name: u, user: {token: mine}}, {name: nobody, user: {}}]\n");
  AskOptions options{.question = Question::kQueues, .kubeconfig = config.path()};
  CHECK(Ask(options).code == 0);
  CHECK(seen == "Bearer mine");
  options.question = Question::kGangs;
  CHECK(Ask(options).code == 0);
  CHECK(seen == "Bearer mine namespace=team-a");
  options.all_namespaces = true;
  CHECK(Ask(options).code == 0);
  CHECK(seen == "Bearer mine");
  options.service = "elsewhere/berth:ops";
  CHECK(Ask(options).code == 3);
  CHECK_THAT(Ask(options).err, Catch::Contains("/elsewhere/services/berth%3Aops/proxy"));
  options.service = "forbidden/berth:ops";
  CHECK(Ask(options).code == 1);
  CHECK(Ask(options).err ==
        "Error from the API server (Forbidden): you may not\nThe Role berth-proxy "
        "of Berth's manifests gives that right.\n");
  options.service = "berth";
  CHECK(Ask(options).code == 2);
  options.context = "other";
  CHECK_THAT(Ask(options).err, Catch::Contains("NAMESPACE/"));
  options.service = AskOptions{}.service;
  CHECK_THAT(Ask(options).err, Catch::Contains("has no token"));
  options.context = "none";
  CHECK(Ask(options).code == 3);
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

TEST_CASE("a list that is watched tells what changes", "[cli]") {
  HttpServer server;
  std::vector<std::string> pages{
      R"({"items":[{"name":"a","used":1,"waitingSeconds":1},{"name":"b"}]})",
      R"({"items":[{"name":"a","used":1,"waitingSeconds":3,"deviceSeconds":{"x":1}},{"name":"b"}]})",
      R"({"items":[{"name":"a","used":2},{"name":"c\u001b"}]})",
      R"({"items":[{"name":"a","used":2}]})", "3"};
  std::size_t asked = 0;
  server.Handle("GET", "/api/v1/queues",
                [&](const HttpRequest&) { return HttpResponse{.body = pages[asked++]}; });
  AskOptions options{.question = Question::kQueues,
                     .url = "http://127.0.0.1:" + std::to_string(*server.Listen("127.0.0.1", 0)),
                     .output = {.format = OutputFormat::kName}};
  std::vector<std::string> said;
  const auto answer = Watch(
      options, [&said](const std::string& text) { said.push_back(text); }, [] { return true; });
  CHECK(answer.code == 3);  // the last page is none
  REQUIRE(said.size() == 4);
  CHECK(said[0] == "queue/a\nqueue/b\n");
  CHECK_THAT(said[1], Catch::StartsWith("queue/a\nqueue/c") && !Catch::Contains("\033"));
  CHECK(said[2] == "b: gone\n");
  CHECK_THAT(said[3],
             Catch::StartsWith("c") && Catch::EndsWith(": gone\n") && !Catch::Contains("\033"));
  options.output.format = OutputFormat::kJson;
  CHECK(Watch(
            options, [](const std::string&) {}, [] { return true; })
            .code == 2);
}

}  // namespace
}  // namespace berth::server
