// Files of which nobody knows how large they are, devices and pipes included.
#pragma once

#include <cstddef>
#include <expected>
#include <istream>
#include <string>

namespace berth::kube {

struct FileError {
  bool unreadable = false;  ///< Missing, forbidden, a folder; else it is too large.
  std::string message;      ///< `PATH: cannot be read: No such file or directory`.
};

/// Of a bearer token: many times what the largest has.
inline constexpr std::size_t kMaxTokenBytes = std::size_t{64} << 10U;

/// The bytes of a file, of which no more than `max_bytes` and one are ever read.
std::expected<std::string, FileError> ReadFile(const std::string& path, std::size_t max_bytes);

/// What is left of a stream; `name` is for messages.
std::expected<std::string, FileError> ReadStream(std::istream& in, const std::string& name,
                                                 std::size_t max_bytes);

}  // namespace berth::kube
