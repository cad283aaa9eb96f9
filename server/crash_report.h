// What a crash leaves behind: the signal and a stack trace on stderr.
#pragma once

namespace berth::server {

/// From here on SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT (which includes an exception that
/// nobody catches) write the signal's number and one line per stack frame to stderr before they end
/// the process as they would have. A line such as `berth(+0x1a2b3c)[0x55...]` becomes a function
/// and a source line with `addr2line -Cfe berth.debug 0x1a2b3c`, given the symbols of that very
/// build.
void ReportCrashes();

}  // namespace berth::server
