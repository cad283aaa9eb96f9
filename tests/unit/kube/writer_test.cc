#include "kube/writer.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/support/catch.h"
#include "tests/support/fake_api_server.h"
#include "tests/support/fake_timing.h"

namespace berth::kube {
namespace {

using nlohmann::json;
using testing::FakeApiServer;
using testing::FakeEnd;
using testing::FakeReply;
using testing::FakeTiming;

const PodRef kPod{.ns = "team", .name = "p0", .uid = "u-1"};

/// A writer on a fake server, in virtual time.
struct Bed {
  FakeApiServer server;
  FakeTiming timing;
  std::unique_ptr<RestClient> client;
  std::unique_ptr<Writer> writer;
  WriteOptions options;

  explicit Bed(std::vector<FakeReply> script) {
    ClientConfig config;
    config.server = server.Url();
    client = *RestClient::Create(config);
    writer = std::make_unique<Writer>(*client, "berth-0", timing.Get());
    server.Script(std::move(script));
  }
  WriteResult Bind() {
    return writer->SendBinding(BindRequest(kPod, "n1", {{"berth.dev/plan", "x"}}), kPod, "n1",
                               options);
  }
  WriteOutcome Send(const std::optional<Request>& request) {
    return writer->Send(request, {}).outcome;
  }
  json Body(std::size_t i) { return json::parse(server.Requests().at(i).body); }
};

FakeReply PodOn(const std::string& uid, const std::string& node) {
  return FakeReply::Json(R"({"metadata":{"uid":")" + uid + R"("},"spec":{"nodeName":")" + node +
                         R"("}})");
}
FakeReply Conflict() { return FakeReply::Status(409, "Conflict", "already assigned"); }

TEST_CASE("a binding names the pod exactly", "[kube][writer]") {
  Bed bed({FakeReply::Json("{}", 201)});
  CHECK(bed.Bind().outcome == WriteOutcome::kDone);
  const auto request = bed.server.Requests().at(0);
  CHECK(request.method == "POST");
  CHECK(request.path == "/api/v1/namespaces/team/pods/p0/binding");
  CHECK(bed.Body(0) == json::parse(R"({"apiVersion":"v1","kind":"Binding","metadata":{"name":"p0",
    "namespace":"team","uid":"u-1","annotations":{"berth.dev/plan":"x"}},
    "target":{"apiVersion":"v1","kind":"Node","name":"n1"}})"));
}

TEST_CASE("a conflict is settled by reading the pod", "[kube][writer]") {
  {
    Bed bed({Conflict(), PodOn("u-1", "n1")});
    CHECK(bed.Bind().outcome == WriteOutcome::kDone);
  }
  {
    Bed bed({Conflict(), PodOn("u-1", "n2")});
    const WriteResult result = bed.Bind();
    CHECK(result.outcome == WriteOutcome::kConflict);
    CHECK(result.message == "already assigned");
  }
  {
    Bed bed({Conflict(), PodOn("u-2", "n1")});
    CHECK(bed.Bind().outcome == WriteOutcome::kConflict);
  }
  {
    Bed bed({Conflict(), FakeReply::Status(404, "NotFound")});
    CHECK(bed.Bind().outcome == WriteOutcome::kNotFound);
  }
  {
    Bed bed({Conflict(), FakeReply::Status(403, "Forbidden")});
    CHECK(bed.Bind().outcome == WriteOutcome::kUnknown);
  }
}

TEST_CASE("answers that are final are not tried again", "[kube][writer]") {
  Bed bed({FakeReply::Status(404, "NotFound"), FakeReply::Status(403, "Forbidden", "no")});
  CHECK(bed.Bind().outcome == WriteOutcome::kNotFound);
  const WriteResult refused = bed.Bind();
  CHECK(refused.outcome == WriteOutcome::kRefused);
  CHECK(refused.status == 403);
  CHECK(refused.message == "no");
  CHECK(bed.server.Requests().size() == 2);
}

