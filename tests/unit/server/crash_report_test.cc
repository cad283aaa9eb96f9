#include "server/crash_report.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <string>

#include "tests/support/catch.h"

namespace berth::server {
namespace {

/// What a process writes to stderr that reports crashes and then raises `signal`; ends by it.
std::string StderrOfCrash(int signal, int& status) {
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    ReportCrashes();
    raise(signal);
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t n = 0; (n = read(ends[0], buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<std::size_t>(n));
  }
  close(ends[0]);
  waitpid(child, &status, 0);
  return text;
}

TEST_CASE("a crash writes its signal and a stack trace, and ends the process by that signal",
          "[server][crash]") {
  const int signal = GENERATE(SIGSEGV, SIGABRT);
  int status = 0;
  const std::string text = StderrOfCrash(signal, status);
  CHECK_THAT(text, Catch::StartsWith(signal == SIGSEGV ? "berth crashed: signal 11\n"
                                                       : "berth crashed: signal 06\n"));
  CHECK_THAT(text, Catch::Contains("(+0x"));
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == signal);
}

}  // namespace
}  // namespace berth::server
