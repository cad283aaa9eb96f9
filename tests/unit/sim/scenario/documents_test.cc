// The reference and the schema of scenario files say the same as the decoder.
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

Names KeysOf(const MappingKeys& mapping) {
  return Sorted({mapping.keys.begin(), mapping.keys.end()});
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

TEST_CASE("the reference has exactly the keys of the decoder") {
  const std::string text = ReadSource("docs/scenarios.md");
  for (const MappingKeys& mapping : AllKeys()) {
    INFO(mapping.mapping);
    CHECK(DocumentedKeys(text, mapping.mapping) == KeysOf(mapping));
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

TEST_CASE("the schema has exactly the keys of the decoder, and lets no others in") {
  const json schema = json::parse(ReadSource("sim/scenario/schema.json"));
  for (const MappingKeys& mapping : AllKeys()) {
    const std::string name(mapping.mapping);
    INFO(name);
    const json& part = name == "scenario" ? schema : schema.at("definitions").at(name);
    Names keys;
    const json& properties = part.at("properties");
    for (const auto& [key, value] : properties.items()) keys.push_back(key);
    CHECK(Sorted(keys) == KeysOf(mapping));
    CHECK(part.value("additionalProperties", true) == false);
  }
}

}  // namespace
}  // namespace berth::scenario