TEST_CASE("throttling is waited out as the server says", "[kube][writer]") {
  Bed bed({FakeReply::Status(429, "TooManyRequests").With("Retry-After", "2"),
           FakeReply::Status(503, "ServiceUnavailable"), FakeReply::Json("{}", 201)});
  CHECK(bed.Bind().outcome == WriteOutcome::kDone);
  CHECK(bed.timing.Waits() == std::vector{Duration(2'000), Duration(200)});
}

TEST_CASE("a wait beyond the deadline is not begun", "[kube][writer]") {
  Bed bed({FakeReply::Status(429, "TooManyRequests").With("Retry-After", "60")});
  const WriteResult result = bed.Bind();
  CHECK(result.outcome == WriteOutcome::kRefused);
  CHECK(result.status == 429);
  CHECK(bed.timing.Waits().empty());
}

TEST_CASE("no attempt begins once writes are not permitted any more", "[kube][writer]") {
  Bed bed({FakeReply::Status(503, "ServiceUnavailable"), FakeReply::Json("{}", 201)});
  int asked = 0;
  SECTION("from the first") {
    bed.options.permitted = [&] { return ++asked > 1; };
    CHECK(bed.Bind().outcome == WriteOutcome::kRefused);
    CHECK(bed.server.Requests().empty());
  }
  SECTION("between two: what the first did is not known") {
    bed.options.permitted = [&] { return ++asked == 1; };
    CHECK(bed.Bind().outcome == WriteOutcome::kUnknown);
    CHECK(bed.server.Requests().size() == 1);
  }
}

// A leader that was stopped in between posted a Binding when it woke up, its term long over.
TEST_CASE("who is frozen after it was permitted sends nothing late", "[kube][writer][bug]") {
  Bed bed({FakeReply::Json("{}", 201)});
  bed.options.timeout = std::chrono::milliseconds(20);
  bed.options.permitted = [] {
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(30);
    while (std::chrono::steady_clock::now() < until) std::this_thread::yield();
    return true;
  };
  CHECK(bed.Bind().outcome == WriteOutcome::kRefused);
  CHECK(bed.server.Requests().empty());
}

TEST_CASE("tries have a bound", "[kube][writer]") {
  std::vector<FakeReply> script;
  for (int i = 0; i < 20; ++i) script.push_back(FakeReply::Status(429, "TooManyRequests"));
  Bed bed(std::move(script));
  bed.options.timeout = std::chrono::hours(1);
  CHECK(bed.Bind().outcome == WriteOutcome::kRefused);
  CHECK(bed.server.Requests().size() == 10);
}

TEST_CASE("a reset after the write is tried again and found bound", "[kube][writer]") {
  Bed bed({FakeReply::Nothing(FakeEnd::kReset), Conflict(), PodOn("u-1", "n1")});
  CHECK(bed.Bind().outcome == WriteOutcome::kDone);
}

TEST_CASE("a binding that curl repeats on a dead connection is found bound", "[kube][writer]") {
  Bed bed({PodOn("u-1", ""), FakeReply::Nothing(FakeEnd::kClose), Conflict(), PodOn("u-1", "n1")});
  bed.Send(GetPodRequest("team", "p0"));
  CHECK(bed.Bind().outcome == WriteOutcome::kDone);
  CHECK(bed.timing.Waits().empty());  // Not our own retry.
  CHECK(bed.server.Requests().size() == 4);
}

TEST_CASE("what may have been done is unknown, what was never sent is refused", "[kube][writer]") {
  {
    Bed bed({FakeReply::Nothing(FakeEnd::kHold)});
    bed.options.timeout = Duration(60);
    bed.timing.SetRandom(0.9);
    CHECK(bed.Bind().outcome == WriteOutcome::kUnknown);
  }
  {
    Bed bed({FakeReply::Nothing(FakeEnd::kReset), FakeReply::Status(403, "Forbidden")});
    CHECK(bed.Bind().outcome == WriteOutcome::kUnknown);
  }
  {
    Bed bed({FakeReply::Status(500, "InternalError")});
    bed.options.timeout = Duration(90);
    CHECK(bed.Bind().outcome == WriteOutcome::kUnknown);
  }
  {
    std::string gone;
    { gone = FakeApiServer().Url(); }
    FakeTiming timing;
    ClientConfig config;
    config.server = gone;
    const auto client = *RestClient::Create(config);
    Writer writer(*client, "berth-0", timing.Get());
    const WriteResult result = writer.Send(BindRequest(kPod, "n1", {}), {});
    CHECK(result.outcome == WriteOutcome::kRefused);
    CHECK(result.status == 0);
  }
  {
    Bed bed({});
    std::stop_source stop;
    stop.request_stop();
    bed.options.stop = stop.get_token();
    CHECK(bed.Bind().outcome == WriteOutcome::kRefused);
    CHECK(bed.server.Requests().empty());
  }
}

TEST_CASE("nomination is a merge patch of the status", "[kube][writer]") {
  Bed bed({FakeReply::Json("{}"), FakeReply::Json("{}")});
  CHECK(bed.Send(NominateRequest(kPod, "n1", {})) == WriteOutcome::kDone);
  CHECK(bed.Send(NominateRequest(kPod, "", {})) == WriteOutcome::kDone);
  const auto request = bed.server.Requests().at(0);
  CHECK(request.method == "PATCH");
  CHECK(request.path == "/api/v1/namespaces/team/pods/p0/status");
  CHECK(request.headers.at("content-type") == "application/merge-patch+json");
  CHECK(bed.Body(0) ==
        json::parse(R"({"metadata":{"uid":"u-1"},"status":{"nominatedNodeName":"n1"}})"));
  CHECK(bed.Body(1)["status"]["nominatedNodeName"].is_null());
}

TEST_CASE("the server is not asked to look for unknown fields in our patches", "[kube][writer]") {
  Bed bed({FakeReply::Json("{}"), FakeReply::Json("{}")});
  CHECK(bed.Send(NominateRequest(kPod, "n1", {})) == WriteOutcome::kDone);
  CHECK(bed.Send(RemoveGateRequest(kPod, "g")) == WriteOutcome::kDone);
  for (const auto& request : bed.server.Requests()) {
    CHECK(request.query == std::map<std::string, std::string>{{"fieldValidation", "Ignore"}});
  }
}

TEST_CASE("a patch for another pod of that name is a conflict", "[kube][writer]") {
  const auto other = [] {
    return FakeReply::Status(422, "Invalid", "metadata.uid: Invalid value: field is immutable");
  };
  Bed bed({other(), other(), FakeReply::Status(422, "Invalid", "spec.x: no")});
  CHECK(bed.Send(NominateRequest(kPod, "n1", {})) == WriteOutcome::kConflict);
  CHECK(bed.Send(RemoveGateRequest(kPod, "g")) == WriteOutcome::kConflict);
  CHECK(bed.Send(RemoveGateRequest(kPod, "g")) == WriteOutcome::kRefused);
}

TEST_CASE("a nomination carries annotations in the same write", "[kube][writer]") {
  Bed bed({FakeReply::Json("{}")});
  bed.Send(NominateRequest(kPod, "n1", {{"a", "1"}, {"b", std::nullopt}}));
  CHECK(bed.server.Requests().at(0).path == "/api/v1/namespaces/team/pods/p0/status");
  CHECK(bed.Body(0) == json::parse(R"({"metadata":{"uid":"u-1","annotations":{"a":"1","b":null}},
    "status":{"nominatedNodeName":"n1"}})"));
}

TEST_CASE("one gate is removed by name", "[kube][writer]") {
  Bed bed({FakeReply::Json("{}")});
  bed.Send(RemoveGateRequest(kPod, "berth.dev/admission"));
  const auto request = bed.server.Requests().at(0);
  CHECK(request.path == "/api/v1/namespaces/team/pods/p0");
  CHECK(request.headers.at("content-type") == "application/strategic-merge-patch+json");
  CHECK(bed.Body(0) == json::parse(R"({"metadata":{"uid":"u-1"},
    "spec":{"schedulingGates":[{"$patch":"delete","name":"berth.dev/admission"}]}})"));
}

TEST_CASE("a Job is suspended with a label, and resumed without it, as it was read",
          "[kube][writer]") {
  const JobRef job{.ns = "team", .name = "j", .uid = "u-7", .resource_version = "12"};
  Bed bed({FakeReply::Json("{}"), FakeReply::Json("{}"), FakeReply::Status(409, "Conflict", "x")});
  CHECK(bed.Send(SuspendJobRequest(job, "berth.dev/suspended", true)) == WriteOutcome::kDone);
  const auto request = bed.server.Requests().at(0);
  CHECK(request.method == "PATCH");
  CHECK(request.path == "/apis/batch/v1/namespaces/team/jobs/j");
  CHECK(request.headers.at("content-type") == "application/merge-patch+json");
  CHECK(bed.Body(0) == json::parse(R"({"metadata":{"uid":"u-7","resourceVersion":"12",
    "labels":{"berth.dev/suspended":"true"}},"spec":{"suspend":true}})"));
  CHECK(bed.Send(SuspendJobRequest(job, "berth.dev/suspended", false)) == WriteOutcome::kDone);
  CHECK(bed.Body(1) == json::parse(R"({"metadata":{"uid":"u-7","resourceVersion":"12",
    "labels":{"berth.dev/suspended":null}},"spec":{"suspend":false}})"));
  CHECK(bed.Send(SuspendJobRequest(job, "berth.dev/suspended", true)) == WriteOutcome::kConflict);
}

TEST_CASE("an object that pods need is looked for by its name", "[kube][writer]") {
  const NeededObject volume{.kind = NeededKind::kVolumeClaim, .name = "data"};
  const NeededObject devices{.kind = NeededKind::kDeviceClaimTemplate, .name = "gpus"};
  Bed bed({FakeReply::Json("{}"), FakeReply::Json("{}")});
  CHECK(bed.Send(GetNeededRequest("team", volume)) == WriteOutcome::kDone);
  CHECK(bed.Send(GetNeededRequest("team", devices)) == WriteOutcome::kDone);
  const auto requests = bed.server.Requests();
  CHECK(requests.at(0).path == "/api/v1/namespaces/team/persistentvolumeclaims/data");
  CHECK(requests.at(0).headers.at("accept") ==
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1");
  CHECK(requests.at(1).path ==
        "/apis/resource.k8s.io/v1/namespaces/team/resourceclaimtemplates/gpus");
}

TEST_CASE("Jobs are read by name, or those with a label", "[kube][writer]") {
  Bed bed({FakeReply::Json("{}"), FakeReply::Json("{}"), FakeReply::Json("{}")});
  CHECK(bed.Send(GetJobRequest(JobKind::kJob, "team", "j")) == WriteOutcome::kDone);
  CHECK(bed.server.Requests().at(0).path == "/apis/batch/v1/namespaces/team/jobs/j");
  CHECK(bed.Send(ListJobsRequest(JobKind::kJob, "berth.dev/suspended", "")) == WriteOutcome::kDone);
  const auto list = bed.server.Requests().at(1);
  CHECK(list.path == "/apis/batch/v1/jobs");
  CHECK(list.query == std::map<std::string, std::string>{{"labelSelector", "berth.dev/suspended"},
                                                         {"limit", "10"}});
  CHECK(list.headers.at("accept") ==
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1");
  CHECK(bed.Send(ListJobsRequest(JobKind::kJob, "berth.dev/suspended", "x")) ==
        WriteOutcome::kDone);
  CHECK(bed.server.Requests().at(2).query.at("continue") == "x");
  CHECK(bed.Send(GetJobRequest(JobKind::kJob, "..", "j")) == WriteOutcome::kRefused);
}

TEST_CASE("JobSets are read and suspended as Jobs are", "[kube][writer]") {
  Bed bed({FakeReply::Json("{}"), FakeReply::Json("{}"), FakeReply::Json("{}")});
  const JobRef set{
      .kind = JobKind::kJobSet, .ns = "team", .name = "s", .uid = "u-8", .resource_version = "3"};
  CHECK(bed.Send(GetJobRequest(set.kind, "team", "s")) == WriteOutcome::kDone);
  CHECK(bed.Send(ListJobsRequest(set.kind, "berth.dev/suspended", "")) == WriteOutcome::kDone);
  CHECK(bed.Send(SuspendJobRequest(set, "berth.dev/suspended", true)) == WriteOutcome::kDone);
  const auto requests = bed.server.Requests();
  const std::string path = "/apis/jobset.x-k8s.io/v1alpha2";
  CHECK(requests.at(0).path == path + "/namespaces/team/jobsets/s");
  CHECK(requests.at(1).path == path + "/jobsets");
  CHECK(requests.at(2).path == path + "/namespaces/team/jobsets/s");
  CHECK(bed.Body(2)["spec"] == json::parse(R"({"suspend": true})"));
}

TEST_CASE("the Jobs of a JobSet are read by its label", "[kube][writer]") {
  Bed bed({FakeReply::Json("{}"), FakeReply::Json("{}")});
  CHECK(bed.Send(JobsOfSetRequest("team", "s", "")) == WriteOutcome::kDone);
  const auto request = bed.server.Requests().at(0);
  CHECK(request.path == "/apis/batch/v1/namespaces/team/jobs");
  CHECK(request.query ==
        std::map<std::string, std::string>{{"labelSelector", "jobset.sigs.k8s.io/jobset-name=s"},
                                           {"limit", "20"}});
  CHECK(bed.Send(JobsOfSetRequest("team", "s", "x")) == WriteOutcome::kDone);
  CHECK(bed.server.Requests().at(1).query.at("continue") == "x");
  CHECK(bed.Send(JobsOfSetRequest("team", "a/b", "")) == WriteOutcome::kRefused);
}

TEST_CASE("names from outside cannot leave their path", "[kube][writer]") {
  Bed bed({FakeReply::Json("{}")});
  for (const char* name : {"", ".", "..", "a/b"}) {
    CHECK(bed.Send(GetPodRequest("team", name)) == WriteOutcome::kRefused);
    CHECK(bed.Send(BindRequest({name, "p", "u"}, "n", {})) == WriteOutcome::kRefused);
  }
  CHECK(bed.server.Requests().empty());
  CHECK(bed.Send(GetPodRequest("team", "a?b")) == WriteOutcome::kDone);
  CHECK(bed.server.Requests().at(0).path == "/api/v1/namespaces/team/pods/a%3Fb");
}

TEST_CASE("events", "[kube][writer]") {
  Bed bed(
      {FakeReply::Json("{}", 201), FakeReply::Status(409, "AlreadyExists"), FakeReply::Json("{}")});
  EventRecord event{.name = "p0.17",
                    .regarding = {.ns = "team", .name = "p0", .uid = "u-1", .resource_version = {}},
                    .warning = true,
                    .action = "Plan",
                    .reason = "Fragmented",
                    .note = std::string(1'023, 'x') + "é",
                    .time = MicroTime(std::chrono::microseconds(1'500'000'000'000'001))};
  CHECK(bed.writer->CreateEvent(event, {}).outcome == WriteOutcome::kDone);
  CHECK(bed.writer->CreateEvent(event, {}).outcome == WriteOutcome::kDone);
  CHECK(bed.writer->PatchEvent(event, 3, event.time, {}).outcome == WriteOutcome::kDone);
  const json body = bed.Body(0);
  CHECK(bed.server.Requests().at(0).path == "/apis/events.k8s.io/v1/namespaces/team/events");
  CHECK(body["eventTime"] == "2017-07-14T02:40:00.000001Z");
  CHECK(body["note"] == std::string(1'023, 'x'));
  CHECK(body["type"] == "Warning");
  CHECK(body["reportingController"] == "berth.dev/berth");
  CHECK(body["reportingInstance"] == "berth-0");
  CHECK(body["regarding"]["namespace"] == "team");
  CHECK_FALSE(body["regarding"].contains("resourceVersion"));
  CHECK(bed.server.Requests().at(2).path == "/apis/events.k8s.io/v1/namespaces/team/events/p0.17");
  CHECK(bed.Body(2) ==
        json::parse(R"({"series":{"count":3,"lastObservedTime":"2017-07-14T02:40:00.000001Z"}})"));
}

TEST_CASE("an event about a node lives in the default namespace, with bad bytes dropped",
          "[kube][writer]") {
  Bed bed({FakeReply::Json("{}", 201)});
  EventRecord event{
      .name = "n1.1",
      .regarding = {.kind = "Node", .ns = {}, .name = "n1", .uid = "n1", .resource_version = {}},
      .warning = false,
      .action = "Plan",
      .reason = "R",
      .note =
          "a\xff"
          "b",
      .time = {}};
  CHECK(bed.writer->CreateEvent(event, {}).outcome == WriteOutcome::kDone);
  CHECK(bed.server.Requests().at(0).path == "/apis/events.k8s.io/v1/namespaces/default/events");
  CHECK(bed.Body(0)["note"] == "ab");
  CHECK(bed.Body(0)["eventTime"] == "1970-01-01T00:00:00.000000Z");
}

TEST_CASE("UTF-8 is cut between characters", "[kube][writer]") {
  CHECK(TruncateUtf8("abc", 3) == "abc");
  CHECK(TruncateUtf8("aé", 2) == "a");
  CHECK(TruncateUtf8("a\xF0\x9F\x98\x80", 4) == "a");
  CHECK(TruncateUtf8("\x80\x80\x80", 2).empty());
}

}  // namespace
}  // namespace berth::kube
