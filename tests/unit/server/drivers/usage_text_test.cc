// What was used, as text: there and back, too long, and hostile.
#include "server/drivers/usage_text.h"

#include "tests/support/catch.h"

namespace berth::server {
namespace {

using cluster::kMostUsage;
using cluster::UsageRecord;

const UsageRecord kRecord{
    .until = 1'764'147'165'000,
    .queues = {{.queue = "lab", .used = {{"nvidia.com/gpu", 7}, {"x/nic", kMostUsage}}},
               {.queue = "web", .named = false, .used = {{"nvidia.com/gpu", 0}}}},
    .users = {{.queue = "lab", .user = "Ann_1", .used = {{"nvidia.com/gpu", 5}}}},
    .other_queues = {{"nvidia.com/gpu", 3}},
    .other_users = {{"nvidia.com/gpu", 4}}};

void CheckEqual(const UsageRecord& a, const UsageRecord& b) {
  CHECK(a.until == b.until);
  CHECK(a.queues == b.queues);
  CHECK(a.users == b.users);
  CHECK(a.other_queues == b.other_queues);
  CHECK(a.other_users == b.other_users);
}

TEST_CASE("what was used goes to text and back", "[usage]") {
  const DecodedUsage decoded = DecodeUsage(EncodeUsage(kRecord));
  CHECK(decoded.problems.empty());
  CheckEqual(decoded.record, kRecord);
  CHECK(EncodeUsage({.until = 5, .queues = {{.queue = "a", .used = {{"g", 1}}}}}) ==
        R"({"until":5,"queues":[{"queue":"a","deviceMilliseconds":{"g":1}}],"users":[],)"
        R"("otherQueues":{},"otherUsers":{}})");
}

TEST_CASE("text that would be too long sums up those who used least, users first", "[usage]") {
  UsageRecord record;
  for (int i = 1; i <= 64; ++i) {
    const std::string name = "u" + std::to_string(i);
    record.users.push_back({.queue = "q", .user = name, .used = {{"g", i}}});
    record.queues.push_back({.queue = name, .used = {{"g", i}}});
  }
  const std::string text = EncodeUsage(record, 5'000);
  CHECK(text.size() <= 5'000);
  const UsageRecord fewer = DecodeUsage(text).record;
  CHECK(fewer.queues.size() == 64);
  REQUIRE(fewer.users.size() == 32);
  CHECK(fewer.other_users.at("g") == 32 * 33 / 2);
  CHECK(EncodeUsage(record, 0) ==
        R"({"until":0,"queues":[],"users":[],"otherQueues":{"g":2080},"otherUsers":{"g":2080}})");
}

TEST_CASE("what cannot be true is left out, and the rest is read", "[usage]") {
  const DecodedUsage decoded = DecodeUsage(R"({"until": -5, "queues": [
      7, {"queue": 3}, {"queue": ""}, {"queue": "a b"},
      {"queue": "lab", "named": "yes", "deviceMilliseconds": {"g": 12, "h": -1, "i": 1.5, "j": "9",
       "k": 4611686018427387905, "l": 99999999999999999999999, "bad name": 1, "": 1}},
      {"queue": "lab", "deviceMilliseconds": {"g": 99}},
      {"queue": "web", "deviceMilliseconds": [1]}],
    "users": {"queue": "lab"}, "otherQueues": 3, "more": {}})");
  CHECK(decoded.problems.size() == 5);  // a few of them
  CheckEqual(decoded.record, {.queues = {{.queue = "lab", .used = {{"g", 12}}}, {.queue = "web"}}});
  for (const char* text : {"", "garbage", "[]", "null", "{\"until\":", "\xff\xfe", "3"}) {
    INFO(text);
    const DecodedUsage nothing = DecodeUsage(text);
    CHECK(nothing.problems.size() == 1);
    CheckEqual(nothing.record, {});
  }
}

TEST_CASE("what was held on average is kept of queues, within its bounds", "[usage]") {
  const UsageRecord record{.until = 1, .queues = {{.queue = "lab", .past = {{"g", 4'500}}}}};
  CHECK(DecodeUsage(EncodeUsage(record)).record.queues.at(0).past == record.queues[0].past);
  const DecodedUsage decoded = DecodeUsage(R"({"until": 1, "queues": [{"queue": "lab",
      "deviceMilliseconds": {}, "pastMillidevices": {"g": 1099511627777, "h": -1, "i": 7}}],
    "users": [{"queue": "lab", "user": "ann", "pastMillidevices": {"i": 7}}]})");
  CHECK(decoded.problems.size() == 2);
  CHECK(decoded.record.queues.at(0).past == cluster::Usage{{"i", 7}});
  CHECK(decoded.record.users.at(0).past.empty());
}

TEST_CASE("a time that no clock shows is no time", "[usage]") {
  const DecodedUsage decoded =
      DecodeUsage(R"({"until": 4611686018427387903, "queues": [], "users": []})");
  CHECK(decoded.problems.size() == 1);
  CHECK(decoded.record.until == 0);
}

TEST_CASE("no more entries are read than are kept", "[usage]") {
  UsageRecord record{.until = 1};
  for (std::size_t i = 0; i < cluster::UsageMeter::kMostUsers + 2; ++i) {
    record.users.push_back({.queue = "q", .user = "u" + std::to_string(i), .used = {{"g", 1}}});
  }
  const UsageRecord read = DecodeUsage(EncodeUsage(record)).record;
  CHECK(read.users.size() == cluster::UsageMeter::kMostUsers);
  CHECK(read.other_users.at("g") == 2);
}

}  // namespace
}  // namespace berth::server
