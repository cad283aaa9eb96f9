#include "kube/read_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

namespace berth::kube {
namespace {

/// `1 MiB`, `64 KiB`, `12 bytes`.
std::string SizeText(std::size_t bytes) {
  if (bytes != 0 && bytes % (1U << 30U) == 0) return fmt::format("{} GiB", bytes >> 30U);
  if (bytes != 0 && bytes % (1U << 20U) == 0) return fmt::format("{} MiB", bytes >> 20U);
  if (bytes != 0 && bytes % (1U << 10U) == 0) return fmt::format("{} KiB", bytes >> 10U);
  return fmt::format("{} bytes", bytes);
}

std::unexpected<FileError> Unreadable(const std::string& name, int code) {
  const std::string why = code == 0 ? "" : std::string(": ") + std::strerror(code);
  return std::unexpected(FileError{true, fmt::format("{}: cannot be read{}", name, why)});
}

}  // namespace

std::expected<std::string, FileError> ReadStream(std::istream& in, const std::string& name,
                                                 std::size_t max_bytes) {
  std::string text;
  std::vector<char> block(std::size_t{1} << 16U);
  while (in) {
    errno = 0;
    in.read(block.data(), static_cast<std::streamsize>(block.size()));
    text.append(block.data(), static_cast<std::size_t>(in.gcount()));
    if (text.size() > max_bytes) {
      return std::unexpected(
          FileError{false, fmt::format("{}: larger than {}", name, SizeText(max_bytes))});
    }
  }
  if (!in.eof() || in.bad()) return Unreadable(name, errno);
  return text;
}

std::expected<std::string, FileError> ReadFile(const std::string& path, std::size_t max_bytes) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) return Unreadable(path, errno);
  return ReadStream(in, path, max_bytes);
}

}  // namespace berth::kube
