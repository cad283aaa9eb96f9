// Files of the repository that tests compare the code with.
#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/support/catch.h"

namespace berth::testing {

/// The whole file; `path` is below the repository's root. A file that cannot be read fails the
/// test.
inline std::string ReadSource(const std::filesystem::path& path) {
  std::ifstream stream(std::filesystem::path(BERTH_SOURCE_DIR) / path);
  INFO(path.string());
  REQUIRE(stream.good());
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

}  // namespace berth::testing
