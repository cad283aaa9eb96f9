// Every input that was ever worth keeping, in every test run. A finding of ./dev fuzz becomes a
// file in the corpus of its target, named after what it was.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/fuzz/targets.h"
#include "tests/support/catch.h"

namespace berth::fuzz {
namespace {

TEST_CASE("the corpora replay", "[fuzz]") {
  for (const Target& target : Targets()) {
    DYNAMIC_SECTION(target.name) {
      const auto folder =
          std::filesystem::path(BERTH_SOURCE_DIR) / "tests/fuzz/corpus" / target.name;
      int inputs = 0;
      for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        std::ifstream file(entry.path(), std::ios::binary);
        const std::string input(std::istreambuf_iterator<char>(file), {});
        INFO(entry.path());
        target.run(input);
        ++inputs;
      }
      CHECK(inputs >= 5);
    }
  }
}

}  // namespace
}  // namespace berth::fuzz
