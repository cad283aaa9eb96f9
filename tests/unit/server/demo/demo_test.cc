#include "server/demo/demo.h"

#include <sstream>

#include "server/cli/table.h"
#include "server/demo/demo_audit.h"
#include "server/demo/demo_jobs.h"
#include "server/demo/demo_picture.h"
#include "server/demo/demo_report.h"
#include "tests/support/catch.h"

namespace berth::server {
namespace {

using Json = nlohmann::ordered_json;

AuditedPod PodOf(const std::string& uid, const std::string& gang = {}, int min = 1,
                 std::int64_t gpus = 4, bool whole_node = false) {
  return {.uid = uid,
          .queue = "q",
          .gang = gang,
          .min_member = min,
          .gpus = gpus,
          .whole_node = whole_node};
}

struct Audited {
  Audited() {
    auditor.AddNode("n1", 8);
    auditor.AddNode("n2", 8);
    auditor.AddQueue("q", {.quota = 8, .limit = 12});
    auditor.AddQueue("lender", {.quota = 8, .limit = 12});
  }
  void Bind(const std::string& uid, const std::string& node) {
    auditor.OnBindCall(uid);
    auditor.OnBound(uid, node);
  }
  Auditor auditor;
};

TEST_CASE("the auditor lets what is right pass", "[demo]") {
  Audited a;
  for (const char* uid : {"a", "b", "c"}) a.auditor.AddPod(PodOf(uid));
  a.Bind("a", "n1");
  a.Bind("a", "n1");  // told twice
  a.Bind("b", "n1");
  a.auditor.OnGone("a");
  a.Bind("c", "n1");
  CHECK(a.auditor.violations().empty());
  CHECK(a.auditor.binds() == 3);
}

TEST_CASE("the auditor sees a GPU given twice", "[demo]") {
  Audited a;
  for (const char* uid : {"a", "b", "c"}) a.auditor.AddPod(PodOf(uid));
  for (const char* uid : {"a", "b", "c"}) a.Bind(uid, "n1");
  REQUIRE(a.auditor.violations().size() == 1);
  CHECK(a.auditor.violations().front() == "node n1 gave 12 of 8 GPUs");
}

TEST_CASE("the auditor sees company for a whole-node pod, and charges it the node", "[demo]") {
  Audited a;
  a.auditor.AddPod(PodOf("w", {}, 1, 1, /*whole_node=*/true));
  a.auditor.AddPod(PodOf("a"));
  a.auditor.AddPod(PodOf("b"));
  a.Bind("w", "n2");
  a.Bind("a", "n1");
  CHECK(a.auditor.violations().empty());  // 8 + 4 of 12
  a.Bind("b", "n2");
  CHECK(a.auditor.violations().size() == 2);  // company, and 16 of 12
}

TEST_CASE("the auditor sees a gang that starts or runs in part", "[demo]") {
  Audited a;
  for (const char* uid : {"a", "b", "c"}) a.auditor.AddPod(PodOf(uid, "g", 3, 1));
  a.auditor.OnBindCall("a");
  SECTION("started before its minimum came") {
    a.auditor.OnBindCall("b");
    a.auditor.OnBound("a", "n1");
    CHECK(a.auditor.violations() == std::vector<std::string>{"gang g started with 2 of 3 members"});
  }
  SECTION("half of it bound") {
    a.auditor.OnBindCall("b");
    a.auditor.OnBindCall("c");
    a.auditor.OnBound("a", "n1");
    CHECK(a.auditor.violations().empty());
    CHECK(a.auditor.PartlyBound() == std::vector<std::string>{"g"});
    a.auditor.OnBound("b", "n1");
    a.auditor.OnBound("c", "n2");
    CHECK(a.auditor.PartlyBound().empty());
    a.auditor.OnGone("a");  // it ends
    CHECK(a.auditor.PartlyBound().empty());
    CHECK(a.auditor.gangs_started() == 1);
  }
}

AuditedPod JobPod(const std::string& queue, const std::string& name, std::int32_t priority,
                  std::int64_t gpus) {
  return {.uid = name,
          .queue = queue,
          .workload = queue + "/pod/" + name,
          .gang = {},
          .priority = priority,
          .gpus = gpus};
}

TEST_CASE("the auditor sees which pods may not be evicted inside a queue", "[demo]") {
  Audited a;
  a.auditor.AddPod(JobPod("q", "low", 0, 8));
  a.auditor.AddPod(JobPod("q", "equal", 0, 8));
  a.auditor.AddPod(JobPod("q", "high", 1, 8));
  a.Bind("low", "n1");
  a.auditor.OnEvicted("low", "q/pod/high");
  CHECK(a.auditor.violations().empty());
  CHECK(a.auditor.evicted() == 1);
  a.auditor.OnEvicted("low", "q/pod/equal");
  a.auditor.OnEvicted("low", "q/pod/nobody");
  CHECK(a.auditor.violations() ==
        std::vector<std::string>{"low of priority 0 was evicted for q/pod/equal of priority 0",
                                 "low was evicted for q/pod/nobody, which is unknown"});
}

TEST_CASE("the auditor sees what was taken from a queue within its quota", "[demo]") {
  Audited a;
  a.auditor.AddPod(JobPod("q", "first", 0, 8));
  a.auditor.AddPod(JobPod("q", "second", 0, 4));
  a.Bind("first", "n1");
  const std::vector<std::string> wrong{
      "first was evicted for lender/pod/back, and queue q had 8 of its quota of 8"};
  SECTION("it never had more") {
    a.auditor.AddPod(JobPod("lender", "back", 0, 8));
    a.auditor.OnEvicted("first", "lender/pod/back");
    CHECK(a.auditor.violations() == wrong);
  }
  SECTION("it had more, but not since the lender's job came") {
    a.Bind("second", "n2");
    a.auditor.OnGone("second");
    a.auditor.AddPod(JobPod("lender", "back", 0, 8));
    a.auditor.OnEvicted("first", "lender/pod/back");
    CHECK(a.auditor.violations() == wrong);
  }
  SECTION("it had more when the lender's job came, although it has ended") {
    a.Bind("second", "n2");
    a.auditor.AddPod(JobPod("lender", "back", 0, 8));
    a.auditor.OnGone("second");
    a.auditor.OnEvicted("first", "lender/pod/back");
    CHECK(a.auditor.violations().empty());
  }
}

TEST_CASE("a stream repeats from its seed, and has every kind of job", "[demo]") {
  const auto names = [](std::uint64_t seed) {
    std::string all;
    for (const DemoJob& job : DemoStream(seed, 192, 12'000, 1.0)) {
      all += job.name + " " + std::to_string(job.at_ms) + " " + std::to_string(job.run_ms) + "\n";
    }
    return all;
  };
  CHECK(names(7) == names(7));
  CHECK(names(7) != names(8));
  std::map<std::string, int> shapes;
  std::int64_t last = 0;
  for (const DemoJob& job : DemoStream(1, 192, 12'000, 1.0)) {
    ++shapes[job.Shape()];
    CHECK(job.at_ms >= last);
    last = job.at_ms;
  }
  for (const char* shape : {"1 GPU", "2 GPUs", "4 GPUs", "8x8", "4x8", "16x1", "whole node"}) {
    CHECK(shapes[shape] > 0);
  }
}

TEST_CASE("a stream has one urgent job, and the lender's gangs come after it", "[demo]") {
  const std::vector<DemoJob> jobs = DemoStream(1, 192, 12'000, 1.0);
  const auto urgent = std::ranges::find_if(jobs, [](const DemoJob& j) { return j.priority > 0; });
  REQUIRE(urgent != jobs.end());
  CHECK(std::ranges::count_if(jobs, [](const DemoJob& j) { return j.priority > 0; }) == 1);
  int before = 0;  // GPUs that its queue has been asked for
  for (const DemoJob& job : jobs) {
    if (job.team == urgent->team && job.at_ms < urgent->at_ms) before += job.pods * job.gpus;
    if (job.team == "product" && job.gang()) CHECK(job.at_ms > urgent->at_ms);
  }
  CHECK(before > 144);  // its limit
}

TEST_CASE("a posted pod says what Berth reads", "[demo]") {
  const DemoJob job{
      .name = "g", .team = "research", .pods = 4, .gpus = 8, .gated = true, .required = "rack"};
  const auto pod = DemoPod(job, 2, 1'700'000'000'123);
  CHECK(pod["metadata"]["name"] == "g-2");
  CHECK(pod["metadata"]["uid"] == job.PodUid(2));
  CHECK(pod["metadata"]["creationTimestamp"] == "2023-11-14T22:13:20Z");
  CHECK(job.WorkloadKey() == "research/gang/g");
  CHECK(DemoJob{.name = "p", .team = "product"}.WorkloadKey() == "product/pod/p");
  CHECK(pod["metadata"]["labels"]["berth.dev/gang"] == "g");
  CHECK(pod["spec"]["priority"] == 0);
  CHECK(DemoPod({.name = "u", .team = "t", .priority = 7}, 0, 0)["spec"]["priority"] == 7);
  CHECK(pod["metadata"]["annotations"]["berth.dev/gang-size"] == "4");
  CHECK(pod["metadata"]["annotations"]["berth.dev/topology-required"] == "rack");
  CHECK(pod["spec"]["schedulingGates"][0]["name"] == "berth.dev/admission");
  CHECK(pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "8");
}

const Json kNodes = Json::parse(R"({"items":[
  {"name":"n1","domains":{"rack":"block/r1"},
   "devices":{"nvidia.com/gpu":{"allocatable":"4","used":"3"}},
   "pods":[{"pod":"t/solo","queue":"team","devices":1.0,"planned":false},
           {"pod":"t/g-0","queue":"team","devices":2.0,"planned":true}]},
  {"name":"n2","domains":{"rack":"block/r1"},
   "devices":{"nvidia.com/gpu":{"allocatable":"4","used":"4"}},
   "pods":[{"pod":"t/w","queue":"team","devices":4.0,"planned":false}]},
  {"name":"n3","domains":{"rack":"block/r2"},
   "devices":{"nvidia.com/gpu":{"allocatable":"4","used":"0"}},"pods":[]},
  {"name":"cpu-only","domains":{},"devices":{},"pods":[]}]})");

TEST_CASE("the picture without colour", "[demo]") {
  const PodMarks marks{{"t/g-0", {.letter = 'a'}}, {"t/w", {.whole_node = true}}};
  CHECK(DrawNodes(kNodes, marks, {.colour = false, .unicode = false, .width = 80}) ==
        "r1      7/8 GPUs  r2      0/4 GPUs\n"
        "n1      + + T .   n3      . . . .\n"
        "n2      T = = =\n"
        "\n"
        "T team  a-z gangs  = whole node  + planned  . free\n");
  const auto coloured = DrawNodes(kNodes, marks, {.colour = true, .unicode = true, .width = 80});
  CHECK(coloured.find("\x1b[48;5;") != std::string::npos);
  CHECK(coloured.find("a \x1b[0m") != std::string::npos);  // planned: in colour, no background
}

TEST_CASE("racks wrap where the terminal ends", "[demo]") {
  const auto drawn = DrawNodes(kNodes, {}, {.colour = false, .unicode = false, .width = 20});
  CHECK(drawn.find("r2") > drawn.find("n2"));
}

TEST_CASE("bars stay inside 80 columns", "[demo]") {
  const auto queues = Json::parse(R"({"items":[
      {"name":"research","quota":{"nvidia.com/gpu":"96"},"limit":{"nvidia.com/gpu":"144"},
       "used":{"nvidia.com/gpu":"130"}},
      {"name":"interactive","quota":{},"limit":{},"used":{}}]})");
  std::istringstream drawn(DrawQueues(queues, 192, {.colour = false}));
  int lines = 0;
  for (std::string line; std::getline(drawn, line); ++lines) CHECK(DisplayWidth(line) <= 80);
  CHECK(lines == 2);
}

TEST_CASE("packing counts what is whole and what is broken", "[demo]") {
  const Packing packing = MeasurePacking(kNodes);
  CHECK(packing.nodes == 3);
  CHECK(packing.free_nodes == 1);
  CHECK(packing.full_nodes == 1);
  CHECK(packing.free_gpus == 5);
  CHECK(packing.broken_gpus == 1);
  CHECK(packing.best_rack_nodes == 1);
}

TEST_CASE("quantiles", "[demo]") {
  CHECK(Quantile({}, 0.5) == 0);
  CHECK(Quantile({3, 1, 2}, 0.5) == 2);
  CHECK(Quantile({3, 1, 2}, 1.0) == 3);
}

TEST_CASE("the demo keeps its promises", "[demo]") {
  CHECK(Demo({.seed = 3, .fast = true}) == 0);
  CHECK(Demo({.cluster = "/nonexistent"}) == 3);
}

}  // namespace
}  // namespace berth::server
