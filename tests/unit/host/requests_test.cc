// Which request carries out an order, and what its answer means.
#include "host/requests.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "host/timeouts.h"
#include "tests/support/catch.h"

namespace berth::host {
namespace {

using kube::JobKind;
using kube::WriteOutcome;
using nlohmann::json;

const engine::PodRef kPod{.ns = "team", .name = "p0", .uid = "u-1"};
const FindObject kFind{.ns = "team",
                       .object = {.kind = kube::NeededKind::kVolumeClaim, .name = "data"}};

SuspendJob Suspend(JobKind kind, std::string name) {
  return {.job = {.kind = kind,
                  .ns = "team",
                  .name = std::move(name),
                  .uid = "u-7",
                  .resource_version = "12"}};
}

/// Method and path.
std::string Sent(const ApiOrder& order) {
  const auto request = RequestOf(order, {});
  return request ? request->method + " " + request->path : request.error().message;
}

json Body(const ApiOrder& order) { return json::parse(RequestOf(order, {})->body); }

TEST_CASE("each order has its request", "[unit][host]") {
  const std::string pod = "/api/v1/namespaces/team/pods/p0";
  const std::string jobs = "/apis/batch/v1/";
  CHECK(Sent(Nominate{.pod = kPod, .node = "n1"}) == "PATCH " + pod + "/status");
  CHECK(Sent(RemoveGate{.pod = kPod}) == "PATCH " + pod);
  CHECK(Sent(MarkVictim{.pod = kPod, .mark = "x"}) == "PATCH " + pod);
  CHECK(Sent(MarkVictim{.pod = kPod, .mark = "x", .sets_condition = true}) ==
        "PATCH " + pod + "/status");
  CHECK(Sent(Evict{.pod = kPod}) == "POST " + pod + "/eviction");
  CHECK(Sent(Evict{.pod = kPod, .by_delete = true}) == "DELETE " + pod);
  CHECK(Sent(ReadPod{.pod = kPod}) == "GET " + pod);
  CHECK(Sent(PostBinding{.pod = kPod, .node = "n1"}) == "POST " + pod + "/binding");
  CHECK(Sent(kFind) == "GET /api/v1/namespaces/team/persistentvolumeclaims/data");
  CHECK(Sent(ReadJobs{}) == "GET " + jobs + "jobs");
  CHECK(Sent(ReadJobs{.ns = "team", .name = "j"}) == "GET " + jobs + "namespaces/team/jobs/j");
  CHECK(Sent(ReadJobs{.ns = "team", .of_set = "s"}) == "GET " + jobs + "namespaces/team/jobs");
  CHECK(Sent(ReadJobs{.kind = JobKind::kJobSet}) == "GET /apis/jobset.x-k8s.io/v1alpha2/jobsets");
  CHECK(Sent(Suspend(JobKind::kJob, "j")) == "PATCH " + jobs + "namespaces/team/jobs/j");
}

TEST_CASE("orders are written in Berth's own names", "[unit][host]") {
  const json plan = {{"berth.dev/plan", "v1"}};
  CHECK(Body(Nominate{.pod = kPod, .annotation = "v1"})["metadata"]["annotations"] == plan);
  CHECK_FALSE(Body(Nominate{.pod = kPod})["metadata"].contains("annotations"));
  CHECK(Body(RemoveGate{.pod = kPod})["spec"]["schedulingGates"][0]["name"] ==
        "berth.dev/admission");
  CHECK(Body(MarkVictim{.pod = kPod, .mark = "x"})["metadata"]["annotations"] ==
        json{{"berth.dev/evicted-for", "x"}});
  CHECK(Body(MarkVictim{.pod = kPod})["metadata"]["annotations"] ==
        json{{"berth.dev/evicted-for", nullptr}});
  CHECK(Body(Suspend(JobKind::kJob, "j"))["metadata"]["labels"] ==
        json{{"berth.dev/suspended", "true"}});
  CHECK(RequestOf(ReadJobs{}, {})->query[0].second == "berth.dev/suspended");
  CHECK(Body(PostBinding{.pod = kPod, .annotations = {{"a", "b"}}})["metadata"]["annotations"] ==
        json{{"a", "b"}});
  for (const bool by_delete : {false, true}) {
    CHECK(RequestOf(Evict{.pod = kPod, .dry_run = true, .by_delete = by_delete}, {})
              ->body.find("dryRun") != std::string::npos);
  }
}

TEST_CASE("a Binding has as long as kube-scheduler waits", "[unit][host]") {
  CHECK(RequestOf(PostBinding{.pod = kPod}, {})->timeout == kBindTimeout);
  CHECK(RequestOf(Nominate{.pod = kPod}, {})->timeout == kWriteTimeout);
  CHECK(RequestOf(Suspend(JobKind::kJob, "j"), {})->timeout == kWriteTimeout);
  CHECK(RequestOf(ReadPod{.pod = kPod}, {})->timeout == kReadTimeout);
  CHECK(RequestOf(kFind, {})->timeout == kReadTimeout);
}

TEST_CASE("names that no object can have are not asked for", "[unit][host]") {
  const engine::PodRef bad{.ns = "team", .name = "..", .uid = "u"};
  for (const ApiOrder& order : std::vector<ApiOrder>{
           Nominate{.pod = bad}, RemoveGate{.pod = bad}, MarkVictim{.pod = bad}, Evict{.pod = bad},
           ReadPod{.pod = bad}, PostBinding{.pod = bad}, ReadJobs{.ns = "team", .name = "a/b"},
           ReadJobs{.ns = "team", .of_set = "a/b"}, Suspend(JobKind::kJob, "")}) {
    CHECK(RequestOf(order, {}).error().outcome == WriteOutcome::kRefused);
  }
  // The pod that names it waits for what will never be there.
  CHECK(RequestOf(FindObject{.ns = "team", .object = {.name = ".."}}, {}).error().outcome ==
        WriteOutcome::kNotFound);
}

TEST_CASE("requests about one object are made one after the other", "[unit][host]") {
  CHECK(KeyOf(Nominate{.pod = kPod}) == "u-1");
  CHECK(KeyOf(ReadPod{.pod = kPod}) == "u-1");
  const std::string set = KeyOf(ReadJobs{.kind = JobKind::kJobSet, .ns = "team", .name = "s"});
  CHECK(KeyOf(ReadJobs{.ns = "team", .of_set = "s"}) == set);
  CHECK(KeyOf(Suspend(JobKind::kJobSet, "s")) == set);
  CHECK(KeyOf(ReadJobs{}) == "/");
  CHECK(KeyOf(kFind) != KeyOf(FindObject{.ns = "other", .object = kFind.object}));
}

TEST_CASE("who is unknown or has not the right is forbidden", "[unit][host]") {
  const ApiOrder order = SuspendJob{};
  for (const int status : {0, 200, 401, 403, 404, 409, 422, 500}) {
    CHECK(OutcomeOf(order, {.status = status}).forbidden == (status == 401 || status == 403));
  }
}

TEST_CASE("an object that pods need is missing only if the answer names it", "[unit][host]") {
  const auto outcome = [](std::string message) {
    return ResultOf(
               kFind,
               {.outcome = WriteOutcome::kNotFound, .status = 404, .message = std::move(message)})
        .outcome;
  };
  CHECK(outcome(R"(persistentvolumeclaims "data" not found)") == WriteOutcome::kNotFound);
  CHECK(outcome("the server could not find the requested resource") == WriteOutcome::kRefused);
  CHECK(ResultOf(kFind, {.outcome = WriteOutcome::kDone, .status = 200}).outcome ==
        WriteOutcome::kDone);
}

TEST_CASE("what was read is decoded", "[unit][host]") {
  const auto read = [](const ApiOrder& order, const char* body) {
    return ResultOf(order, {.outcome = WriteOutcome::kDone, .status = 200, .body = body});
  };
  constexpr const char* kObject =
      R"({"metadata":{"name":"x","namespace":"team","uid":"u-1"},"spec":{"containers":[]}})";
  CHECK(read(ReadPod{.pod = kPod}, kObject).pod->meta.uid == "u-1");
  CHECK(read(ReadJobs{.ns = "team", .name = "x"}, kObject).jobs.jobs.at(0).meta.uid == "u-1");
  CHECK_FALSE(read(Nominate{.pod = kPod}, kObject).pod);
  const Result pod = read(ReadPod{.pod = kPod}, "{");
  CHECK(pod.outcome == WriteOutcome::kRefused);
  CHECK_FALSE(pod.message.empty());
  CHECK(read(ReadJobs{}, "{").outcome == WriteOutcome::kUnknown);
}

}  // namespace
}  // namespace berth::host
