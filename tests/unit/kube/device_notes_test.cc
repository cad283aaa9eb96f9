// What nodes and pods say of single devices: read as a whole or refused with a reason.
#include "kube/device_notes.h"

#include <string>
#include <vector>

#include "tests/support/catch.h"

namespace berth::kube {
namespace {

std::string Why(const auto& parsed) { return parsed ? "" : parsed.error(); }

TEST_CASE("a node's own description", "[unit][kube]") {
  const auto full = ParseDeviceTopology(
      R"({"count":3,"numa":[0,0,1],"rails":[0,1,1],"links":[[0,4,0],[4,0,2],[0,2,0]]})");
  REQUIRE(full);
  CHECK(full->count == 3);
  CHECK(full->numa == std::vector{0, 0, 1});
  CHECK(full->rails == std::vector{0, 1, 1});
  CHECK(full->links == std::vector<std::vector<int>>{{0, 4, 0}, {4, 0, 2}, {0, 2, 0}});
  const auto bare = ParseDeviceTopology(R"({"count":16})");
  REQUIRE(bare);
  CHECK(*bare == DeviceTopology{.count = 16});
}

TEST_CASE("descriptions that contradict themselves or the bounds are refused", "[unit][kube]") {
  struct Row {
    const char* text;
    const char* why;
  };
  const std::vector<Row> rows = {
      {R"({"count":2,"links":[[0,4],[3,0]]})", "links: not the same from 1 to 0 as back"},
      {R"({"count":2,"links":[[1,4],[4,0]]})", "links: device 0 to itself is not 0"},
      {R"({"count":2,"links":[[0,4]]})", "links: not as many rows as devices"},
      {R"({"count":2,"links":[[0,4],[4,0],[0,0]]})", "links: more rows than devices"},
      {R"({"count":2,"links":[[0,4,1],[4,0,1]]})", "links: more than 2 entries"},
      {R"({"count":2,"links":[[0,4],[4]]})", "links: not as many entries as devices"},
      {R"({"count":2,"links":[[0,65],[65,0]]})", "links: not an integer from 0 to 64"},
      {R"({"count":2,"links":[[0,-1],[-1,0]]})", "links: not an integer from 0 to 64"},
      {R"({"count":2,"links":7})", "links: not a list"},
      {R"({"count":17})", "count: not an integer from 1 to 16"},
      {R"({"count":0})", "count: not an integer from 1 to 16"},
      {R"({"count":"8"})", "count: not an integer from 1 to 16"},
      {R"({"numa":[0]})", "count: missing"},
      {R"({"count":2,"numa":[0]})", "numa: not as many entries as devices"},
      {R"({"count":2,"numa":[0,64]})", "numa: not an integer from 0 to 63"},
      {R"({"count":2,"rails":[0,1,2]})", "rails: more than 2 entries"},
      {R"({"count":2,"link":[]})", "unknown field; there are count, numa, rails and links"},
      {R"({"count":2,"count":2})", "a field is given twice"},
      {"[]", "not an object"},
  };
  for (const Row& row : rows) {
    INFO(row.text);
    CHECK(Why(ParseDeviceTopology(row.text)) == row.why);
  }
  CHECK_FALSE(ParseDeviceTopology(""));
  CHECK_FALSE(ParseDeviceTopology("{"));
  CHECK(Why(ParseDeviceTopology(std::string(kMaxDeviceNote + 1, ' '))) == "longer than 64 KiB");
  CHECK_FALSE(ParseDeviceTopology(std::string(kMaxDeviceNote, '[')));
}

TEST_CASE("HAMi: both forms of its register, and its scores", "[unit][kube]") {
  const std::string json =
      R"([{"id":"GPU-b","index":1,"count":1,"numa":1,"health":true},
          {"id":"GPU-a","index":0,"count":1,"numa":0,"health":true}])";
  const std::string text =
      "GPU-a,1,81920,100,NVIDIA-H100,0,true:GPU-b,1,81920,100,NVIDIA-H100,1,true:";
  const std::string indexed =
      "GPU-b,1,81920,100,H100,1,true,1,hami-core:GPU-a,1,81920,100,H100,-1,true,0,:";
  const std::string score =
      R"([{"uuid":"GPU-a","score":{"GPU-b":210}},{"uuid":"GPU-b","score":{"GPU-a":210,"GPU-b":0}}])";
  for (const std::string& registered : {json, text, indexed}) {
    INFO(registered);
    const auto said = ParseHamiTopology(registered, score);
    REQUIRE(said);
    CHECK(said->count == 2);
    CHECK(said->numa == std::vector{0, 1});  // one that HAMi does not know (-1) is 0
    CHECK(said->scores == std::vector<std::vector<int>>{{0, 210}, {210, 0}});
    CHECK(ParseHamiTopology(registered, "")->scores.empty());
  }
}

