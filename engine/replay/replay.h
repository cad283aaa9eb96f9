// `berth simulate replay LOG`: runs the inputs of a decision log again and compares every decision
// with the recorded one, byte by byte.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>

namespace berth::replay {

inline constexpr std::size_t kMaxLineBytes = std::size_t{64} << 20U;

/// Line of an orderly end; `why` is `stopped`, or `full`: the service went on without recording.
std::string EndLine(const std::string& why);

/// Reads the log to its end or to the first difference. Reports the result on `out`, and errors in
/// the log on `err`. Returns the exit code: 0 no difference, 1 a difference or a log that cannot be
/// replayed, 3 a file that cannot be read. `name` is for messages.
int Replay(std::istream& in, const std::string& name, std::ostream& out, std::ostream& err);
int ReplayFile(const std::string& path, std::ostream& out, std::ostream& err);

}  // namespace berth::replay
