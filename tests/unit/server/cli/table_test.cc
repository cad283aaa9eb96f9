#include "server/cli/table.h"

#include <yaml-cpp/yaml.h>

#include "tests/support/catch.h"

namespace berth::server {
namespace {

TEST_CASE("columns are as wide as their widest cell", "[table]") {
  Table table({"NAME", "USED", "LIMIT"});
  CHECK(table.empty());
  table.Add({"research", "8"});
  table.Add({"ü", "128", "256"});
  CHECK(table.Render() ==
        "NAME       USED   LIMIT\n"
        "research   8      -\n"
        "ü          128    256\n");
}

TEST_CASE("a gap may be narrower, and surplus cells are dropped", "[table]") {
  Table table({"A", "B"}, 1);
  table.Add({"1", "2", "3"});
  CHECK(table.Render() == "A B\n1 2\n");
}

TEST_CASE("a cell cannot make rows, nor move the cursor", "[table]") {
  Table table({"NAME", "PHASE"});
  table.Add({"x\x1b[2J\nteam-b   Started", "Pending\r"});
  CHECK(table.Render() ==
        "NAME                           PHASE\n"
        "x\\u001b[2J\\nteam-b   Started   Pending\\r\n");
}

TEST_CASE("durations read as kubectl's ages", "[table]") {
  CHECK(HumanDuration(0) == "0s");
  CHECK(HumanDuration(119) == "119s");
  CHECK(HumanDuration(120) == "2m");
  CHECK(HumanDuration(150) == "2m30s");
  CHECK(HumanDuration(3599) == "59m");
  CHECK(HumanDuration(3 * 3600) == "3h");
  CHECK(HumanDuration(3 * 3600 + 12 * 60) == "3h12m");
  CHECK(HumanDuration(2 * 86400 + 4 * 3600) == "2d4h");
  CHECK(HumanDuration(9 * 86400 + 3600) == "9d");
}

TEST_CASE("YAML keeps order, types and what only looks like a type", "[table]") {
  const auto json = nlohmann::ordered_json::parse(R"({"zeta":1,"alpha":true,"texts":[
      "plain","8","true","no","","a: b","- x","0x10","null","2026-01-01","line\nbreak",
      "x\u001b[2J","\u009b","\u202eabc","\u007f","tab\there"],"a\u001b":1,
      "none":null,"empty":[],"nothing":{},"deep":{"list":[{"a":1.5}]}})");
  const std::string yaml = ToYaml(json);
  CHECK(yaml.find("zeta") < yaml.find("alpha"));
  CHECK(yaml.ends_with("\n"));
  CHECK(std::ranges::all_of(yaml, [](char c) { return c == '\n' || (c >= ' ' && c < 0x7F); }));
  CHECK(YAML::Load(yaml)["a\x1b"].as<int>() == 1);
  const YAML::Node back = YAML::Load(yaml);
  CHECK(back["zeta"].as<int>() == 1);
  CHECK(back["alpha"].Scalar() == "true");
  CHECK(back["alpha"].Tag() == "?");  // plain: a boolean
  CHECK(back["none"].IsNull());
  CHECK(back["empty"].size() == 0);
  CHECK(back["nothing"].IsMap());
  CHECK(back["deep"]["list"][0]["a"].as<double>() == 1.5);
  for (std::size_t i = 0; i < json["texts"].size(); ++i) {
    CHECK(back["texts"][i].Scalar() == json["texts"][i].get<std::string>());
    if (i > 0) CHECK(back["texts"][i].Tag() == "!");  // quoted: a text
  }
}

}  // namespace
}  // namespace berth::server
