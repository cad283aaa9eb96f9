// berth.dev/plan: what we write we read; what others write does no harm.
#include "cluster/plan_claim.h"

#include <string>
#include <vector>

#include "tests/support/catch.h"

namespace berth::cluster {
namespace {

TEST_CASE("a claim survives the annotation", "[unit][cluster]") {
  for (const PlanClaim& claim : {PlanClaim{"a-1", "n1", "q", 0}, PlanClaim{"a-1", "n1", "", 7},
                                 PlanClaim{"x", "ip-10-0-0-1.eu.internal", "research", 65535}}) {
    const auto back = DecodePlanClaim(EncodePlanClaim(claim));
    REQUIRE(back.has_value());
    CHECK(*back == claim);
  }
  CHECK(EncodePlanClaim({"a-1", "n1", "q", 2}) == "v1;plan=a-1;node=n1;queue=q;rank=2");
  for (const bool preemptible : {true, false}) {
    const PlanClaim claim{.plan = "a", .node = "n", .queue = "q", .preemptible = preemptible};
    CHECK(DecodePlanClaim(EncodePlanClaim(claim)) == claim);
  }
  CHECK(EncodePlanClaim({.plan = "a", .node = "n", .queue = "q", .preemptible = false}) ==
        "v1;plan=a;node=n;queue=q;rank=0;preemptible=false");
  const PlanClaim of_user{.plan = "a", .node = "n", .queue = "q", .user = "ann"};
  CHECK(EncodePlanClaim(of_user) == "v1;plan=a;node=n;queue=q;rank=0;user=ann");
  CHECK(DecodePlanClaim(EncodePlanClaim(of_user)) == of_user);
}

// What each release wrote, word for word. A line may go only with the release after the next one:
// pods that were bound under it live on, and a release reads its own format and the one before.
TEST_CASE("what releases wrote is read", "[unit][cluster]") {
  struct Written {
    const char* release;
    const char* text;
    PlanClaim claim;
  };
  const std::vector<Written> all = {
      {"0.1", "v1;plan=b1x-17;node=n1;queue=research;rank=3", {"b1x-17", "n1", "research", 3}},
      {"0.1, no queue", "v1;plan=b1x-17;node=n1;queue=;rank=0", {"b1x-17", "n1", "", 0}},
  };
  for (const Written& written : all) {
    INFO(written.release);
    const auto claim = DecodePlanClaim(written.text);
    REQUIRE(claim.has_value());
    CHECK(*claim == written.claim);
  }
}

TEST_CASE("what a whole-node pod was charged", "[unit][cluster]") {
  PlanClaim claim{"a-1", "n1", "q", 2, {{"amd.com/gpu", 1'000}, {"nvidia.com/gpu", 8'000}}};
  const std::string text = EncodePlanClaim(claim);
  CHECK(text == "v1;plan=a-1;node=n1;queue=q;rank=2;charge=amd.com/gpu:1000,nvidia.com/gpu:8000");
  CHECK(DecodePlanClaim(text) == claim);
  for (const char* wrong : {"gpu", "gpu:", ":1", "gpu:x", "gpu:-1", "gpu:1,", "gpu:1,,b:2",
                            "gpu:99999999999999999999", "gpu:70368744177664"}) {
    INFO(wrong);
    const bool read = DecodePlanClaim(std::string("v1;plan=a;node=n;charge=") + wrong).has_value();
    CHECK(read == (std::string_view(wrong) == "gpu:1,"));
  }
}

TEST_CASE("what was evicted before", "[unit][cluster]") {
  const PlanClaim claim{
      .plan = "a", .node = "n", .queue = "q", .evictions = 2, .since = 1'800'000'060'000};
  const std::string text = EncodePlanClaim(claim);
  CHECK(text == "v1;plan=a;node=n;queue=q;rank=0;evictions=2;since=1800000060000");
  CHECK(DecodePlanClaim(text) == claim);
  const auto evictions = [](const std::string& number) {
    const auto read = DecodePlanClaim("v1;plan=a;node=n;evictions=" + number);
    return read ? read->evictions : -1;
  };
  CHECK(evictions("-3") == 0);
  CHECK(evictions("2147483647") == 1'000'000);  // one more can still be added
  for (const char* wrong : {"", "x", "1.5", "2147483648"}) CHECK(evictions(wrong) == -1);
  CHECK_FALSE(DecodePlanClaim("v1;plan=a;node=n;evictions=1;since=soon").has_value());
}

TEST_CASE("a newer writer's extra fields are skipped", "[unit][cluster]") {
  const auto claim = DecodePlanClaim("v1;plan=a;node=n;devices=0,1;queue=q;rank=3;x=");
  REQUIRE(claim.has_value());
  CHECK(*claim == PlanClaim{"a", "n", "q", 3});
}

TEST_CASE("nonsense is no claim", "[unit][cluster]") {
  const std::vector<std::string> texts = {
      "",
      "v1",
      "v2;plan=a;node=n;queue=q;rank=0",
      "V1;plan=a;node=n",
      "plan=a;node=n",
      "v1;plan=a",
      "v1;node=n",
      "v1;plan=;node=n",
      "v1;plan=a;node=",
      "v1;plan=a;node=n;rank=",
      "v1;plan=a;node=n;rank=1x",
      "v1;plan=a;node=n;rank=99999999999",
      "v1;plan=a;node=n;rank=0x10",
      "v1;plan=a;;node=n",
      "v1;plan",
      ";v1;plan=a;node=n",
      std::string("v1;plan=a\0;nod=n", 16),
      "v1;plan=a;node=" + std::string(40'000, 'n'),
      std::string(100'000, ';'),
      "{\"plan\":\"a\",\"node\":\"n\"}",
  };
  for (const std::string& text : texts) {
    INFO(text.substr(0, 60));
    CHECK_FALSE(DecodePlanClaim(text).has_value());
  }
}

TEST_CASE("every prefix and every changed byte is read without harm", "[unit][cluster]") {
  const std::string text = EncodePlanClaim({"a-1", "n1", "q", 2});
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const auto claim = DecodePlanClaim(std::string_view(text).substr(0, i));
    if (claim) CHECK(claim->plan == "a-1");
  }
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (const char c : {'\0', ';', '=', '\xff', '-'}) {
      std::string changed = text;
      changed[i] = c;
      if (const auto claim = DecodePlanClaim(changed)) {
        CHECK_FALSE(claim->plan.empty());
        CHECK_FALSE(claim->node.empty());
      }
    }
  }
}

}  // namespace
}  // namespace berth::cluster
