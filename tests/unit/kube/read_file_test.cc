#include "kube/read_file.h"

#include "tests/support/catch.h"
#include "tests/support/files.h"

namespace berth::kube {
namespace {

TEST_CASE("a file is read up to its bound", "[unit][kube]") {
  const testing::TempFile file("read-file", "12345");
  CHECK(ReadFile(file.path(), 5) == "12345");
  const auto large = ReadFile(file.path(), 4);
  REQUIRE_FALSE(large);
  CHECK_FALSE(large.error().unreadable);
  CHECK(large.error().message == file.path() + ": larger than 4 bytes");
  const testing::TempFile empty("read-file-empty", "");
  CHECK(ReadFile(empty.path(), 4) == "");
}

TEST_CASE("what has no end is cut off, what is no file is named", "[unit][kube]") {
  const auto endless = ReadFile("/dev/zero", std::size_t{1} << 20U);
  REQUIRE_FALSE(endless);
  CHECK(endless.error().message == "/dev/zero: larger than 1 MiB");
  const auto missing = ReadFile("/nowhere/at/all", 4);
  REQUIRE_FALSE(missing);
  CHECK(missing.error().unreadable);
  CHECK(missing.error().message == "/nowhere/at/all: cannot be read: No such file or directory");
  const auto folder = ReadFile("/tmp", 4);
  REQUIRE_FALSE(folder);
  CHECK(folder.error().unreadable);
}

}  // namespace
}  // namespace berth::kube
