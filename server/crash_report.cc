#include "server/crash_report.h"

#include <execinfo.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstddef>

namespace berth::server {
namespace {

constexpr int kMaxFrames = 64;

/// All signal numbers have one or two digits.
void WriteHead(int signal) {
  std::array<char, 32> text{"berth crashed: signal 00\n"};
  constexpr std::size_t kDigits = sizeof("berth crashed: signal ") - 1;
  text[kDigits] = static_cast<char>('0' + signal / 10 % 10);
  text[kDigits + 1] = static_cast<char>('0' + signal % 10);
  // Nothing can be done about a write that fails.
  [[maybe_unused]] const auto written = write(STDERR_FILENO, text.data(), kDigits + 3);
}

/// Calls only async-signal-safe functions.
void Report(int signal) {
  WriteHead(signal);
  std::array<void*, kMaxFrames> frames{};
  backtrace_symbols_fd(frames.data(), backtrace(frames.data(), kMaxFrames), STDERR_FILENO);
  raise(signal);  // SA_RESETHAND: the default action now
}

}  // namespace

void ReportCrashes() {
  std::array<void*, 1> frame{};
  backtrace(frame.data(), 1);  // The first call loads a library, which a signal handler must not
                               // do.
  struct sigaction action {};
  action.sa_handler = Report;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
    sigaction(signal, &action, nullptr);
  }
}

}  // namespace berth::server
