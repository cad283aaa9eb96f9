// Files of the repository that tests compare the code with.
#pragma once

#include <cstdint>
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

/// A file that is gone with the test.
class TempFile {
 public:
  TempFile(const std::string& name, const std::string& text)
      : path_(std::filesystem::temp_directory_path() /
              (name + std::to_string(reinterpret_cast<std::uintptr_t>(this)))) {
    std::ofstream(path_) << text;
  }
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;
  ~TempFile() { std::filesystem::remove(path_); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace berth::testing
