#include "server/demo/scheduler_driver.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>

#include "server/drivers/host_driver.h"
#include "server/http/http_server.h"
#include "server/version.h"
#include "tests/support/catch.h"
#include "tests/support/raw_client.h"

namespace berth::server {
namespace {

using nlohmann::json;
using test::Eventually;

constexpr const char* kOneNode = R"(
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: "8", memory: 8Gi, pods: "10", nvidia.com/gpu: "8"}}}
- {apiVersion: v1, kind: Pod, metadata: {name: old, uid: old}, spec: {nodeName: n1, containers: [{name: c, resources: {limits: {nvidia.com/gpu: 4}}}]}}
)";

/// Berth leaves it alone: it belongs to another scheduler, which the model plays here.
kube::Pod NewPod(const std::string& name, std::int64_t gpus, std::int32_t priority = 0) {
  kube::Pod pod;
  pod.meta.name = name;
  pod.meta.ns = "default";
  pod.meta.uid = name;
  pod.scheduler_name = "of-the-test";
  pod.priority = priority;
  kube::PodSpec spec = *pod.spec;
  if (gpus > 0) spec.requests["nvidia.com/gpu"] = gpus * 1000;
  pod.spec = std::make_shared<const kube::PodSpec>(std::move(spec));
  return pod;
}

/// The model in front of an extender that the test answers for: it keeps every node, hands victims
/// back, and binds.
struct Driven {
  Driven() {
    server.Handle("POST", "/filter", [this](const HttpRequest& r) { return Filter(r); });
    server.Handle("POST", "/bind", [this](const HttpRequest& r) { return Bind(r); });
    server.Handle("POST", "/preempt", [](const HttpRequest& r) {
      const json request = json::parse(r.body);
      return HttpResponse{
          .body = json{{"NodeNameToMetaVictims", request.at("NodeNameToMetaVictims")}}.dump()};
    });
    kube::ClientConfig config;
    config.server = "http://127.0.0.1:" + std::to_string(*server.Listen("127.0.0.1", 0));
    client = *kube::RestClient::Create(std::move(config));
    driver = std::make_unique<SchedulerDriver>(*cluster, *client, auditor, /*speed=*/1000);
    cluster->Watch([this](const kube::Pod& pod, bool gone) {
      driver->OnPod(pod, gone);
      Note(pod);
    });
    cluster->Connect(host);
    host.Start();
    driver->Start();
  }
  ~Driven() { driver->Stop(); }

  void Note(const kube::Pod& pod) {
    if (!pod.pod_scheduled || pod.pod_scheduled->status) return;
    const std::scoped_lock lock(mutex);
    if (!reasons.empty() && reasons.back() == pod.pod_scheduled->reason) return;
    reasons.push_back(pod.pod_scheduled->reason);
  }
  HttpResponse Filter(const HttpRequest& request) {
    if (failing.exchange(false)) return {.status = 503, .body = {}};
    const json offered = json::parse(request.body).at("NodeNames");
    if (!refusing) return {.body = json{{"NodeNames", offered}, {"Error", ""}}.dump()};
    json refused = json::object();
    for (const std::string node : offered) refused[node] = "not today";
    return {.body = json{{"NodeNames", nullptr}, {"FailedNodes", refused}, {"Error", ""}}.dump()};
  }
  HttpResponse Bind(const HttpRequest& request) {
    const json args = json::parse(request.body);
    const engine::PodRef pod{
        .ns = args.at("PodNamespace"), .name = args.at("PodName"), .uid = args.at("PodUID")};
    const auto result = cluster->CarryOut(host::PostBinding{.pod = pod, .node = args.at("Node")},
                                          [] { return true; });
    return {.body = json{{"Error", result.message}}.dump()};
  }

