// The host under threads: as a leader, as a follower, and from one to the other. What it decides is
// in tests/unit/host/.
#include "server/drivers/host_driver.h"

#include <condition_variable>
#include <thread>

#include "kube/writer.h"
#include "server/drivers/kube_api.h"
#include "server/version.h"
#include "tests/support/builders.h"
#include "tests/support/fake_api_server.h"
#include "tests/support/raw_client.h"

namespace berth::server {
namespace {

using kube::WriteOutcome;
using std::chrono::seconds;
using test::Eventually;
using testing::FakeApiServer;
using testing::FakeEnd;
using testing::FakeReply;
using testing::MakeNode;
using testing::MakePod;

/// Notes what it is told to write; Bindings can be held back.
class NotingApi final : public Api {
 public:
  host::Result CarryOut(const host::ApiOrder& order, const Wanted& wanted) override {
    if (const auto* binding = std::get_if<host::PostBinding>(&order)) return Bind(*binding, wanted);
    if (!wanted()) return {.outcome = WriteOutcome::kRefused};
    if (const auto* nomination = std::get_if<host::Nominate>(&order)) {
      Note("nominate " + nomination->pod.name);
    } else if (const auto* removal = std::get_if<host::RemoveGate>(&order)) {
      Note("ungate " + removal->pod.name);
    } else if (const auto* mark = std::get_if<host::MarkVictim>(&order)) {
      Note("mark " + mark->pod.name);
    } else if (const auto* eviction = std::get_if<host::Evict>(&order)) {
      Note((eviction->dry_run ? "try " : "evict ") + eviction->pod.name);
    } else {
      if (const auto* read = std::get_if<host::ReadPod>(&order)) Note("read " + read->pod.name);
      return {.outcome = WriteOutcome::kNotFound};
    }
    return {.outcome = WriteOutcome::kDone};
  }
  void Event(const engine::EmitEvent& event) override { Note("event " + event.reason); }

  void Hold(bool held, WriteOutcome outcome = WriteOutcome::kDone) {
    const std::scoped_lock lock(mutex_);
    held_ = held;
    outcome_ = outcome;
    changed_.notify_all();
  }
  std::ptrdiff_t Count(const std::string& note) const { return std::ranges::count(notes(), note); }
  std::vector<std::string> notes() const {
    const std::scoped_lock lock(mutex_);
    return notes_;
  }
  bool Noted(const std::string& note) const { return Count(note) > 0; }
  void Note(std::string note) {
    const std::scoped_lock lock(mutex_);
    notes_.push_back(std::move(note));
  }

 private:
  host::Result Bind(const host::PostBinding& binding, const Wanted& wanted) {
    std::unique_lock lock(mutex_);
    notes_.push_back("bind " + binding.pod.name + " " + binding.node);
    changed_.wait(lock, [this] { return !held_; });
    lock.unlock();
    Note(wanted() ? "wanted" : "not wanted");
    return {.outcome = outcome_, .message = "as the test says"};
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> notes_;
  bool held_ = false;
  std::atomic<WriteOutcome> outcome_ = WriteOutcome::kDone;
};

/// A host with two nodes of one GPU each, a gang of two that needs both, and a lone pod.
struct Bed {
  explicit Bed(config::PolicyConfiguration with = {},
               std::int64_t budget = engine::Options{}.pass_budget)
      : policy(std::move(with)), pass_budget(budget) {
    Add(MakeNode("n1").Gpu(1));
    Add(MakeNode("n2").Gpu(1));
    for (const char* name : {"a", "b"}) Add(MakePod(name).Gpu(1).Gang("g", 2));
  }
  ~Bed() { api.Hold(false); }

  void Add(const kube::Node& node) {
    host.Apply([&](engine::Engine& e, engine::TimePoint now) { e.OnNode(node, now); });
  }
  void Add(const kube::Pod& pod) {
    host.Apply([&](engine::Engine& e, engine::TimePoint now) { e.OnPod(pod, now); });
  }

