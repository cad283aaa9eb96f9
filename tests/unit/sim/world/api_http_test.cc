// The model's HTTP face does what kube/requests.h asks for, and nothing that it does not know.
#include "sim/world/api_http.h"

#include "kube/api_status.h"
#include "kube/requests.h"
#include "sim/world/environment.h"
#include "tests/support/builders.h"
#include "tests/support/catch.h"

namespace berth::sim {
namespace {

using testing::MakePod;

struct HttpTest {
  Environment env{1, 1'000'000, 50};
  std::string unknown{};

  kube::PodRef Create(const testing::PodBuilder& pod) {
    const Reply reply = env.api.CreatePod(pod.Build());
    REQUIRE(reply.ok());
    const kube::ObjectMeta& meta = reply.pod->meta;
    return {.ns = meta.ns, .name = meta.name, .uid = meta.uid};
  }
  const kube::Pod& Pod(const kube::PodRef& ref) const { return *env.api.FindPod(ref.uid); }
  kube::Response Ask(const std::optional<kube::Request>& request) {
    REQUIRE(request.has_value());
    return Serve(env.api, *request, unknown);
  }
};

TEST_CASE_METHOD(HttpTest, "a Binding's body is carried out", "[unit][sim]") {
  const auto pod = Create(MakePod("p").Annotation("berth.dev/gang-size", "2"));
  CHECK(Ask(kube::BindRequest(pod, "n1", {{"berth.dev/plan", "\"v1\"\n"}})).status == 201);
  CHECK(Pod(pod).node_name == "n1");
  CHECK(Pod(pod).meta.annotations.at("berth.dev/plan") == "\"v1\"\n");
  CHECK(Pod(pod).meta.annotations.at("berth.dev/gang-size") == "2");
  const auto again = Ask(kube::BindRequest(pod, "n2", {}));
  CHECK(again.status == 409);
  CHECK_THAT(kube::ParseStatus(again.body, again.status).message, Catch::Contains("n1"));
  CHECK(unknown == "");
}

TEST_CASE_METHOD(HttpTest, "a nomination sets and removes", "[unit][sim]") {
  const auto pod = Create(MakePod("p").Annotation("berth.dev/queue", "x"));
  const kube::AnnotationPatch patch{{"berth.dev/plan", "v1"}, {"berth.dev/queue", std::nullopt}};
  CHECK(Ask(kube::NominateRequest(pod, "n1", patch)).status == 200);
  CHECK(Pod(pod).nominated_node == "n1");
  CHECK(Pod(pod).meta.annotations.at("berth.dev/plan") == "v1");
  CHECK_FALSE(Pod(pod).meta.annotations.contains("berth.dev/queue"));
  CHECK(Ask(kube::NominateRequest(pod, "", {})).status == 200);
  CHECK(Pod(pod).nominated_node.empty());
  CHECK(unknown == "");
}

TEST_CASE_METHOD(HttpTest, "a gate is removed by name", "[unit][sim]") {
  const auto pod = Create(MakePod("p").Gated().Gate("example.com/theirs"));
  CHECK(Ask(kube::RemoveGateRequest(pod, "berth.dev/admission")).status == 200);
  CHECK(Pod(pod).scheduling_gates == std::vector<std::string>{"example.com/theirs"});
  CHECK(unknown == "");
}

TEST_CASE_METHOD(HttpTest, "a pod is marked as disrupted, and deleted by its UID", "[unit][sim]") {
  auto pod = Create(MakePod("p"));
  REQUIRE(Ask(kube::BindRequest(pod, "n1", {})).status == 201);
  CHECK(Ask(kube::DisruptRequest(pod, {{"berth.dev/evicted-for", "x"}}, {})).status == 200);
  CHECK(Pod(pod).meta.annotations.at("berth.dev/evicted-for") == "x");
  auto other = pod;
  other.uid = "another";
  CHECK(Ask(kube::DeletePodRequest(other, /*dry_run=*/false)).status == 409);
  CHECK(Ask(kube::DeletePodRequest(pod, /*dry_run=*/true)).status == 200);
  CHECK_FALSE(Pod(pod).meta.deletion);
  CHECK(Ask(kube::DeletePodRequest(pod, /*dry_run=*/false)).status == 200);
  CHECK(Pod(pod).meta.deletion);
  CHECK(unknown == "");
}

TEST_CASE_METHOD(HttpTest, "another pod under that name is not touched", "[unit][sim]") {
  auto pod = Create(MakePod("p").Gated());
  const std::string uid = std::exchange(pod.uid, "another");
  CHECK(Ask(kube::BindRequest(pod, "n1", {})).status == 409);
  for (const auto& request : {kube::NominateRequest(pod, "n1", {}),
                              kube::RemoveGateRequest(pod, "berth.dev/admission")}) {
    const auto answer = Ask(request);
    CHECK(kube::IsOtherUid(answer.status, kube::ParseStatus(answer.body, 0).message));
  }
  CHECK(env.api.FindPod(uid)->nominated_node.empty());
  CHECK(env.api.FindPod(uid)->scheduling_gates.size() == 1);
}

TEST_CASE_METHOD(HttpTest, "a pod is read by name, escaped or not", "[unit][sim]") {
  Create(MakePod("p"));
  CHECK(Ask(kube::GetPodRequest("default", "p")).status == 200);
  CHECK(Ask(kube::GetPodRequest("default", "%p?")).status == 404);
  CHECK(unknown == "");
}

TEST_CASE_METHOD(HttpTest, "what the model does not know is said", "[unit][sim]") {
  const auto pod = Create(MakePod("p"));
  const auto told = [&](auto change) {
    auto request = *kube::NominateRequest(pod, "n1", {});
    change(request);
    unknown.clear();
    CHECK(Ask(request).status == 400);
    return unknown;
  };
  using Catch::Contains;
  using kube::Request;
  CHECK_THAT(told([](Request& r) { r.path = "/api/v1/nodes/n1"; }), Contains("path"));
  CHECK_THAT(told([](Request& r) { r.path += "/more"; }), Contains("path"));
  CHECK_THAT(told([](Request& r) { r.path = "/api/v1/namespaces/default/pods/%zz"; }),
             Contains("escape"));
  CHECK_THAT(told([](Request& r) { r.method = "PUT"; }), Contains("PUT"));
  CHECK_THAT(told([](Request& r) { r.content_type = "application/json-patch+json"; }),
             Contains("json-patch"));
  CHECK_THAT(told([](Request& r) { r.query.emplace_back("dryRun", "All"); }), Contains("query"));
  CHECK_THAT(told([](Request& r) { r.body = "{"; }), Contains("parse error"));
  CHECK_THAT(
      told([](Request& r) { r.body = R"({"metadata":{"uid":"u","labels":{}},"status":{}})"; }),
      Contains("patch.metadata.labels"));
  CHECK_THAT(told([](Request& r) { r.body = R"({"metadata":{"uid":"u"},"status":{}})"; }),
             Contains("nominatedNodeName"));
  CHECK(Pod(pod).nominated_node.empty());
}

}  // namespace
}  // namespace berth::sim
