// Both ends of a verb in bytes: what kube-scheduler sends is understood, and what it makes of an
// answer is checked.
#include "sim/world/verb_bytes.h"

#include <nlohmann/json.hpp>

#include "tests/support/builders.h"
#include "tests/support/catch.h"

namespace berth::sim {
namespace {

using testing::MakePod;

struct VerbTest {
  Environment env{1, 1'000'000, 50, Fidelity::kWire};
  VerbBytes bytes{env};
  const std::vector<std::string> offered{"n1", "odd \"node\" \xC3\xA9\n", "n3"};

  std::string Encoded(const server::FilterResult& result) const {
    std::string out;
    const std::vector<std::string_view> names(offered.begin(), offered.end());
    server::EncodeFilterResult(names, result, out);
    return out;
  }
};

TEST_CASE_METHOD(VerbTest, "a filter answer is read as it was meant", "[unit][sim]") {
  const auto some = bytes.ReadFilter(
      Encoded({.kept = {offered[2], offered[1]}, .reason = "berth: \"why\"", .error = {}}),
      offered);
  REQUIRE(some.has_value());
  CHECK(some->kept == std::vector<std::string>{offered[2], offered[1]});
  CHECK(some->reason == "berth: \"why\"");
  const auto none = bytes.ReadFilter(
      Encoded({.kept = {}, .refusal = server::Refusal::kFailed, .reason = "no", .error = {}}),
      offered);
  REQUIRE(none.has_value());
  CHECK(none->kept.empty());
  CHECK(none->reason == "no");
  CHECK(env.garbled == "");
}

TEST_CASE_METHOD(VerbTest, "a filter answer partitions its offer", "[unit][sim]") {
  const auto spoilt = [this](auto spoil) {
    auto answer = nlohmann::json::parse(Encoded(
        {.kept = {offered[0]}, .refusal = server::Refusal::kFailed, .reason = "no", .error = {}}));
    spoil(answer);
    env.garbled.clear();
    static_cast<void>(bytes.ReadFilter(answer.dump(), offered));
    return env.garbled;
  };
  using Catch::Contains;
  CHECK(spoilt([](auto&) {}) == "");
  CHECK_THAT(spoilt([](auto& a) { a["FailedNodes"].erase("n3"); }), Contains("I5"));
  CHECK_THAT(spoilt([](auto& a) { a["FailedNodes"]["n1"] = "no"; }), Contains("I5"));
  CHECK_THAT(spoilt([](auto& a) { a["FailedNodes"]["n9"] = "no"; }), Contains("I5"));
  CHECK_THAT(spoilt([](auto& a) { a["FailedAndUnresolvableNodes"]["n3"] = "other"; }),
             Contains("two reasons"));
  CHECK_THAT(spoilt([](auto& a) { a["NodeNames"].push_back("n9"); }), Contains("not offered"));
  CHECK_THAT(spoilt([](auto& a) { a["Error"] = "berth: trouble"; }), Contains("berth: trouble"));
  CHECK_THAT(spoilt([](auto& a) { a["NodeNames"] = 3; }),
             Contains("does not have the format of this verb"));
}

TEST_CASE_METHOD(VerbTest, "a request that Berth does not understand ends the run", "[unit][sim]") {
  env.api.PutPolicy(testing::MakePolicy());
  HostDriver host(env, "b1");
  bool refused = false;
  const auto answer = [&refused](const auto& body) { refused = !body.has_value(); };
  const kube::Pod pod = MakePod("p").Gpu(1);
  SECTION("an empty name in an offer") {
    bytes.ServeFilter(host, VerbBytes::Offer(pod, {"n1", ""}), answer);
    CHECK_THAT(env.garbled, Catch::Contains("empty node name"));
  }
  SECTION("a name that is too long") {
    bytes.ServeBind(host, VerbBytes::BindRequest(RefOf(pod), std::string(321, 'n')), {}, answer);
    CHECK_THAT(env.garbled, Catch::Contains("321 bytes"));
  }
  SECTION("no UID") {
    bytes.ServeBind(host, VerbBytes::BindRequest({.ns = "default", .name = "p"}, "n1"), {}, answer);
    CHECK_THAT(env.garbled, Catch::Contains("PodUID is missing"));
  }
  CHECK(refused);
}

}  // namespace
}  // namespace berth::sim
