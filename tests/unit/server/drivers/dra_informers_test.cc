// What DRA drivers publish, and the nodes that the engine hears of; an API server without it.
#include "server/drivers/dra_informers.h"

#include <atomic>
#include <string>

#include "server/version.h"
#include "tests/support/catch.h"
#include "tests/support/fake_api_server.h"
#include "tests/support/no_api.h"
#include "tests/support/raw_client.h"

namespace berth::server {
namespace {

using test::Eventually;
using testing::FakeApiServer;
using testing::FakeReply;
using testing::FakeRequest;

constexpr const char* kGpu = "nvidia.com/gpu";
constexpr const char* kClass =
    R"({"metadata":{"name":"gpu","uid":"c","resourceVersion":"1"},"spec":{"extendedResourceName":"nvidia.com/gpu",)"
    R"("selectors":[{"cel":{"expression":"device.driver == 'd'"}}]}})";
constexpr const char* kSlice =
    R"({"metadata":{"name":"s","uid":"s","resourceVersion":"1"},"spec":{"nodeName":"n","driver":"d",)"
    R"("pool":{"name":"n","generation":1,"resourceSliceCount":1},)"
    R"("devices":[{"name":"g0"},{"name":"g1"},{"name":"g2"}]}})";
constexpr const char* kClaim =
    R"({"metadata":{"name":"by-hand","namespace":"x","uid":"u","resourceVersion":"1"},"status":{"allocation":{"devices":)"
    R"({"results":[{"driver":"d","pool":"n","device":"g1"}]}}}})";

/// An API server that has one of each, or answers all with `status`.
struct Bed {
  explicit Bed(int status) {
    server.Handle([status](const FakeRequest& request) {
      if (status != 200) return FakeReply::Status(status, "Refused");
      const bool classes = request.path.ends_with("/deviceclasses");
      const bool slices = request.path.ends_with("/resourceslices");
      const std::string object = classes ? kClass : slices ? kSlice : kClaim;
      return FakeReply::Watch({R"({"type":"ADDED","object":)" + object + "}",
                               R"({"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"2",)"
                               R"("annotations":{"k8s.io/initial-events-end":"true"}}}})"});
    });
  }

  /// As the node informer does.
  void See(const std::string& name, std::int64_t listed) {
    host.Apply([&](engine::Engine& e, engine::TimePoint now) {
      kube::Node node;
      node.meta.name = name;
      if (listed > 0) node.allocatable[kGpu] = listed * 1000;
      informers.Complete(node);
      e.OnNode(std::move(node), now);
    });
  }
  std::int64_t Gpus(const std::string& name) const {
    return host.Look([&](const engine::Engine& e, auto) {
      const auto& allocatable = e.store().node(e.store().FindNode(name)).object.allocatable;
      const auto it = allocatable.find(kGpu);
      return it == allocatable.end() ? 0 : it->second / 1000;
    });
  }

  FakeApiServer server;
  NoApi api;
  Metrics metrics{ThisBuild()};
  Logger logger{LogFormat::kText, 0, [](std::string_view) {}};
  DecisionLog decisions{{}};
  HostDriver host{{}, {}, api, metrics, logger, decisions};
  std::unique_ptr<kube::RestClient> client = ClientOf(server);
  std::atomic<int> synced = 0;
  DraInformers informers{*client, host, metrics, logger, [this] { ++synced; }};
};

TEST_CASE("DRA is not served, or not to us: nothing to wait for", "[host]") {
  for (const int status : {404, 403, 500}) {
    INFO(status);
    Bed bed(status);
    bed.informers.Start();
    CHECK(Eventually([&] { return bed.synced == 1; }));
    bed.See("n", 0);
    CHECK(bed.Gpus("n") == 0);
    CHECK(bed.informers.StalestMs() == 0);
  }
}

TEST_CASE("published devices, less the claimed ones", "[host]") {
  const bool node_first = GENERATE(true, false);
  INFO(node_first);
  Bed bed(200);
  if (node_first) bed.See("n", 0);
  bed.informers.Start();
  CHECK(Eventually([&] { return bed.synced == 1; }));
  if (!node_first) bed.See("n", 0);
  CHECK(bed.Gpus("n") == 2);
  bed.See("n", 0);  // its heartbeat
  CHECK(bed.Gpus("n") == 2);
  bed.See("n", 8);  // a device plugin has come
  CHECK(bed.Gpus("n") == 8);
  bed.See("n", 0);
  CHECK(bed.Gpus("n") == 2);
  bed.See("other", 0);
  CHECK(bed.Gpus("other") == 0);
  CHECK(Eventually([&] { return bed.informers.StalestMs() > 0; }));
}

}  // namespace
}  // namespace berth::server
