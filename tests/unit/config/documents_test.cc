// What ships beside the code says the same as the code: examples, reference, schema.
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "config/decode.h"
#include "config/policy_warnings.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"

namespace berth::config {
namespace {

using nlohmann::json;
using testing::ReadSource;

std::filesystem::path Root() { return BERTH_SOURCE_DIR; }

/// Every property of a schema as PolicyKeyPaths writes them, in any order.
void AppendPaths(const json& schema, const std::string& path, std::vector<std::string>& paths) {
  if (schema.contains("items")) AppendPaths(schema["items"], path + "[]", paths);
  if (!schema.contains("properties")) return;
  for (const auto& [key, value] : schema["properties"].items()) {
    const std::string child = path.empty() ? key : path + "." + key;
    paths.push_back(child);
    AppendPaths(value, child, paths);
  }
}

/// The defaults of a schema as a policy document. JSON is YAML, so the decoder can read it.
json Defaults(const json& schema) {
  json defaults = json::object();
  for (const auto& [key, value] : schema["properties"].items()) {
    if (value.contains("default")) defaults[key] = value["default"];
    if (value.contains("const")) defaults[key] = value["const"];
    if (value.contains("properties")) defaults[key] = Defaults(value);
  }
  return defaults;
}

TEST_CASE("every example is a policy") {
  int examples = 0;
  for (const auto& entry : std::filesystem::directory_iterator(Root() / "examples/policies")) {
    const std::string name = entry.path().filename().string();
    const auto policy = DecodePolicy(ReadSource(entry.path()), name);
    INFO((policy ? name : policy.error().front().ToString()));
    CHECK(policy.has_value());
    if (policy) CHECK(PolicyWarnings(*policy).empty());
    ++examples;
  }
  CHECK(examples >= 6);
}

TEST_CASE("the example of defaults is the defaults, every key of it") {
  const std::string text = ReadSource("examples/policies/default.yaml");
  CHECK(DecodePolicy(text, "default.yaml") == PolicyConfiguration{});
  for (const std::string& path : PolicyKeyPaths()) {
    // The elements of these lists have no single default.
    if (path.starts_with("queues[].") && path != "queues[].name") continue;
    if (path.starts_with("flavors[].") || path.starts_with("classes[].")) continue;
    const std::string key = path.substr(path.find_last_of('.') + 1);
    INFO(path);
    CHECK(text.find(key + ":") != std::string::npos);
  }
}

TEST_CASE("the examples in the reference are policies") {
  const std::string text = ReadSource("docs/policy.md");
  const std::string fence = "```yaml\n";
  int examples = 0;
  for (std::size_t at = text.find(fence); at != std::string::npos; at = text.find(fence, at)) {
    at += fence.size();
    const auto policy = DecodePolicy(text.substr(at, text.find("```", at) - at), "policy.md");
    INFO((policy ? "" : policy.error().front().ToString()));
    CHECK(policy.has_value());
    ++examples;
  }
  CHECK(examples > 0);
}

TEST_CASE("the reference has every key and every term of the score") {
  const std::string text = ReadSource("docs/policy.md");
  for (const std::string& path : PolicyKeyPaths()) {
    INFO(path);
    CHECK(text.find("\n| `" + path + "` |") != std::string::npos);
    if (!path.starts_with("placement.score.")) continue;
    CHECK(text.find("\n| `" + path.substr(path.find_last_of('.') + 1) + "` |") !=
          std::string::npos);
  }
}

TEST_CASE("the copies of the schema are the program's: ./dev schema writes them again") {
  const json schema = json::parse(PolicySchema());
  CHECK(ReadSource("config/schema.json") == PolicySchema());

  // Of these the chart has values of its own.
  json policy = schema["properties"];
  for (const char* key : {"apiVersion", "kind", "schedulerNames"}) policy.erase(key);
  const json values = json::parse(ReadSource("manifests/charts/berth/values.schema.json"));
  CHECK(values["properties"]["policy"]["properties"] == policy);
  CHECK(values["properties"]["policy"]["additionalProperties"] == false);
}

TEST_CASE("the schema has the keys and the defaults of the decoder") {
  const json schema = json::parse(PolicySchema());
  std::vector<std::string> in_schema;
  AppendPaths(schema, "", in_schema);
  std::vector<std::string> in_decoder = PolicyKeyPaths();
  std::ranges::sort(in_schema);
  std::ranges::sort(in_decoder);
  CHECK(in_schema == in_decoder);
  const auto policy = DecodePolicy(Defaults(schema).dump(), "schema.json");
  INFO((policy ? "" : policy.error().front().ToString()));
  CHECK(policy == PolicyConfiguration{});
}

TEST_CASE("of each type of value the schema says the bounds") {
  const json schema = json::parse(PolicySchema())["properties"];
  CHECK(schema["mode"]["enum"] == json{"enforce", "passthrough"});
  CHECK(schema["dialects"]["properties"]["kueue"]["enum"] ==
        json{"on", "off", "auto", true, false});
  CHECK(schema["schedulerNames"]["maxItems"] == 64);
  const json& gang = schema["gang"]["properties"];
  CHECK(gang["maxStanding"]["maximum"] == 100'000);
  CHECK(gang["bindTimeout"]["description"].get<std::string>().starts_with("1s to 5m0s. "));
  const json& queue = schema["queues"]["items"];
  CHECK(queue["required"] == json{"name"});
  CHECK(queue["properties"]["weight"]["minimum"] == 0);
}

/// The source files below a folder, without endings. engine/replay counts as a folder of its own.
std::set<std::string> SourcesOf(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(Root() / folder)) {
    const std::string path = entry.path().lexically_relative(Root()).string();
    if (folder == "engine" && path.starts_with("engine/replay/")) continue;
    const auto ending = entry.path().extension();
    if (ending == ".cc" || ending == ".h") names.insert(entry.path().stem().string());
  }
  return names;
}

/// The paragraphs `**folder.** ...` of the section "Files", each with the single words in
/// backticks.
std::map<std::string, std::set<std::string>> NamedFiles() {
  const std::string page = ReadSource("docs/architecture.md");
  const std::size_t from = page.find("\n## Files\n");
  REQUIRE(from != std::string::npos);
  const std::string section = page.substr(from, page.find("\n## ", from + 1) - from);
  const std::regex piece(R"(\*\*([a-z/]+)\.\*\*|`([a-z_0-9]+)`)");
  std::map<std::string, std::set<std::string>> named;
  std::string folder;
  for (std::sregex_iterator it(section.begin(), section.end(), piece), end; it != end; ++it) {
    if ((*it)[1].matched) {
      folder = it->str(1);
    } else {
      named[folder].insert(it->str(2));
    }
  }
  return named;
}

TEST_CASE("the page of the architecture names every source file, and no other") {
  std::map<std::string, std::set<std::string>> sources;
  for (const char* folder : {"kube", "config", "topology", "cluster", "policy", "engine",
                             "engine/replay", "host", "server", "sim"}) {
    sources[folder] = SourcesOf(folder);
  }
  CHECK(NamedFiles() == sources);
}

}  // namespace
}  // namespace berth::config
