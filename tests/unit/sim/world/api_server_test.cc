// The API server's rules that Berth relies on.
#include "sim/world/api_server.h"

#include "sim/world/environment.h"
#include "tests/support/builders.h"
#include "tests/support/catch.h"

namespace berth::sim {
namespace {

using testing::MakePod;

struct ApiTest {
  Environment env{1, 1'000'000, 50};
  ApiServer& api = env.api;

  engine::PodRef Create(const testing::PodBuilder& pod) {
    const Reply reply = api.CreatePod(pod.Build());
    REQUIRE(reply.ok());
    return {.ns = reply.pod->meta.ns, .name = reply.pod->meta.name, .uid = reply.pod->meta.uid};
  }
};

TEST_CASE_METHOD(ApiTest, "a Binding merges its annotations with the node's name", "[unit][sim]") {
  const auto pod = Create(MakePod("p").Nominated("n2"));
  const Reply reply = api.Bind(pod, "n1", {{"berth.dev/plan", "v1"}});
  REQUIRE(reply.ok());
  CHECK(reply.pod->node_name == "n1");
  CHECK(reply.pod->meta.annotations.at("berth.dev/plan") == "v1");
  CHECK(reply.pod->nominated_node.empty());
  CHECK(reply.pod->pod_scheduled->status);
  CHECK(reply.pod->pod_scheduled->since == env.now() / 1000 * 1000);
}

TEST_CASE_METHOD(ApiTest, "a pod of another server is shown as it is", "[unit][sim]") {
  kube::Pod pod = MakePod("p").Build();
  pod.meta.uid = "from-there";
  pod.meta.creation = 1'234;
  api.PutPod(pod);
  pod.nominated_node = "n1";
  api.PutPod(pod);
  const kube::Pod* shown = api.FindPod("from-there");
  REQUIRE(shown != nullptr);
  CHECK(shown->meta.creation == 1'234);
  CHECK(shown->nominated_node == "n1");
  CHECK(api.end(Kind::kPod) == 2);
}

TEST_CASE_METHOD(ApiTest, "a Binding is refused with 409", "[unit][sim]") {
  auto pod = Create(MakePod("p"));
  SECTION("of a bound pod, to the same node too") {
    api.Bind(pod, "n1", {});
    CHECK(api.Bind(pod, "n1", {}).status == 409);
    CHECK(api.Bind(pod, "n2", {}).status == 409);
  }
  SECTION("of a gated pod") {
    CHECK(api.Bind(Create(MakePod("g").Gated()), "n1", {}).status == 409);
  }
  SECTION("of another pod under that name") {
    pod.uid = "another";
    CHECK(api.Bind(pod, "n1", {}).status == 409);
  }
  CHECK(api.Bind({.ns = "default", .name = "nobody"}, "n1", {}).status == 404);
}

TEST_CASE_METHOD(ApiTest, "a bound pod is deleted with grace, an unbound one at once",
                 "[unit][sim]") {
  const auto bound = Create(MakePod("bound"));
  api.Bind(bound, "n1", {});
  const auto unbound = Create(MakePod("unbound"));
  CHECK(api.DeletePod(bound).ok());
  CHECK(api.DeletePod(unbound).ok());
  CHECK(api.FindPod(unbound.uid) == nullptr);
  REQUIRE(api.FindPod(bound.uid) != nullptr);
  CHECK(api.FindPod(bound.uid)->meta.deletion.has_value());
  CHECK(api.RemovePod(bound).ok());
  CHECK(api.RemovePod(bound).status == 404);
}

TEST_CASE_METHOD(ApiTest, "timestamps have whole seconds", "[unit][sim]") {
  env.timeline.At(env.now() + 1'234, [] {});
  env.timeline.Step();
  const auto pod = Create(MakePod("p"));
  CHECK(api.FindPod(pod.uid)->meta.creation == 1'001'000);
  api.Bind(pod, "n1", {});
  api.DeletePod(pod);
  CHECK(api.FindPod(pod.uid)->meta.deletion == 1'001'000);
}

TEST_CASE_METHOD(ApiTest, "a patch with another pod's UID changes an immutable field",
                 "[unit][sim]") {
  auto pod = Create(MakePod("p").Gated());
  pod.uid = "another";
  for (const Reply& reply : {api.Nominate(pod, "n1"), api.RemoveGate(pod, "berth.dev/admission"),
                             api.Patch(pod, [](kube::Pod&) { return true; })}) {
    CHECK(reply.status == 422);
    CHECK(kube::IsOtherUid(reply.status, reply.message));
  }
  pod.name = "nobody";
  CHECK(api.Nominate(pod, "n1").status == 404);
}

TEST_CASE_METHOD(ApiTest, "a name can be used again, under another UID", "[unit][sim]") {
  const auto first = Create(MakePod("p"));
  CHECK(api.CreatePod(MakePod("p").Build()).status == 409);
  api.DeletePod(first);
  const auto second = Create(MakePod("p"));
  CHECK(first.uid != second.uid);
  CHECK(api.Bind(first, "n1", {}).status == 409);
}

TEST_CASE_METHOD(ApiTest, "a patch that changes nothing makes no event", "[unit][sim]") {
  const auto pod = Create(MakePod("p"));
  api.Nominate(pod, "n1", {{"berth.dev/plan", "plan"}});
  const std::size_t before = api.end(Kind::kPod);
  CHECK(api.Nominate(pod, "n1", {{"berth.dev/plan", "plan"}}).ok());
  CHECK(api.end(Kind::kPod) == before);
  CHECK(api.Nominate(pod, "n1", {{"berth.dev/plan", "another plan"}}).ok());
  CHECK(api.end(Kind::kPod) == before + 1);
  api.Bind(pod, "n1", {});
  CHECK(api.Nominate(pod, "n2").status == 422);
}

}  // namespace
}  // namespace berth::sim
