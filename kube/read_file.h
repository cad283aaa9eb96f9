// Reads files of unknown size, including devices and pipes.
#pragma once

#include <cstddef>
#include <expected>
#include <istream>
#include <string>

namespace berth::kube {

struct FileError {
  bool unreadable = false;  ///< Missing, forbidden, a folder; false: it is too large.
  std::string message;      ///< `PATH: cannot be read: No such file or directory`.
};

/// For a bearer token: many times the size of the largest known one.
inline constexpr std::size_t kMaxTokenBytes = std::size_t{64} << 10U;

/// The content of a file. At most `max_bytes` + 1 bytes are ever read.
std::expected<std::string, FileError> ReadFile(const std::string& path, std::size_t max_bytes);

/// The rest of a stream; `name` is for messages.
std::expected<std::string, FileError> ReadStream(std::istream& in, const std::string& name,
                                                 std::size_t max_bytes);

}  // namespace berth::kube
