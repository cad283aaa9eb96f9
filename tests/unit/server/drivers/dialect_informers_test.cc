// Other projects' objects, whether their APIs are served, refuse, come late or go.
#include "server/drivers/dialect_informers.h"

#include <atomic>

#include "server/version.h"
#include "tests/support/catch.h"
#include "tests/support/fake_api_server.h"
#include "tests/support/no_api.h"
#include "tests/support/raw_client.h"

namespace berth::server {
namespace {

using std::chrono::seconds;
using test::Eventually;
using testing::FakeApiServer;
using testing::FakeReply;
using testing::FakeRequest;

constexpr const char* kApi = "/apis/scheduling.volcano.sh/v1beta1";

/// An API server that serves Volcano's PodGroups, or not; a host that hears of them.
struct Bed {
  enum class Serves { kNothing, kPodGroups, kRefusal, kErrors };

  explicit Bed(Serves first) : serves(first) {
    server.Handle([this](const FakeRequest& request) { return Answer(request); });
    informers.Start();
  }

  FakeReply Answer(const FakeRequest& request) const {
    const Serves now = serves;
    if (now == Serves::kErrors) return FakeReply::Status(500, "InternalError");
    if (now == Serves::kNothing || !request.path.starts_with(kApi)) {
      return FakeReply::Status(404, "NotFound");
    }
    if (request.path == kApi) {
      return FakeReply::Json(R"({"kind":"APIResourceList","resources":[{"name":"podgroups"}]})");
    }
    if (now == Serves::kRefusal) return FakeReply::Status(403, "Forbidden");
    return FakeReply::Watch(
        {R"({"type":"ADDED","object":{"metadata":{"name":"g","namespace":"n","uid":"u",)"
         R"("resourceVersion":"1"},"spec":{"minMember":2}}})",
         R"({"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"2",)"
         R"("annotations":{"k8s.io/initial-events-end":"true"}}}})"});
  }
  std::size_t Objects() const {
    return host.Look(
        [](const engine::Engine& e, auto) { return e.store().dialect_objects().by_uid().size(); });
  }

  std::atomic<Serves> serves;
  FakeApiServer server;
  NoApi api;
  Metrics metrics{ThisBuild()};
  Logger logger{LogFormat::kText, 0, [](std::string_view) {}};
  DecisionLog decisions{{}};
  HostDriver host{{}, {}, api, metrics, logger, decisions};
  std::unique_ptr<kube::RestClient> client = ClientOf(server);
  std::atomic<int> synced = 0;
  std::atomic<std::size_t> objects_at_sync = 0;
  DialectInformers informers{*client,
                             host,
                             metrics,
                             logger,
                             [this] {
                               objects_at_sync = Objects();
                               ++synced;
                             },
                             std::chrono::milliseconds(20)};
};

TEST_CASE("no project is installed: nothing to wait for", "[host]") {
  Bed bed(Bed::Serves::kNothing);
  CHECK(Eventually([&] { return bed.synced == 1; }));
}

TEST_CASE("what is served at the start is known before anything is decided", "[host]") {
  Bed bed(Bed::Serves::kPodGroups);
  CHECK(Eventually([&] { return bed.synced == 1; }));
  CHECK(bed.objects_at_sync == 1);
}

TEST_CASE("a kind that refuses to be listed is not waited for", "[host]") {
  Bed bed(Bed::Serves::kRefusal);
  CHECK(Eventually([&] { return bed.synced == 1; }));
  CHECK(bed.Objects() == 0);
  CHECK(bed.informers.StalestMs() == 0);
}

TEST_CASE("an API server that does not say what it serves is asked again", "[host]") {
  Bed bed(Bed::Serves::kErrors);
  bed.server.WaitForRequests(20);  // several looks
  CHECK(bed.synced == 0);
  bed.serves = Bed::Serves::kPodGroups;
  CHECK(Eventually([&] { return bed.synced == 1; }));
  CHECK(bed.objects_at_sync == 1);
}

TEST_CASE("a kind that comes later is picked up, and one that goes takes its objects along",
          "[host]") {
  Bed bed(Bed::Serves::kNothing);
  CHECK(Eventually([&] { return bed.synced == 1; }));
  bed.serves = Bed::Serves::kPodGroups;
  CHECK(Eventually([&] { return bed.Objects() == 1; }));
  // Where it only fails to say so for a while, all stays as it is.
  const std::size_t asked = bed.server.Requests().size();
  bed.serves = Bed::Serves::kErrors;
  bed.server.WaitForRequests(asked + 20);
  CHECK(bed.Objects() == 1);
  CHECK(Eventually([&] { return bed.informers.StalestMs() > 0; }));
  bed.serves = Bed::Serves::kNothing;
  CHECK(Eventually([&] { return bed.Objects() == 0; }));
  CHECK(Eventually([&] { return bed.informers.StalestMs() == 0; }));
  bed.serves = Bed::Serves::kPodGroups;
  CHECK(Eventually([&] { return bed.Objects() == 1; }));
  CHECK(bed.synced == 1);
}

}  // namespace
}  // namespace berth::server