  auto Filter(const std::string& pod) {
    const std::string uid = "uid-" + pod;
    return host.Filter({.pod_name = pod,
                        .pod_namespace = "default",
                        .pod_uid = uid,
                        .pod_json = "",
                        .node_names = {"n1", "n2"}});
  }
  std::string NodeFor(const std::string& pod) {
    const auto answer = Filter(pod);
    return answer && answer->kept.size() == 1 ? std::string(answer->kept.front()) : "none";
  }
  auto Bind(const std::string& pod, const std::string& node) {
    const std::string uid = "uid-" + pod;
    return host.Bind({.pod_name = pod, .pod_namespace = "default", .pod_uid = uid, .node = node});
  }
  bool AnswersNothing() {
    return !Filter("a") && !host.Prioritize(ExtenderArgs{}) && !Bind("a", "n1") &&
           !host.Preempt(PreemptionArgs{});
  }
  std::size_t Parked() {
    return host.Look([](const engine::Engine& e, auto) { return e.parked_binds(); });
  }
  /// Whether /metrics has this line.
  bool Exports(const std::string& line) {
    host.UpdateMetrics();
    return ("\n" + metrics.Serialize()).find("\n" + line + "\n") != std::string::npos;
  }
  std::string Ledger() {
    return host.Look([](const engine::Engine& e, auto) { return e.store().LedgerString(); });
  }