  std::optional<kube::Pod> Read(const std::string& uid) const {
    const engine::PodRef pod{.ns = "default", .name = uid, .uid = uid};
    return cluster->CarryOut(host::ReadPod{.pod = pod}, [] { return true; }).pod;
  }
  bool Bound(const std::string& uid) const {
    return Eventually([&] { return Read(uid)->node_name == "n1"; });
  }
  /// Why the pod waits, once it does.
  std::string WhyWaits(const std::string& uid) const {
    const bool told = Eventually([&] { return Read(uid)->pod_scheduled.has_value(); });
    if (!told) return "";
    const auto condition = Read(uid)->pod_scheduled;
    return condition->reason + ": " + condition->message;
  }

  std::mutex mutex;
  std::vector<std::string> reasons;   ///< Why a pod is not scheduled, as its condition says.
  std::atomic<bool> failing = false;  ///< The next call of filter.
  std::atomic<bool> refusing = false;
  std::unique_ptr<EmbeddedCluster> cluster = *EmbeddedCluster::Parse(kOneNode, "test");
  Auditor auditor;
  Metrics metrics{ThisBuild()};
  Logger logger{LogFormat::kText, 0, [](std::string_view) {}};
  DecisionLog decisions{{}};
  std::unique_ptr<kube::RestClient> client;
  std::unique_ptr<SchedulerDriver> driver;
  HostDriver host{{}, {}, *cluster, metrics, logger, decisions};
  HttpServer server;
};

TEST_CASE("a pod is placed by the verbs, and nothing is left to do", "[demo]") {
  Driven d;
  d.cluster->PutPod(NewPod("p", 2));
  CHECK(d.Bound("p"));
  CHECK(Eventually([&] { return d.driver->Idle(); }));
  const auto times = d.driver->extender().Times();
  CHECK(times[0].micros.size() == 1);
  CHECK(times[1].micros.empty());  // one node is left
  CHECK(Eventually([&] { return d.driver->extender().Times()[2].micros.size() == 1; }));
  CHECK(d.driver->extender().Failures().empty());
}

TEST_CASE("a gated pod is not tried", "[demo]") {
  Driven d;
  kube::Pod gated = NewPod("gated", 2);
  gated.scheduling_gates = {"g"};
  d.cluster->PutPod(gated);
  d.cluster->PutPod(NewPod("p", 2));
  REQUIRE(d.Bound("p"));
  REQUIRE(Eventually([&] { return d.driver->Idle(); }));
  CHECK(d.driver->extender().Times()[0].micros.size() == 1);
  gated.scheduling_gates.clear();
  d.cluster->PutPod(gated);
  CHECK(d.Bound("gated"));
}

TEST_CASE("a failed call is written to the pod, and the pod is tried again", "[demo]") {
  Driven d;
  d.failing = true;
  d.cluster->PutPod(NewPod("p", 2));
  CHECK(d.Bound("p"));
  CHECK(d.driver->extender().Failures() == std::vector<std::string>{"filter: HTTP 503"});
  const std::scoped_lock lock(d.mutex);
  CHECK(d.reasons == std::vector<std::string>{"SchedulerError"});
}

TEST_CASE("a refused pod says why, rests, and is woken by an event", "[demo]") {
  Driven d;
  d.refusing = true;
  d.cluster->PutPod(NewPod("p", 2));
  CHECK(d.WhyWaits("p") == "Unschedulable: 0/1 nodes are available: 1 not today.");
  CHECK(Eventually([&] { return d.driver->Idle(); }));
  d.refusing = false;
  d.cluster->DeletePod("old");
  CHECK(d.Bound("p"));
}

TEST_CASE("what a pod preempts is deleted from the cluster", "[demo]") {
  Driven d;
  d.cluster->PutPod(NewPod("high", 8, /*priority=*/10));
  CHECK(d.Bound("high"));
  CHECK_FALSE(d.Read("old").has_value());
  CHECK(d.driver->extender().Times()[3].micros.size() == 1);
}

TEST_CASE("a pod without devices is bound without Berth", "[demo]") {
  Driven d;
  d.cluster->PutPod(NewPod("p", 0));
  CHECK(d.Bound("p"));
  CHECK(d.driver->extender().Times()[0].micros.empty());
}

}  // namespace
}  // namespace berth::server
