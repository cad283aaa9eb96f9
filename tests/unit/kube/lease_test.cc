#include "kube/lease.h"

#include <nlohmann/json.hpp>

#include "tests/support/catch.h"

namespace berth::kube {
namespace {

using nlohmann::json;
using AnswerKind = LeaseAnswer::Kind;
using RequestKind = LeaseRequest::Kind;

constexpr auto kHeld = R"({"apiVersion":"coordination.k8s.io/v1","kind":"Lease",
  "metadata":{"name":"berth","namespace":"sys","resourceVersion":"17","labels":{"a":"b"}},
  "spec":{"holderIdentity":"pod-1","leaseDurationSeconds":15,"leaseTransitions":3,
          "acquireTime":"2026-11-21T08:00:00.000000Z","renewTime":"2026-11-21T08:26:00.123456Z",
          "strategy":"OldestEmulationVersion"}})";

LeaseRequest Asking(RequestKind kind) {
  LeaseRequest request{.kind = kind,
                       .record = {.holder = "pod-2",
                                  .duration_seconds = 15,
                                  .acquire_time = 1000,
                                  .renew_time = 2000,
                                  .transitions = 4},
                       .timeout = Duration(5000)};
  if (kind == RequestKind::kUpdate) request.base = *DecodeLease(kHeld);
  return request;
}

TEST_CASE("a Lease is read as client-go writes it", "[kube][lease]") {
  const auto lease = DecodeLease(kHeld);
  REQUIRE(lease);
  CHECK(lease->record.holder == "pod-1");
  CHECK(lease->record.duration_seconds == 15);
  CHECK(lease->record.transitions == 3);
  CHECK(lease->record.renew_time - lease->record.acquire_time == 26 * 60'000 + 123);
  CHECK(lease->resource_version == "17");
  // Released, and one that nobody ever held.
  CHECK(DecodeLease(R"({"metadata":{"resourceVersion":"1"},"spec":{"holderIdentity":"",
                        "leaseDurationSeconds":1}})"));
  CHECK(DecodeLease(R"({"metadata":{"resourceVersion":"1"}})")->record == LeaseRecord{});
}

TEST_CASE("nonsense in a Lease is an error that says where", "[kube][lease]") {
  const auto with = [](const char* spec) {
    return std::string(R"({"metadata":{"resourceVersion":"1"},"spec":)") + spec + "}";
  };
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "not a JSON object"},
      {"[]", "not a JSON object"},
      {"{}", "resourceVersion"},
      {R"({"metadata":7})", "resourceVersion"},
      {R"({"metadata":{"resourceVersion":""}})", "resourceVersion"},
      {with("3"), "spec: not an object"},
      {with(R"({"holderIdentity":7})"), "holderIdentity"},
      {with(R"({"holderIdentity":"x"})"), "leaseDurationSeconds"},
      {with(R"({"holderIdentity":"x","leaseDurationSeconds":0})"), "leaseDurationSeconds"},
      {with(R"({"holderIdentity":"x","leaseDurationSeconds":-1})"), "leaseDurationSeconds"},
      {with(R"({"holderIdentity":"x","leaseDurationSeconds":2147483647})"), "leaseDurationSeconds"},
      {with(R"({"holderIdentity":"x","leaseDurationSeconds":1e3})"), "leaseDurationSeconds"},
      {with(R"({"leaseDurationSeconds":99999999999})"), "leaseDurationSeconds"},
      {with(R"({"leaseTransitions":-1})"), "leaseTransitions"},
      {with(R"({"renewTime":"yesterday"})"), "renewTime"},
      {with(R"({"acquireTime":7})"), "acquireTime"},
      {with(("{\"holderIdentity\":\"" + std::string(2000, 'x') + "\"}").c_str()), "holderIdentity"},
      {std::string(kMaxLeaseBytes + 1, ' '), "64 KiB"},
      {std::string(60'000, '['), "not a JSON object"},
  };
  for (const auto& [text, where] : cases) {
    const auto lease = DecodeLease(text);
    REQUIRE_FALSE(lease);
    CHECK_THAT(lease.error(), Catch::Contains(where));
  }
}

TEST_CASE("the calls of an election", "[kube][lease]") {
  const auto get = LeaseCall(Asking(RequestKind::kGet), "sys", "berth");
  CHECK(get.method == "GET");
  CHECK(get.path == "/apis/coordination.k8s.io/v1/namespaces/sys/leases/berth");
  CHECK(get.timeout == Duration(5000));
  CHECK(get.body.empty());

  const auto create = LeaseCall(Asking(RequestKind::kCreate), "sys", "berth");
  CHECK(create.method == "POST");
  CHECK(create.path == "/apis/coordination.k8s.io/v1/namespaces/sys/leases");
  CHECK(json::parse(create.body) == json::parse(R"({"apiVersion":"coordination.k8s.io/v1",
    "kind":"Lease","metadata":{"name":"berth","namespace":"sys"},"spec":{"holderIdentity":"pod-2",
    "leaseDurationSeconds":15,"leaseTransitions":4,"acquireTime":"1970-01-01T00:00:01.000000Z",
    "renewTime":"1970-01-01T00:00:02.000000Z"}})"));

  const auto update = LeaseCall(Asking(RequestKind::kUpdate), "sys", "berth");
  CHECK(update.method == "PUT");
  CHECK(update.path == get.path);
  const auto body = json::parse(update.body);
  CHECK(body["metadata"]["resourceVersion"] == "17");
  CHECK(body["metadata"]["labels"]["a"] == "b");  // what others put there stays
  CHECK(body["spec"]["strategy"] == "OldestEmulationVersion");
  CHECK(body["spec"]["holderIdentity"] == "pod-2");
}

TEST_CASE("what the server's answers mean for an election", "[kube][lease]") {
  const auto answer = [](RequestKind kind, int status, std::string body = "{}") {
    return LeaseAnswerOf(Asking(kind),
                         Response{.status = status, .body = std::move(body), .retry_after = {}});
  };
  CHECK(answer(RequestKind::kGet, 200, kHeld).lease.record.holder == "pod-1");
  CHECK(answer(RequestKind::kCreate, 201, kHeld).kind == AnswerKind::kLease);
  CHECK(answer(RequestKind::kGet, 404).kind == AnswerKind::kNotFound);
  CHECK(answer(RequestKind::kUpdate, 404).kind == AnswerKind::kNotFound);
  CHECK(answer(RequestKind::kUpdate, 409).kind == AnswerKind::kConflict);
  CHECK(answer(RequestKind::kCreate, 409).kind == AnswerKind::kConflict);
  for (const int status : {400, 401, 403, 422, 429, 500, 503}) {
    CHECK(answer(RequestKind::kUpdate, status).kind == AnswerKind::kFailed);
  }
  // No namespace; a success without a Lease in it; no answer at all.
  CHECK_THAT(answer(RequestKind::kCreate, 404).error, Catch::StartsWith("HTTP 404"));
  CHECK_THAT(answer(RequestKind::kGet, 200).error, Catch::Contains("resourceVersion"));
  const auto lost = LeaseAnswerOf(
      Asking(RequestKind::kUpdate),
      std::unexpected(TransportError{
          .failure = TransportFailure::kTimeout, .maybe_sent = true, .message = "timed out"}));
  CHECK(lost.kind == AnswerKind::kFailed);
  CHECK(lost.error == "timed out");
}

}  // namespace
}  // namespace berth::kube
