// The reference of scenario files and the copy of their schema say the same as the list of keys.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "sim/scenario/scenario.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"

namespace berth::scenario {
namespace {

using nlohmann::json;
using testing::ReadSource;
using Names = std::vector<std::string>;

Names Sorted(Names names) {
  std::ranges::sort(names);
  return names;
}

Names KeysOf(const json& schema) {
  Names keys;
  for (const auto& [key, value] : schema.at("properties").items()) keys.push_back(key);
  return Sorted(std::move(keys));
}

/// The first column of the table under the heading "## Keys: MAPPING".
Names DocumentedKeys(const std::string& text, std::string_view mapping) {
  const std::string heading = "\n## Keys: " + std::string(mapping) + "\n";
  const std::size_t begin = text.find(heading);
  REQUIRE(begin != std::string::npos);
  std::istringstream section(text.substr(begin + heading.size()));
  Names keys;
  for (std::string line; std::getline(section, line) && !line.starts_with("## ");) {
    if (line.starts_with("| `")) keys.push_back(line.substr(3, line.find('`', 3) - 3));
  }
  return Sorted(std::move(keys));
}

TEST_CASE("the reference has exactly the keys of the schema") {
  const std::string text = ReadSource("docs/scenarios.md");
  json schemas = json::parse(Schema());
  json mappings = schemas.at("definitions");
  mappings["scenario"] = std::move(schemas);
  CHECK(mappings.size() == 6);
  for (const auto& [mapping, schema] : mappings.items()) {
    INFO(mapping);
    CHECK(DocumentedKeys(text, mapping) == KeysOf(schema));
  }
}

TEST_CASE("the examples in the reference are scenarios") {
  const std::string text = ReadSource("docs/scenarios.md");
  const std::string fence = "```yaml\n";
  int examples = 0;
  for (std::size_t at = text.find(fence); at != std::string::npos; at = text.find(fence, at)) {
    at += fence.size();
    const auto scenario = Decode(text.substr(at, text.find("```", at) - at), "scenarios.md");
    INFO((scenario ? "" : scenario.error().front().ToString()));
    CHECK(scenario.has_value());
    ++examples;
  }
  CHECK(examples > 0);
}

TEST_CASE("the copy of the schema is the program's: ./dev schema writes it again") {
  CHECK(ReadSource("sim/scenario/schema.json") == Schema());
}

TEST_CASE("of each type of value the schema says the bounds") {
  const json schema = json::parse(Schema());
  const json& definitions = schema["definitions"];
  CHECK(schema["required"] == json{"apiVersion", "kind", "proves", "area", "nodes", "steps"});
  CHECK(schema["properties"]["nodes"]["anyOf"][1]["items"]["$ref"] == "#/definitions/nodes");

  const json& nodes = definitions["nodes"]["properties"];
  CHECK(nodes["gpus"] ==
        json{{"type", "integer"}, {"minimum", 0}, {"maximum", 16}, {"default", 8}});
  CHECK_FALSE(nodes["perRack"].contains("default"));  // 0, which is not allowed: no racks
  CHECK(nodes["cpu"]["anyOf"].size() == 2);
  CHECK(nodes["name"]["maxLength"] == 253);

  const json& workload = definitions["workload"];
  CHECK(workload["additionalProperties"] == false);
  CHECK(workload["properties"]["cpu"]["anyOf"][2] == json{{"const", ""}});
  CHECK(workload["properties"]["gang"]["type"] == "boolean");
  CHECK(definitions["taint"]["properties"]["effect"]["enum"][1] == "PreferNoSchedule");

  const json& step = definitions["step"];
  CHECK(step["maxProperties"] == 1);
  CHECK(step["properties"]["delete"]["anyOf"][1]["items"] == json{{"type", "string"}});
  CHECK(step["properties"]["wait"]["description"] == "1ms to 1h0m0s.");
  CHECK(step["properties"]["setGpus"]["additionalProperties"] ==
        json{{"type", "integer"}, {"minimum", 0}, {"maximum", 16}});
}

}  // namespace
}  // namespace berth::scenario
