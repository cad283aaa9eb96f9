// The meaning of the program's exit status. Scripts rely on it.
#pragma once

namespace berth {

inline constexpr int kFine = 0;
inline constexpr int kBadInput = 1;     ///< The input is wrong; a message on stderr says how.
inline constexpr int kUsage = 2;        ///< The command line is wrong.
inline constexpr int kEnvironment = 3;  ///< The API server, a port, a file or the like failed.

}  // namespace berth
