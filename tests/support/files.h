// Files of the repository that tests compare the code with, and temporary files.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/support/catch.h"

namespace berth::testing {

/// The content of a file; `path` is relative to the repository's root. A file that cannot be read
/// fails the test.
inline std::string ReadSource(const std::filesystem::path& path) {
  std::ifstream stream(std::filesystem::path(BERTH_SOURCE_DIR) / path);
  INFO(path.string());
  REQUIRE(stream.good());
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

/// A file that is removed at the end of the test.
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

/// A directory that is removed at the end of the test.
class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "berth-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() { std::filesystem::remove_all(path_); }
  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
    return (path_ / name).string();
  }
  /// The content of a file; empty if there is none.
  std::string Read(const std::string& name) const {
    std::ifstream stream(path_ / name);
    std::ostringstream text;
    text << stream.rdbuf();
    return text.str();
  }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace berth::testing
