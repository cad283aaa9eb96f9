// What the pages say of what the engine knows.
#include "server/ops/views.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "kube/time.h"
#include "server/ops/workload_view.h"
#include "tests/support/builders.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/world.h"

namespace berth::server {
namespace {

using testing::MakeNode;
using testing::MakePod;
using testing::MakePolicy;
using testing::MakeQueue;
using testing::World;
using Json = nlohmann::json;

Json Queue(World& world, const std::string& name) {
  const Json page = Json::parse(QueuesJson(PartsOf(world.engine(), world.now()), "", false));
  for (const Json& queue : page["items"]) {
    if (queue["name"] == name) return queue;
  }
  return {};
}

Json Gang(World& world, const std::string& name) {
  const Json page = Json::parse(GangsJson(PartsOf(world.engine(), world.now()), ""));
  for (const Json& gang : page["items"]) {
    if (gang["name"] == name) return gang;
  }
  return {};
}

Json Why(World& world, const std::string& name) {
  const std::string page = WhyJson(world.engine(), "default", name, world.now());
  return page.empty() ? Json() : Json::parse(page);
}

// Every account may read the page of queues.
TEST_CASE("the page of queues tells namespaces only where that is asked for", "[views][bug]") {
  World world(MakePolicy(
      {MakeQueue("a", {"team-a"}), MakeQueue("b", {"team-b", "secret"}), MakeQueue("all", {"*"})}));
  world.Start();
  const std::string page = QueuesJson(PartsOf(world.engine(), world.now()), "", false);
  CHECK_THAT(page, !Catch::Contains("secret") && !Catch::Contains("team-"));
  CHECK_THAT(QueuesJson(PartsOf(world.engine(), world.now()), "", true), Catch::Contains("secret"));
  const Json mine = Json::parse(QueuesJson(PartsOf(world.engine(), world.now()), "team-a", false));
  REQUIRE(mine["items"].size() == 2);
  CHECK(mine["items"][0]["name"] == "a");
  CHECK(mine["items"][1]["name"] == "all");
}

// 16 GPUs, of which a is promised 4 and b 8. a holds 12 and wants 4 more; b holds 2 and wants 4
// more.
TEST_CASE("queues say what they borrowed, lent and are entitled to", "[views]") {
  auto policy = MakePolicy({MakeQueue("a", {"default"}, -1, 4), MakeQueue("b", {"lab"}, -1, 8)});
  policy.borrowing = true;
  policy.queues[0].quota["cpu"] = 1000;
  policy.queues[1].preemption.reclaim = config::Reclaim::kNever;
  World world(policy);
  world.Add(MakeNode("n1").Gpu(16));
  for (int i = 0; i < 12; ++i) {
    world.Add(MakePod("a" + std::to_string(i)).Gpu(1).Cpu("0.5").On("n1"));
  }
  world.Add(MakePod("b").Gpu(2).Ns("lab").On("n1"));
  for (int i = 0; i < 4; ++i) {
    world.Add(MakePod("wa" + std::to_string(i)).Gpu(1).Gated());
    world.Add(MakePod("wb" + std::to_string(i)).Gpu(1).Gated().Ns("lab"));
  }
  world.Start();
  const Json a = Queue(world, "a");
  CHECK(a["borrowed"] == Json({{"cpu", "5"}, {"nvidia.com/gpu", "8"}}));
  CHECK(a["lent"] == Json::object());
  CHECK(a["fairShare"] == Json({{"nvidia.com/gpu", "10"}}));  // its 4, and what b leaves of 12
  const Json b = Queue(world, "b");
  CHECK(b["borrowed"] == Json::object());
  CHECK(b["lent"] ==
        Json({{"nvidia.com/gpu", "4"}}));  // a has 8, of which 4 are promised to nobody
  CHECK(b["fairShare"] == Json({{"nvidia.com/gpu", "6"}}));

  Metrics metrics(BuildInfo{});
  FeedGauges(PartsOf(world.engine(), world.now()), metrics);
  const std::string page = metrics.Serialize();
  const auto says = [&](const std::string& name, const std::string& queue, const char* value) {
    return page.find(name + "{queue=\"" + queue + "\",resource=\"nvidia.com/gpu\"} " + value +
                     "\n") != std::string::npos;
  };
  CHECK(says("berth_queue_borrowed", "a", "8"));
  CHECK(says("berth_queue_borrowed", "b", "0"));
  CHECK(says("berth_queue_fair_share", "a", "10"));
  CHECK(says("berth_queue_fair_share", "b", "6"));
  CHECK(page.find("berth_queue_borrowed{queue=\"a\",resource=\"cpu\"} 5\n") != page.npos);
  CHECK(page.find("berth_queue_fair_share{queue=\"a\",resource=\"cpu\"}") == page.npos);

  const auto why = [&](const char* ns, const char* pod) {
    const Json json = Json::parse(WhyJson(world.engine(), ns, pod, world.now()));
    const auto message = json["message"].get<std::string>();
    return message.substr(message.find("Its queue uses"));
  };
  // Two GPUs were free, and b has them.
  CHECK(why("lab", "wb3") ==
        "Its queue uses 4 nvidia.com/gpu, has a quota of 8 and a fair share of 6. Queues that use "
        "more than "
        "they are entitled to: queue a by 2. Its queue takes nothing back (preemption.reclaim: "
        "never).");
  CHECK(why("default", "wa3") ==
        "Its queue uses 12 nvidia.com/gpu, has a quota of 4 and a fair share of 10. No other queue "
        "uses more than it is entitled to. In use elsewhere: queue b 4.");
}

// 8 GPUs: 3 of lower priority are not preemptible, 4 run for less than the minRunTime.
TEST_CASE("why says what is not to be evicted", "[views]") {
  config::Queue queue = MakeQueue("a", {"default"});
  queue.min_run_time = std::chrono::hours(1);
  World world(MakePolicy({queue}));
  world.Add(MakeNode("n1").Gpu(8));
  for (int i = 0; i < 8; ++i) {
    auto pod = MakePod("a" + std::to_string(i)).Gpu(1);
    if (i < 3) pod.Label("berth.dev/preemptible", "false");
    kube::Pod runs = pod.On("n1");
    const auto since = world.now() - (i < 7 ? 1'000 : 7'200'000);
    runs.pod_scheduled =
        kube::PodScheduled{.status = true, .reason = {}, .message = {}, .since = since};
    world.Add(runs);
  }
  world.Add(MakePod("w").Gpu(8).Priority(5).Gated());
  world.Start();
  const Json json = Json::parse(WhyJson(world.engine(), "default", "w", world.now()));
  CHECK_THAT(json["message"].get<std::string>(),
             Catch::EndsWith(
                 " Devices that evictions cannot free for it yet, or at all: 3 of pods "
                 "that are not preemptible, "
                 "and 4 of pods that have not run for the minRunTime of their queue or class."));
}

// b holds another kind of devices, which a cannot use.
TEST_CASE("why names no queue that is above what it is entitled to in another kind",
          "[views][bug]") {
  constexpr const char* kNic = "example.com/nic";
  auto policy = testing::MakeBorrowing(
      {MakeQueue("a", {"default"}, -1, 4), MakeQueue("b", {"lab"}), MakeQueue("c", {"web"})});
  policy.devices.push_back({.name = kNic, .kind = config::DeviceKind::kWhole});
  World world(policy);
  world.Add(MakeNode("n1").Gpu(2).Allocatable(kNic, 4'000));
  for (int i = 0; i < 4; ++i) {
    world.Add(MakePod("b" + std::to_string(i)).Ns("lab").Request(kNic, "1").On("n1"));
  }
  for (const char* name : {"a0", "a1"}) world.Add(MakePod(name).Gpu(1).On("n1"));
  world.Start();
  for (int i = 0; i < 4; ++i) {
    world.Add(MakePod("c" + std::to_string(i)).Ns("web").Request(kNic, "2").Gated());
  }
  world.Add(MakePod("w").Gpu(1).Gated());
  world.Tick();
  const Json json = Json::parse(WhyJson(world.engine(), "default", "w", world.now()));
  CHECK_THAT(json["message"].get<std::string>(),
             Catch::Contains("No other queue uses more of these devices than it is entitled to."));
}

// One of the two pods of lower priority may go; the budget of the other permits no eviction.
TEST_CASE("why says what disruption budgets keep", "[views]") {
  World world(MakePolicy({MakeQueue("a", {"default"})}));
  world.Add(MakeNode("n1").Gpu(8));
  for (const char* name : {"a0", "a1"}) {
    world.Add(MakePod(name).Gpu(4).Label("app", name).On("n1"));
  }
  world.Start();
  world.engine().OnDisruptionBudget(testing::MakeBudget("b", "app", "a1", 0));
  world.Add(MakePod("w0").Gpu(8).Gang("w", 1).Priority(5).Gated());
  world.Tick();
  CHECK(world.LogOf("try ").empty());
  const Json json = Json::parse(WhyJson(world.engine(), "default", "w0", world.now()));
  CHECK_THAT(json["message"].get<std::string>(),
             Catch::EndsWith(" Devices that evictions cannot free for it yet, or at all: 4 of pods "
                             "that PodDisruptionBudgets keep."));
}

// The budget permits to evict one of the two members, and a gang with no more than its minimum goes
// whole.
TEST_CASE("why says that a disruption budget keeps a gang of which it permits a part", "[views]") {
  World world(MakePolicy({MakeQueue("a", {"default"})}));
  world.Add(MakeNode("n1").Gpu(8));
  for (const char* name : {"a0", "a1"}) {
    world.Add(MakePod(name).Gpu(4).Gang("low", 2).Label("app", "low").On("n1"));
  }
  world.Start();
  world.engine().OnDisruptionBudget(testing::MakeBudget("b", "app", "low", 1));
  world.Add(MakePod("w0").Gpu(8).Gang("w", 1).Priority(5).Gated());
  world.Tick();
  CHECK(world.LogOf("try ").empty());
  const Json json = Json::parse(WhyJson(world.engine(), "default", "w0", world.now()));
  CHECK_THAT(json["message"].get<std::string>(),
             Catch::EndsWith(" Devices that evictions cannot free for it yet, or at all: 8 of pods "
                             "that PodDisruptionBudgets keep."));
}

// One GPU. With its job a would have as much as b has now.
TEST_CASE("why says that nothing is taken back among equals", "[views]") {
  World world(testing::MakeBorrowing({MakeQueue("a", {"default"}), MakeQueue("b", {"lab"})}));
  world.Add(MakeNode("n1").Gpu(1));
  world.Add(MakePod("b0").Gpu(1).Ns("lab").On("n1"));
  world.Add(MakePod("w").Gpu(1).Gated());
  world.Start();
  world.Tick();
  const Json json = Json::parse(WhyJson(world.engine(), "default", "w", world.now()));
  CHECK_THAT(json["message"].get<std::string>(), Catch::Contains("nothing is taken back among"));
}

// The queue `d` has 3 of its own work, and 4 of its team.
TEST_CASE("why tells the own work of a queue from that of the queues below it", "[views]") {
  config::Queue team = MakeQueue("t", {"team"});
  team.parent = "d";
  World world(testing::MakeBorrowing({MakeQueue("d", {"default"}, -1, 8), team}));
  world.Add(MakeNode("n1").Gpu(7));
  for (int i = 0; i < 3; ++i) world.Add(MakePod("d" + std::to_string(i)).Gpu(1).On("n1"));
  for (int i = 0; i < 4; ++i) {
    world.Add(MakePod("t" + std::to_string(i)).Gpu(1).On("n1").Ns("team"));
  }
  world.Add(MakePod("w").Gpu(1).Gated());
  world.Start();
  world.Tick();
  const Json json = Json::parse(WhyJson(world.engine(), "default", "w", world.now()));
  CHECK_THAT(json["message"].get<std::string>(),
             Catch::Contains("Without the queues below it, its queue uses 3 nvidia.com/gpu, has no "
                             "quota and a fair share of"));
}

// 8 GPUs, all in use by a within its quota of 8; b is promised 4 more.
TEST_CASE("why says that the quotas promise more than the nodes have", "[views]") {
  auto policy = MakePolicy({MakeQueue("a", {"default"}, -1, 8), MakeQueue("b", {"lab"}, -1, 4)});
  policy.borrowing = true;
  const bool takes = GENERATE(true, false);
  if (!takes) {
    for (auto& queue : policy.queues) queue.preemption.reclaim = config::Reclaim::kNever;
  }
  World world(policy);
  world.Add(MakeNode("n1").Gpu(8));
  for (int i = 0; i < 8; ++i) world.Add(MakePod("a" + std::to_string(i)).Gpu(1).On("n1"));
  world.Add(MakePod("w").Gpu(1).Gated().Ns("lab"));
  world.Start();
  const Json json = Json::parse(WhyJson(world.engine(), "lab", "w", world.now()));
  const auto message = json["message"].get<std::string>();
  CHECK(message.substr(message.find("Its queue uses")) ==
        (takes
             ? "Its queue uses 0 nvidia.com/gpu, has a quota of 4 and a fair share of 1. No other "
               "queue uses more than it is entitled to. In use elsewhere: queue a 8."
             : "Its queue uses 0 nvidia.com/gpu, has a quota of 4 and a fair share of 1. No other "
               "queue uses more than it is entitled to. In use elsewhere: queue a 8. Its queue "
               "takes nothing back (preemption.reclaim: never).") +
            std::string(" All quotas together promise 12 of nvidia.com/gpu; the nodes have 8."));
}

// 16 GPUs: a runs 10, c keeps 6 of its 8 for itself; b is entitled to 5 of what a has.
TEST_CASE("why names what others keep, and rules by which nothing is taken", "[views]") {
  auto keeper = MakeQueue("c", {"c"}, -1, 8);
  keeper.lending_limit[testing::kGpu] = 2'000;
  auto strict = MakeQueue("b", {"b"});
  strict.preemption = {.within = config::Within::kNever, .reclaim = config::Reclaim::kNever};
  auto policy = MakePolicy({MakeQueue("a", {"a"}), strict, keeper});
  policy.borrowing = true;
  World world(policy);
  world.Add(MakeNode("n1").Gpu(8));
  world.Add(MakeNode("n2").Gpu(8));
  for (int i = 0; i < 9; ++i) {
    world.Add(MakePod("a" + std::to_string(i)).Ns("a").Gpu(1).On(i < 8 ? "n1" : "n2"));
  }
  world.Add(MakePod("b0").Ns("b").Gpu(1).On("n2"));
  kube::Pod never = MakePod("w").Ns("b").Gpu(1).Priority(5).Gated();
  SECTION("its PriorityClass") { never.preempt_never = true; }
  SECTION("its queue") {}
  const bool by_class = never.preempt_never;
  world.Add(never);
  world.Start();
  const Json json = Json::parse(WhyJson(world.engine(), "b", "w", world.now()));
  const auto message = json["message"].get<std::string>();
  CHECK(message.find("queue c 6.") != message.npos);
  CHECK((message.find("(preemptionPolicy: Never).") != message.npos) == by_class);
  CHECK((message.find("(preemption.within: never).") != message.npos) == !by_class);
}

// From 0 s ann's pod holds 2 GPUs in lab, below org; at 90 s bob's comes with 1.
TEST_CASE("queues say what they have used, and whose it was where that is asked", "[views]") {
  auto lab = MakeQueue("lab", {"default"});
  lab.parent = "org";
  World world(MakePolicy({MakeQueue("org", {"org"}), lab}));
  world.Add(MakeNode("n1").Gpu(8));
  world.Add(MakePod("a").Gpu(2).On("n1").Label("berth.dev/user", "ann"));
  world.Start();
  CHECK(Queue(world, "lab")["deviceSeconds"] == Json::object());  // nothing is counted yet
  world.engine().BeginUsage({}, world.now());
  world.Advance(90'000);
  world.Add(MakePod("b").Gpu(1).On("n1").Label("berth.dev/user", "bob"));
  world.Advance(10'500);
  CHECK(Queue(world, "lab")["deviceSeconds"] == Json({{"nvidia.com/gpu", 211}}));
  CHECK(Queue(world, "org")["deviceSeconds"] == Json({{"nvidia.com/gpu", 211}}));
  CHECK_FALSE(Queue(world, "lab").contains("users"));
  const Json wide = Json::parse(QueuesJson(PartsOf(world.engine(), world.now()), "", true));
  CHECK(wide["items"][0]["users"] == Json::array());
  CHECK(wide["items"][1]["users"] == Json::parse(R"([
    {"user": "ann", "deviceSeconds": {"nvidia.com/gpu": 201}},
    {"user": "bob", "deviceSeconds": {"nvidia.com/gpu": 10}}])"));

  Metrics metrics(BuildInfo{});
  FeedUsage(*world.store().UsageUntil(world.now()), metrics);
  const std::string page = metrics.Serialize();
  CHECK_THAT(page, Catch::Contains("# TYPE berth_queue_device_seconds_total counter\n"));
  CHECK_THAT(page, Catch::Contains("berth_queue_device_seconds_total{queue=\"org\","
                                   "resource=\"nvidia.com/gpu\"} 211.5\n"));
  CHECK_THAT(page, Catch::Contains("berth_user_device_seconds_total{queue=\"lab\","
                                   "resource=\"nvidia.com/gpu\",user=\"ann\"} 201\n"));
}

TEST_CASE("queues say what they held on average where that counts", "[views]") {
  auto policy = MakePolicy({MakeQueue("lab", {"default"}), MakeQueue("web", {"web"})});
  policy.fairness.half_life = std::chrono::seconds(100);
  World world(policy);
  world.Add(MakeNode("n1").Gpu(8));
  world.Add(MakePod("a").Gpu(3).On("n1"));
  world.Start();
  world.engine().BeginUsage({}, world.now());
  world.Advance(100'000);
  CHECK(Queue(world, "lab")["pastUse"] == Json({{"nvidia.com/gpu", 1.5}}));
  CHECK(Queue(world, "web")["pastUse"] == Json::object());
  policy.fairness.half_life = {};
  world.Reload(policy);
  CHECK_FALSE(Queue(world, "lab").contains("pastUse"));
}

// 130 queues: the first 100 have labels, and of the others none takes one later by being larger.
TEST_CASE("the sum of the queues without a label never falls", "[views]") {
  cluster::UsageRecord record;
  for (int i = 0; i < 130; ++i) {
    record.queues.push_back({.queue = "q" + std::to_string(i), .used = {{"x", 1'000}}});
  }
  record.queues.push_back({.queue = "other", .named = false, .used = {{"x", 5'000}}});
  record.other_queues = {{"x", 7'000}};
  record.other_users = {{"x", 9'000}};
  Metrics metrics(BuildInfo{});
  FeedUsage(cluster::UsageMeter(record, 0).Record(1), metrics);
  const std::string page = metrics.Serialize();
  CHECK_THAT(page, Catch::Contains("berth_queue_device_seconds_total{queue=\"other\","
                                   "resource=\"x\"} 42\n"));  // 30 + 5 + 7
  CHECK_THAT(page, Catch::Contains("berth_user_device_seconds_total{queue=\"other\","
                                   "resource=\"x\",user=\"other\"} 9\n"));
  CHECK_THAT(page, Catch::Contains("{queue=\"q99\"") && !Catch::Contains("{queue=\"q100\""));
}

TEST_CASE("what a queue uses of single flavors, and for non-preemptible work", "[views]") {
  auto queue = MakeQueue("a", {"default"}, -1, 4);
  queue.quotas = {{.flavor = "h100", .quota = {{"nvidia.com/gpu", 2'000}}}};
  auto policy = MakePolicy({queue});
  policy.flavors = {{.name = "h100", .node_selector = {{"gpu", "h100"}}}};
  World world(policy);
  world.Add(MakeNode("n1").Gpu(8).Label("gpu", "h100"));
  world.Add(MakePod("x").Gpu(1).On("n1"));
  CHECK(Queue(world, "a")["used"]["nvidia.com/gpu"] == "1");
  CHECK(Queue(world, "a")["parts"] == Json::parse(R"([{"resource": "nvidia.com/gpu",
    "flavor": "h100", "nonPreemptible": false, "used": "1", "quota": "2", "limit": "2"}])"));
  world.Add(MakePod("y").Gpu(1).On("n1").Label("berth.dev/preemptible", "false"));
  const Json parts = Queue(world, "a")["parts"];
  REQUIRE(parts.size() == 3);
  int kept = 0;
  for (const Json& part : parts)
    kept += part["nonPreemptible"] == true && part["used"] == "1" ? 1 : 0;
  CHECK(kept == 2);  // of all devices, and of the flavor
}

// Queue `a` is full. A tenant is told of its own first pod, which is third in line.
TEST_CASE("queues say which job is next in line", "[views]") {
  World world(MakePolicy({MakeQueue("a", {"default", "lab"}, 8), MakeQueue("b", {"other"})}));
  world.Add(MakeNode("n1").Gpu(8));
  world.Add(MakePod("runs").Gpu(8).Priority(20).On("n1"));
  world.Add(MakePod("low").Gpu(1).Gated());
  world.Add(MakePod("high").Gpu(1).Priority(10).Gated());
  world.Add(MakePod("last").Gpu(1).Priority(-1).Ns("lab").Gated());
  world.Start();
  world.Tick();
  const auto next = [&](std::string_view ns, bool namespaces = false) {
    return Json::parse(QueuesJson(PartsOf(world.engine(), world.now()), ns, namespaces))["items"];
  };
  CHECK(next("", true)[0]["next"]["name"] == "high");
  CHECK(next("", true)[0]["next"]["position"] == 1);
  CHECK_FALSE(next("")[0].contains("next"));  // a page for everybody: no names
  CHECK(next("lab")[0]["next"] == Json({{"namespace", "lab"},
                                        {"name", "last"},
                                        {"gang", false},
                                        {"position", 3},
                                        {"waitingSeconds", 999},
                                        {"estimatedStart", nullptr}}));
  CHECK_FALSE(next("", true)[1].contains("next"));
}

// Of 8 GPUs, 4 are free after 100 s, 2 after 200 s, and of 2 no end is known. `high` takes 4 of
// them first, and no end is soon enough for `big`.
TEST_CASE("queues say when the next job is expected to start", "[views]") {
  World world(MakePolicy({MakeQueue("a", {"default", "lab", "dev"})}));
  world.Add(MakeNode("n1").Gpu(8));
  world.Start();
  const auto start = world.now();
  const auto run = [&](const std::string& name, int gpus, const std::string& duration) {
    world.Add(MakePod(name).Gpu(gpus).Priority(20).On("n1").Annotation(
        "berth.dev/expected-duration", duration));
  };
  run("first", 4, "100s");
  run("second", 2, "200s");
  world.Add(MakePod("unknown").Gpu(2).Priority(20).On("n1"));
  world.Add(MakePod("high").Gpu(4).Priority(10).Gated());
  world.Add(MakePod("low").Gpu(2).Ns("lab").Gated());
  world.Add(MakePod("big").Gpu(8).Priority(-1).Ns("dev").Gated());
  world.Tick();
  const auto expected = [&](std::string_view ns, bool namespaces) {
    const Json page = Json::parse(QueuesJson(PartsOf(world.engine(), world.now()), ns, namespaces));
    return page["items"][0]["next"]["estimatedStart"];
  };
  CHECK(expected("", true) == kube::FormatTime(start + 100'000));
  CHECK(expected("lab", false) == kube::FormatTime(start + 200'000));
  CHECK(expected("dev", false).is_null());
}

TEST_CASE("what can never be placed is in no queue's share", "[views]") {
  World world(MakePolicy({MakeQueue("a", {"default"})}));
  world.Add(MakeNode("n1").Gpu(8));
  world.Add(MakeNode("n2").Gpu(8));
  world.Add(MakePod("p").Gpu(12).Gated());
  world.Start();
  world.Tick();
  CHECK(Queue(world, "a")["pending"] == Json({{"NeverFits", 1}}));
  CHECK(Queue(world, "a")["fairShare"] == Json({{"nvidia.com/gpu", "0"}}));
}

TEST_CASE("a gang that is refused whole is in every view", "[views]") {
  World world(MakePolicy({MakeQueue("team", {"default"}), MakeQueue("other", {"lab"})}));
  world.Add(MakeNode("n1").Gpu(8));
  const auto created = world.now() - 5000;
  for (int i = 0; i < 3; ++i) {
    const std::string n = std::to_string(i);
    world.Add(MakePod("a" + n).Gpu(1).Gang("a", 3).Queue("other").Gated().Created(created));
    world.Add(MakePod("b" + n).Gpu(1).Gang("b", 3).Queue("gone").Gated().Created(created));
  }
  world.Start();
  world.Tick();

  const Json gang = Gang(world, "a");
  CHECK(gang["phase"] == "Refused");
  CHECK(gang["members"] == 0);
  CHECK(gang["size"] == 3);
  CHECK(gang["minMember"] == 3);
  CHECK(gang["queue"] == "other");
  CHECK(gang["refusals"] == Json({{"QueueNotAllowed", 3}}));
  CHECK(gang["reason"] == "QueueNotAllowed");
  CHECK(gang["waitingSeconds"] == 5);

  CHECK(Queue(world, "other")["pending"] == Json({{"QueueNotAllowed", 1}}));
  CHECK(Queue(world, "other")["refused"] == Json({{"QueueNotAllowed", 3}}));
  CHECK(Queue(world, "(none)")["refused"] == Json({{"UnknownQueue", 3}}));
  CHECK(Queue(world, "team")["refused"] == Json::object());

  const Json why = Why(world, "a0");
  CHECK(why["phase"] == "Refused");
  CHECK(why["reason"] == "QueueNotAllowed");
  CHECK(why["size"] == 3);
  CHECK(why["refusals"] == Json({{"QueueNotAllowed", 3}}));

  const Json pods = Json::parse(PodsJson(PartsOf(world.engine(), world.now()), ""))["items"];
  CHECK(pods.size() == 6);
  CHECK(pods[0]["phase"] == "Refused");
  CHECK(pods[0]["position"] == 0);
}

TEST_CASE("a gang of which some are refused says how many, and waits as the others do", "[views]") {
  World world;
  world.Add(MakeNode("n1").Gpu(8));
  world.Add(MakePod("g0").Gpu(1).Gang("g", 3).Gated());
  world.Add(MakePod("g1").Gpu(1).Gang("g", 4).Gated());
  world.Start();
  world.Tick();
  const Json gang = Gang(world, "g");
  CHECK(gang["phase"] == "Gathering");
  CHECK(gang["reason"] == "WaitingForMembers");
  CHECK(gang["refusals"] == Json({{"GangConflict", 1}}));
  CHECK(Queue(world, "default")["refused"] == Json({{"GangConflict", 1}}));
  CHECK(Queue(world, "(none)").is_null());
}

TEST_CASE("why has a reason for every pod, and for a gang's name", "[views]") {
  World world;
  world.Add(MakeNode("n1").Gpu(8));
  world.Add(MakePod("alien").Gpu(1).Scheduler("volcano"));
  world.Add(MakePod("plain").Cpu("1"));
  world.Add(MakePod("ending").Gpu(1).Terminating());
  world.Add(MakePod("coming").Gpu(1));
  world.Add(MakePod("held").Gpu(1).Gated().Gate("example.com/other"));
  world.Add(MakePod("g0").Gpu(1).Gang("g", 3).Gated());
  world.Start();
  world.Tick();

  const auto message = [&](const char* pod) {
    return Why(world, pod)["message"].get<std::string>();
  };
  CHECK(Why(world, "alien")["phase"] == "Unmanaged");
  CHECK_THAT(message("alien"),
             Catch::Contains("schedulerName is volcano") && Catch::Contains("ignores"));
  CHECK_THAT(message("plain"), Catch::Contains("asks for no device"));
  CHECK_THAT(message("ending"), Catch::Contains("being deleted"));
  CHECK(Why(world, "coming")["reason"] == "Arriving");
  CHECK_THAT(message("coming"), Catch::Contains("kube-scheduler has not called Berth for it"));
  CHECK(Why(world, "held")["reason"] == "Arriving");
  CHECK_THAT(message("held"), Catch::Contains("example.com/other"));

  const Json gang = Why(world, "g");
  CHECK(gang["pod"] == "");
  CHECK(gang["namespace"] == "default");
  CHECK(gang["workload"] == "g");
  CHECK(gang["phase"] == "Gathering");
  CHECK(gang["reason"] == "WaitingForMembers");
  CHECK(Why(world, "nobody").is_null());
}

TEST_CASE("pods that wait have their place in the queue", "[views]") {
  World world;
  world.Add(MakeNode("n1").Gpu(1));
  world.Add(MakePod("old").Gpu(2).Gated().Created(1000));
  world.Add(MakePod("young").Gpu(2).Gated().Created(2000));
  world.Add(MakePod("high").Gpu(2).Gated().Created(3000).Priority(10));
  world.Add(MakePod("elsewhere").Gpu(2).Gated().Ns("lab"));
  world.Start();
  world.Tick();
  const Json page = Json::parse(PodsJson(PartsOf(world.engine(), world.now()), "default"));
  std::map<std::string, int> positions;
  for (const Json& pod : page["items"]) positions[pod["name"]] = pod["position"];
  CHECK(positions == std::map<std::string, int>{{"high", 1}, {"old", 2}, {"young", 4}});
  CHECK(page["items"][0]["devices"] == Json({{"nvidia.com/gpu", "2"}}));
  CHECK(page["items"][0]["since"] == "1970-01-01T00:00:03Z");
}

TEST_CASE("places in a queue that users share are those in which their jobs would start",
          "[views]") {
  auto policy = MakePolicy({MakeQueue("default", {"*"})});
  policy.queues[0].fair_within = config::FairWithin::kUser;
  World world(policy);
  world.Add(MakeNode("n1").Gpu(4));
  const auto of = [](const char* user, const char* name, int gpus) {
    return MakePod(name).Gpu(gpus).Label("berth.dev/user", user).Gated();
  };
  world.Add(MakePod("held").Gpu(4).Label("berth.dev/user", "eve").Priority(10).On("n1"));
  world.Add(of("ann", "a1", 1).Created(1'000));
  world.Add(of("ann", "a2", 1).Created(2'000));
  world.Add(of("ann", "a3", 1).Created(3'000));
  world.Add(of("bob", "b1", 1).Created(4'000));
  world.Add(of("bob", "b2", 3).Created(5'000));
  world.Add(of("eve", "e1", 1).Created(500));
  world.Add(of("eve", "e2", 1).Created(600).Priority(10));
  world.Start();
  world.Tick();
  const Json page = Json::parse(PodsJson(PartsOf(world.engine(), world.now()), "default"));
  std::map<std::string, int> positions;
  for (const Json& pod : page["items"]) positions[pod["name"]] = pod["position"];
  // By priority; 1 and 1, by age; 2 and 1; 2 and 4; 3 and 4; 4 and 6 (eve's, with 5 by then).
  CHECK(positions ==
        std::map<std::string, int>{
            {"e2", 1}, {"a1", 2}, {"b1", 3}, {"a2", 4}, {"a3", 5}, {"b2", 6}, {"e1", 7}});
  CHECK(Why(world, "b1")["user"] == "bob");
}

TEST_CASE("a page in parts has each pod once, whatever comes and goes between", "[views]") {
  World world;
  const auto add = [&](const std::string& name) { world.Add(MakePod(name).Gpu(1).Gated()); };
  for (int i = 100; i < 600; ++i) add("p" + std::to_string(i));
  world.Start();
  int parts = 0;
  const std::string page = PodsJson(
      [&](const Part& part) {
        while (part(world.engine(), world.now())) {
          ++parts;
          world.Delete("p" + std::to_string(600 - parts));  // one that was not come to, or was
          add("a" + std::to_string(parts));                 // before those that were
          add("z" + std::to_string(parts));
        }
      },
      "");
  CHECK(parts >= 4);
  std::map<std::string, int> times;
  const Json items = Json::parse(page)["items"];
  for (const Json& item : items) ++times[item["name"].get<std::string>()];
  for (int i = 100; i < 600 - parts; ++i) CHECK(times["p" + std::to_string(i)] == 1);
  CHECK(std::ranges::all_of(times, [](const auto& entry) { return entry.second == 1; }));
}

TEST_CASE("pages of an empty cluster are empty lists", "[views]") {
  World world;
  world.Start();
  const InParts read = PartsOf(world.engine(), world.now());
  CHECK(PodsJson(read, "") == R"({"items":[]})");
  CHECK(GangsJson(read, "") == R"({"items":[]})");
  CHECK(NodesJson(read) == R"({"items":[]})");
}

TEST_CASE("a node's model, taints and readiness are told", "[views]") {
  World world;
  world.Add(MakeNode("n1").Gpu(8).Model("H100").Cordoned().NotReady().Taint("maintenance"));
  world.Start();
  const Json node = Json::parse(NodesJson(PartsOf(world.engine(), world.now())))["items"][0];
  CHECK(node["model"] == "H100");
  CHECK(node["ready"] == false);
  CHECK(node["unschedulable"] == true);
  CHECK(std::ranges::count(node["taints"], Json("maintenance:NoSchedule")) == 1);
  CHECK(node["reason"] == "maintenance");  // kubelet's own word would come first
}

TEST_CASE("docs/reasons.md has every phase, and Arriving", "[views]") {
  const std::string docs = testing::ReadSource("docs/reasons.md");
  for (const std::string_view phase : kPhases) {
    INFO(phase);
    CHECK(docs.find("| `" + std::string(phase) + "` |") != std::string::npos);
  }
  CHECK(docs.find("| `" + std::string(kArriving) + "` |") != std::string::npos);
}

}  // namespace
}  // namespace berth::server
