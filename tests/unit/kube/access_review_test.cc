#include "kube/access_review.h"

#include <nlohmann/json.hpp>

#include "tests/support/catch.h"

namespace berth::kube {
namespace {

using nlohmann::json;

Response Answer(std::string body, int status = 201) {
  return {.status = status, .body = std::move(body), .retry_after = {}};
}

TEST_CASE("a token review asks about one token", "[access]") {
  const Request request = TokenReviewRequest("abc");
  CHECK(request.method == "POST");
  CHECK(request.path == "/apis/authentication.k8s.io/v1/tokenreviews");
  CHECK(json::parse(request.body) == json::parse(R"({"apiVersion":"authentication.k8s.io/v1",
      "kind":"TokenReview","spec":{"token":"abc"}})"));
}

TEST_CASE("a token is somebody's or nobody's", "[access]") {
  const auto user = DecodeTokenReview(Answer(R"({"status":{"authenticated":true,"user":{
      "username":"jane","uid":"42","groups":["a","b"],"extra":{"k":["v","w"]}}}})"));
  REQUIRE(user);
  REQUIRE(*user);
  CHECK((*user)->name == "jane");
  CHECK((*user)->uid == "42");
  CHECK((*user)->groups == std::vector<std::string>{"a", "b"});
  CHECK((*user)->extra.at("k") == std::vector<std::string>{"v", "w"});

  for (const char* body : {R"({"status":{"authenticated":false}})", R"({"status":{}})",
                           R"({"status":{"error":"token has expired","user":{}}})"}) {
    const auto nobody = DecodeTokenReview(Answer(body));
    REQUIRE(nobody);
    CHECK_FALSE(*nobody);
  }
}

TEST_CASE("an access review carries the user as the token review gave it", "[access]") {
  const UserInfo user{.name = "jane", .uid = "42", .groups = {"a"}, .extra = {{"k", {"v"}}}};
  const Request path = SubjectAccessReviewRequest(user, {.path = "/metrics"});
  CHECK(path.path == "/apis/authorization.k8s.io/v1/subjectaccessreviews");
  CHECK(json::parse(path.body)["spec"] ==
        json::parse(R"({"user":"jane","uid":"42","groups":["a"],"extra":{"k":["v"]},
            "nonResourceAttributes":{"path":"/metrics","verb":"get"}})"));

  const auto attributes = [](const AccessAttributes& wanted) {
    const Request request = SubjectAccessReviewRequest({.name = "jane"}, wanted);
    return json::parse(request.body)["spec"];
  };
  CHECK(attributes({.resource = "pods", .ns = "team-a", .name = "p"}) ==
        json::parse(R"({"user":"jane","resourceAttributes":{"verb":"get","version":"v1",
            "resource":"pods","namespace":"team-a","name":"p"}})"));
  CHECK(attributes({.verb = "list", .resource = "pods"}) ==
        json::parse(R"({"user":"jane","resourceAttributes":{"verb":"list","version":"v1",
            "resource":"pods"}})"));
}

TEST_CASE("only a plain yes is one", "[access]") {
  CHECK(*DecodeSubjectAccessReview(Answer(R"({"status":{"allowed":true}})")));
  for (const char* body : {R"({"status":{"allowed":false}})", R"({"status":{"reason":"x"}})",
                           R"({"status":{"allowed":true,"denied":true}})"}) {
    const auto may = DecodeSubjectAccessReview(Answer(body));
    REQUIRE(may);
    CHECK_FALSE(*may);
  }
}

TEST_CASE("what is no answer is an error, never a yes or a no", "[access]") {
  for (const auto& response :
       {Answer(R"({"kind":"Status","message":"no right to create tokenreviews"})", 403),
        Answer(R"({"status":{"authenticated":true,"allowed":true}})", 500), Answer(""),
        Answer("[]"), Answer("{}"), Answer(R"({"status":3})"), Answer("null"),
        Answer(R"({"status":{"authenticated":"true","allowed":"true"}})"),
        Answer(R"({"status":{"authenticated":1,"allowed":1}})")}) {
    CHECK_FALSE(DecodeTokenReview(response));
    CHECK_FALSE(DecodeSubjectAccessReview(response));
  }
  CHECK_FALSE(DecodeTokenReview(Answer(R"({"status":{"authenticated":true}})")));
  CHECK_FALSE(DecodeTokenReview(Answer(R"({"status":{"authenticated":true,"user":{}}})")));
  CHECK(DecodeTokenReview(Answer(R"({"kind":"Status","message":"no right"})", 403)).error() ==
        "HTTP 403: no right");
}

}  // namespace
}  // namespace berth::kube