  std::atomic<bool> leads = true;
  NotingApi api;
  Metrics metrics{ThisBuild()};
  Logger logger{LogFormat::kText, 0, [](std::string_view) {}};
  DecisionLog decisions{{}};
  config::PolicyConfiguration policy;
  std::int64_t pass_budget;
  HostDriver host{policy,        {.instance = "x", .pass_budget = pass_budget},
                  api,           metrics,
                  logger,        decisions,
                  SteadyClock(), [this] { return leads.load(); }};
};

TEST_CASE("a follower knows the cluster, answers nothing and wants nothing done", "[host]") {
  Bed bed;
  CHECK(bed.AnswersNothing());
  bed.Add(MakePod("c").Gpu(1).On("n1"));
  CHECK(bed.Ledger().find("n1") != std::string::npos);
  CHECK(bed.api.notes().empty());
  bed.host.Start();
  CHECK(bed.Filter("a"));
  bed.host.Resign();
  CHECK(bed.AnswersNothing());
}

TEST_CASE("by its own clock alone a leader stops answering", "[host]") {
  Bed bed;
  bed.host.Start();
  CHECK(bed.NodeFor("a") != "none");
  bed.leads = false;  // Nobody has called Resign yet: the process was frozen, say.
  CHECK(bed.AnswersNothing());
}

TEST_CASE("on loss parked binds fail at once and plans are dropped; later all goes on", "[host]") {
  Bed bed;
  const std::string idle = bed.Ledger();
  bed.host.Start();
  const std::string node = bed.NodeFor("a");
  std::expected<std::string, Unavailable> answer;
  std::jthread call([&] { answer = bed.Bind("a", node); });
  REQUIRE(Eventually([&] { return bed.Parked() == 1; }));
  CHECK(bed.Exports("berth_standing_binds 1"));
  bed.host.Resign();
  call.join();
  CHECK(bed.Exports("berth_standing_binds 0"));
  REQUIRE_FALSE(answer);
  CHECK(answer.error().http_status == 503);
  CHECK(bed.Ledger() == idle);
  CHECK_FALSE(bed.api.Noted("bind a " + node));

  bed.host.Start();
  const std::string a = bed.NodeFor("a");
  const std::string b = bed.NodeFor("b");
  std::jthread first([&] { answer = bed.Bind("a", a); });
  REQUIRE(Eventually([&] { return bed.Parked() == 1; }));
  CHECK(bed.Bind("b", b) == std::string());
  first.join();
  CHECK(answer == std::string());
}

// Nothing else happened that would have woken the planner.
TEST_CASE("room held for a preemptor is given back in time", "[host][bug]") {
  config::PolicyConfiguration policy;
  policy.gang.plan_timeout = std::chrono::milliseconds(50);
  Bed bed(policy);
  bed.Add(MakePod("low").Gpu(1).On("n1"));
  bed.Add(MakePod("high").Gpu(1).Priority(99).On("n2"));
  bed.Add(MakePod("p").Gpu(1).Priority(10));
  bed.host.Start();
  // The planner has looked at the gang, and waits.
  REQUIRE(Eventually([&] { return bed.api.Noted("event InsufficientDevices"); }));
  const auto kept = bed.host.Preempt({.pod_name = "p",
                                      .pod_namespace = "default",
                                      .pod_uid = "uid-p",
                                      .node_to_victims = {{"n1", {.pod_uids = {"uid-low"}}}}});
  REQUIRE(kept);
  REQUIRE(kept->contains("n1"));
  CHECK(Eventually([&] { return bed.Ledger().find("pod uid-p") == std::string::npos; }));
}

TEST_CASE("an exception in the engine is logged and ends the process", "[host][bug]") {
  Bed bed;
  std::string log;
  Logger logger{LogFormat::kText, 0, [&](std::string_view line) { log += line; }};
  int ended = 0;
  {
    HostDriver host{bed.policy, {.instance = "y"}, bed.api, bed.metrics, logger, bed.decisions};
    host.OnBroken([&] { ++ended; });
    host.Apply([](engine::Engine&, engine::TimePoint) { throw std::runtime_error("half done"); });
    CHECK(ended == 1);
    host.Apply([](engine::Engine&, engine::TimePoint) {});
    CHECK(ended == 1);
  }
  CHECK_THAT(log, Catch::Contains("the engine failed") && Catch::Contains("half done"));
}

TEST_CASE("a host whose engine cannot be had falls silent, and is heard again", "[host][bug]") {
  std::atomic<engine::TimePoint> now = 1'000'000;
  Bed bed;
  HostDriver host{bed.policy,    {.instance = "y"},         bed.api, bed.metrics, bed.logger,
                  bed.decisions, [&] { return now.load(); }};
  now += 60'000;
  CHECK(Eventually([&] { return host.SilentMs() == 0; }));  // follower or leader alike
  host.Look([&](const engine::Engine&, auto) {
    now += 60'000;
    CHECK(host.SilentMs() == 60'000);
  });
  CHECK(Eventually([&] { return host.SilentMs() == 0; }));
}

TEST_CASE("a pod is nominated, ungated and, its outcome unknown, read", "[host]") {
  Bed bed;
  bed.Add(MakePod("filler").Gpu(1).On("n1"));
  bed.Add(MakePod("c").Gpu(1).Gated());
  bed.host.Start();
  REQUIRE(Eventually([&] { return bed.api.Noted("ungate c"); }));  // our watch shows nothing
  bed.Add(MakePod("c").Gpu(1).Nominated("n2"));
  bed.api.Hold(false, WriteOutcome::kUnknown);
  const auto answer = bed.Bind("c", "n2");
  REQUIRE(answer);
  CHECK_THAT(*answer, Catch::Contains("unknown"));
  CHECK(Eventually([&] { return bed.api.Noted("read c"); }));
  CHECK(Eventually([&] { return bed.Ledger().find("uid-c") == std::string::npos; }));
}

TEST_CASE("a call whose caller has hung up ends", "[host]") {
  Bed bed;
  bed.host.Start();
  const std::string node = bed.NodeFor("a");
  std::atomic<bool> gone = false;
  std::expected<std::string, Unavailable> answer;
  std::jthread call([&] {
    answer = bed.host.Bind({.pod_name = "a",
                            .pod_namespace = "default",
                            .pod_uid = "uid-a",
                            .node = node,
                            .client_gone = [&] { return gone.load(); }});
  });
  REQUIRE(Eventually([&] { return bed.Parked() == 1; }));
  gone = true;
  call.join();
  CHECK(answer == "berth: the caller has gone");
  CHECK(bed.Parked() == 0);
}

TEST_CASE("what an earlier term began does not touch the next", "[host]") {
  Bed bed;
  bed.Add(MakePod("lone").Gpu(1));
  bed.Add(MakePod("filler").Gpu(1).On("n1"));
  bed.host.Start();
  REQUIRE(bed.NodeFor("lone") == "n2");
  bed.api.Hold(true);
  std::expected<std::string, Unavailable> old;
  std::jthread call([&] { old = bed.Bind("lone", "n2"); });
  REQUIRE(Eventually([&] { return bed.api.Noted("bind lone n2"); }));
  bed.host.Resign();
  bed.host.Start();
  REQUIRE(bed.NodeFor("lone") == "n2");
  std::expected<std::string, Unavailable> fresh;
  std::jthread again([&] { fresh = bed.Bind("lone", "n2"); });
  REQUIRE(Eventually([&] { return std::ranges::count(bed.api.notes(), "bind lone n2") == 2; }));
  const std::string ledger = bed.Ledger();
  bed.api.Hold(false, WriteOutcome::kRefused);
  call.join();
  again.join();
  CHECK(bed.api.Count("not wanted") == 1);
  CHECK(bed.api.Count("wanted") == 1);
  // Both were refused; the one of this term alone gave its room back, and the pod may come again.
  CHECK_FALSE(old);
  CHECK_FALSE(fresh.value().empty());
  CHECK(bed.Ledger() != ledger);
  CHECK(bed.NodeFor("lone") == "n2");
}

TEST_CASE("a host that forgets takes events in between, and counts no Binding twice", "[host]") {
  Bed bed({}, /*budget=*/1);
  const auto known = [&] {
    return bed.host.Look([](const engine::Engine& e, auto) { return e.store().pods().size(); });
  };
  bed.Add(MakePod("filler").Gpu(1).On("n1"));
  bed.Add(MakePod("lone").Gpu(1));
  for (int i = 0; i < 20; ++i) bed.Add(MakePod("old-" + std::to_string(i)).Gpu(9).Gated());
  bed.host.Start();
  REQUIRE(Eventually([&] { return bed.NodeFor("lone") == "n2"; }));
  REQUIRE(bed.Bind("lone", "n2") == std::string());
  {
    const std::jthread watch([&] {
      for (int i = 0; i < 20; ++i) bed.Add(MakePod("new-" + std::to_string(i)).Gpu(9).Gated());
    });
    const std::jthread scrape([&] {
      for (int i = 0; i < 20; ++i) bed.host.UpdateMetrics();
    });
    bed.host.Resign();
  }
  CHECK(known() == 44);
  CHECK(bed.Exports(R"(berth_binds_total{result="bound"} 1)"));
}

TEST_CASE("plans of two terms of one process never share an id", "[host]") {
  Bed bed;
  const auto plan = [&] {
    bed.NodeFor("a");
    return bed.host.Look(
        [](const engine::Engine& e, auto) { return e.store().FindPod("uid-a")->workload->plan; });
  };
  bed.host.Start();
  const std::string first = plan();
  bed.host.Resign();
  bed.host.Start();
  CHECK(plan() != first);
}

/// The API client on a fake server, under a tenure whose clock the test sets.
struct ApiBed {
  ApiBed() {
    kube::ClientConfig config;
    config.server = server.Url();
    client = *kube::RestClient::Create(config);
    tenure.Begin(now.load() + seconds(10));
  }
  FakeApiServer server;
  std::atomic<kube::TimePoint> now = kube::TimePoint(seconds(1000));
  Tenure tenure{[this] { return now.load(); }};
  Logger logger{LogFormat::kText, 0, [](std::string_view) {}};
  Metrics metrics{ThisBuild()};
  std::unique_ptr<kube::RestClient> client;
  std::optional<kube::Writer> writer;
  std::optional<KubeApi> api;

  KubeApi& Api() {
    writer.emplace(*client, "berth-0");
    return api.emplace(*writer, tenure, metrics, logger);
  }
  const engine::PodRef pod{.ns = "ns", .name = "p", .uid = "u"};
};

TEST_CASE("nothing is written after the term, and no attempt begins after it", "[host]") {
  ApiBed bed;
  KubeApi& api = bed.Api();
  const auto wanted = [] { return true; };
  const host::PostBinding binding{.pod = bed.pod, .node = "n"};
  SECTION("the term was over before") {
    bed.now = bed.now.load() + seconds(10);
    for (const host::ApiOrder& order : std::vector<host::ApiOrder>{
             binding, host::Nominate{.pod = bed.pod, .node = "n"}, host::RemoveGate{.pod = bed.pod},
             host::MarkVictim{.pod = bed.pod}, host::Evict{.pod = bed.pod, .dry_run = true},
             host::SuspendJob{
                 .job = {.ns = "ns", .name = "j", .uid = "v", .resource_version = "1"}}}) {
      CHECK(api.CarryOut(order, wanted).outcome == WriteOutcome::kRefused);
    }
    api.Event({.pod = bed.pod, .reason = "GangStarted"});
    CHECK(bed.server.Requests().empty());
  }
  SECTION("it is not wanted any more") {
    CHECK(api.CarryOut(binding, [] { return false; }).outcome == WriteOutcome::kRefused);
    CHECK(bed.server.Requests().empty());
  }
  SECTION("it ends between two attempts") {
    bed.server.Handle([&](const auto&) {
      bed.now = bed.now.load() + seconds(11);
      return FakeReply::Status(503, "ServiceUnavailable");
    });
    CHECK(api.CarryOut(binding, wanted).outcome ==
          WriteOutcome::kUnknown);  // the first may have worked
    CHECK(bed.server.Requests().size() == 1);
  }
  SECTION("it is ended while the server hangs") {
    bed.server.Script({FakeReply::Nothing(FakeEnd::kHold)});
    std::jthread ender([&] {
      bed.server.WaitForRequests(1);
      bed.tenure.End();
    });
    CHECK(api.CarryOut(binding, wanted).outcome == WriteOutcome::kUnknown);
    CHECK(bed.server.Requests().size() == 1);
  }
}

}  // namespace
}  // namespace berth::server
