// Every scenario file, in the simulated world.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "sim/scenario/run.h"
#include "sim/scenario/variants.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"

namespace berth::scenario {
namespace {

constexpr std::uint64_t kSeeds = 3;
constexpr std::uint64_t kOpenSeeds = 40;  ///< What is open may be a matter of order.

struct File {
  std::string name;       ///< `gang/starts-whole.yaml`.
  std::string directory;  ///< `gang`.
  std::string text;
};

/// Under tests/scenario, by name. `open` holds what is known not to work yet, and nothing else.
std::vector<File> Files(bool open) {
  const std::filesystem::path root = std::filesystem::path(BERTH_SOURCE_DIR) / "tests/scenario";
  std::vector<File> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (entry.path().extension() != ".yaml") continue;
    const std::string directory = entry.path().parent_path().filename().string();
    if ((directory == "open") != open) continue;
    files.push_back({.name = directory + "/" + entry.path().filename().string(),
                     .directory = directory,
                     .text = testing::ReadSource(entry.path())});
  }
  std::ranges::sort(files, {}, &File::name);
  return files;
}

Scenario Load(const File& file) {
  auto scenario = Decode(file.text, file.name);
  INFO((scenario ? "" : scenario.error().front().ToString()));
  REQUIRE(scenario.has_value());
  return *std::move(scenario);
}

TEST_CASE("every scenario holds") {
  for (const File& file : Files(/*open=*/false)) {
    DYNAMIC_SECTION(file.name) {
      const Scenario scenario = Load(file);
      INFO(scenario.proves);
      for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
        INFO("seed " << seed);
        const RunReport in_values = Run(scenario, {.seed = seed});
        CHECK(in_values.faults == std::vector<std::string>{});
        const RunReport in_bytes = Run(scenario, {.fidelity = sim::Fidelity::kWire, .seed = seed});
        CHECK(in_bytes.faults == in_values.faults);
        CHECK(in_bytes.hash == in_values.hash);
      }
    }
  }
}

// All of them take more than a minute: of each file every second one runs, of its neighbours the
// others. `berth simulate run --variants all` runs all.
TEST_CASE("no variant of a scenario has another answer") {
  const std::vector<File> files = Files(/*open=*/false);
  std::map<std::string_view, std::size_t> applied;
  std::size_t turn = 0;
  for (const File& file : files) {
    const Scenario scenario = Load(file);
    ++turn;
    for (const Variant& variant : Variants()) {
      if (++turn % 2 != 0) continue;
      const auto varied = variant.make(scenario);
      if (!varied) continue;
      ++applied[variant.name];
      INFO(file.name << ", " << variant.name);
      CHECK(Run(*varied, {.seed = 1, .quiet_rounds = 1}).faults == std::vector<std::string>{});
    }
  }
  for (const Variant& variant : Variants()) {
    INFO(variant.name);
    CHECK(applied[variant.name] > files.size() * 4 / 10);
  }
}

TEST_CASE("a scenario repeats bit by bit from its seed") {
  const std::vector<File> files = Files(/*open=*/false);
  REQUIRE(!files.empty());
  const Scenario scenario = Load(files.front());
  CHECK(Run(scenario, {.seed = 7}).hash == Run(scenario, {.seed = 7}).hash);
  CHECK(Run(scenario, {.seed = 7}).hash != Run(scenario, {.seed = 8}).hash);
}

TEST_CASE("there are scenarios of every area, each in its directory and for a claim of its own") {
  std::map<std::string, int> areas;
  std::set<std::string> claims;
  const std::vector<File> files = Files(/*open=*/false);
  for (const File& file : files) {
    const Scenario scenario = Load(file);
    INFO(file.name);
    CHECK(scenario.area == file.directory);
    CHECK(claims.insert(scenario.proves).second);
    ++areas[scenario.area];
  }
  CHECK(files.size() >= 60);
  CHECK(areas.size() == 5);
  for (const auto& [area, count] : areas) {
    INFO(area);
    CHECK(count >= 10);
  }
}

TEST_CASE("what is open still fails: once it holds, it belongs to its area") {
  for (const File& file : Files(/*open=*/true)) {
    INFO(file.name);
    const Scenario scenario = Load(file);
    bool fails = false;
    for (std::uint64_t seed = 1; seed <= kOpenSeeds && !fails; ++seed) {
      fails = !Run(scenario, {.seed = seed}).faults.empty();
    }
    CHECK(fails);
  }
}

}  // namespace
}  // namespace berth::scenario