TEST_CASE("HAMi: what is half there or contradicts itself is refused", "[unit][kube]") {
  const std::string two = R"([{"id":"a","index":0},{"id":"b","index":1}])";
  struct Row {
    std::string registered;
    const char* score;
    const char* why;
  };
  const std::vector<Row> rows = {
      {"", "", "no devices"},
      {"[]", "", "no devices"},
      {R"([{"id":"a","index":0},{"id":"a","index":1}])", "", "two devices of one id"},
      {R"([{"id":"a","index":0},{"id":"b","index":0}])", "", "indices are not 0 to n-1, each once"},
      {R"([{"id":"a","index":0},{"id":"b","index":2}])", "", "indices are not 0 to n-1, each once"},
      {R"([{"id":"a","index":16}])", "", "index: not an integer from 0 to 15"},
      {R"([{"index":0}])", "", "id: not a text"},
      {"a,1,2,3:", "", "an entry has fewer than 7 fields"},
      {"a,1,2,3,t,x,true:", "", "numa: not a number"},
      {"a,1,2,3,t,0,true,99:", "", "index: not from 0 to 15"},
      {two, R"([{"uuid":"a","score":{"b":10}},{"uuid":"b","score":{"a":20}}])",
       "score: not the same from 1 to 0 as back"},
      {two, R"([{"uuid":"a","score":{"b":10}}])", "pairs are missing"},
      {two, R"([{"uuid":"c","score":{}}])", "a device that is not registered"},
      {two, R"([{"uuid":"a","score":{"b":100001}}])", "score: not an integer from 0 to 100000"},
      {two, R"([{"uuid":"a"}])", "an entry without uuid or score"},
      {two, "{}", "not a list"},
  };
  for (const Row& row : rows) {
    INFO(row.registered << ' ' << row.score);
    CHECK(Why(ParseHamiTopology(row.registered, row.score)) == row.why);
  }
  std::string many;
  for (int i = 0; i < 17; ++i) many += "id" + std::to_string(i) + ",1,2,3,t,0,true:";
  CHECK(Why(ParseHamiTopology(many, "")) == "more than 16 devices");
}

TEST_CASE("which devices a pod was given", "[unit][kube]") {
  using List = std::vector<int>;
  const auto of = [](const char* text) { return ParseDevices(text, "nvidia.com/gpu"); };
  CHECK(of(R"({"main":{"nvidia.com/gpu":[1,0]}})") == List{0, 1});
  CHECK(of(R"({"a":{"nvidia.com/gpu":[4]},"b":{"nvidia.com/gpu":[2],"x/nic":[99]}})") ==
        List{2, 4});
  CHECK(of(R"({"init":{"nvidia.com/gpu":[0,1]},"main":{"nvidia.com/gpu":[1]}})") == List{0, 1});
  CHECK(of(R"({"a":{"x/nic":[1]}})") == List{});
  CHECK(of("{}") == List{});
  for (const char* text :
       {"", "null", "[]", R"({"a":[0]})", R"({"a":{"nvidia.com/gpu":0}})",
        R"({"a":{"nvidia.com/gpu":[-1]}})", R"({"a":{"nvidia.com/gpu":[16]}})",
        R"({"a":{"nvidia.com/gpu":["0"]}})", R"({"a":{"nvidia.com/gpu":[0.5]}})",
        R"({"a":{"nvidia.com/gpu":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,0]}})"}) {
    INFO(text);
    CHECK_FALSE(of(text));
  }
}

TEST_CASE("what is written is read back", "[unit][kube]") {
  const std::string text = EncodeDevices({{"a", {0, 1}}, {"b", {7}}}, "nvidia.com/gpu");
  CHECK(text == R"({"a":{"nvidia.com/gpu":[0,1]},"b":{"nvidia.com/gpu":[7]}})");
  CHECK(ParseDevices(text, "nvidia.com/gpu") == std::vector{0, 1, 7});
  CHECK(EncodeDevices({{"a\"", {0}}, {"b", {1}}}, "x") == R"({"b":{"x":[1]}})");
}

}  // namespace
}  // namespace berth::kube
