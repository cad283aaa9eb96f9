#include "server/drivers/decision_log.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "engine/engine.h"
#include "engine/replay/replay.h"
#include "server/demo/demo.h"
#include "tests/support/catch.h"

namespace berth::server {
namespace {

/// A folder of its own, gone with it.
struct Folder {
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("berth-decision-log-" + std::to_string(getpid()));
  std::string log = path / "log";
};

std::vector<std::string> Lines(const std::string& path) {
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

engine::Decision Bind(const std::string& workload) {
  return {.kind = "bind", .workload = workload};
}

/// What replay says of a file.
std::pair<int, std::string> Replayed(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  std::ostringstream err;
  const int code = replay::Replay(in, "log", out, err);
  return {code, out.str() + err.str()};
}

TEST_CASE("decisions are appended, and the file is rotated", "[decision-log]") {
  Folder folder;
  for (const char* workload : {"a", "b"}) {
    DecisionLog log({.path = folder.log});
    log.Add(Bind(workload), 5);
    log.Flush();
  }
  REQUIRE(Lines(folder.log).size() == 2);
  CHECK(Lines(folder.log)[1] == R"({"v":1,"time_ms":5,"kind":"bind","workload":"b","queue":"",)"
                                R"("generation":0})");
  DecisionLog log({.path = folder.log, .max_bytes = 400});
  for (int i = 0; i < 100; ++i) {
    log.Add(Bind(std::to_string(i)), 5);
    log.Flush();
    CHECK(std::filesystem::file_size(folder.log) <= 400);
  }
  CHECK(std::filesystem::file_size(folder.log + ".1") <= 400);
  CHECK(Lines(folder.log).back().find("\"99\"") != std::string::npos);
  CHECK(log.listener() == nullptr);
  CHECK(log.lost() == 0);
}

TEST_CASE("a log that is off or cannot be opened", "[decision-log]") {
  DecisionLog off({});
  off.Add(Bind("a"), 1);
  off.Flush();
  CHECK_FALSE(off.enabled());
  DecisionLog nowhere({.path = "/nonexistent/log"});
  CHECK(nowhere.error() == "/nonexistent/log: No such file or directory");
  DecisionLog full({.path = "/dev/full"});
  full.Add(Bind("a"), 1);
  full.Flush();
  CHECK(full.lost() > 0);
  CHECK(std::filesystem::exists("/dev/full"));
}

TEST_CASE("a recording is kept from its begin", "[decision-log]") {
  Folder folder;
  std::ofstream(folder.log) << "old\n";
  {
    DecisionLog log({.path = folder.log, .inputs = true, .max_recording_bytes = 3000});
    CHECK(Lines(folder.log + ".1") == std::vector<std::string>{"old"});
    engine::Engine engine({}, {.listener = log.listener()});
    for (int i = 0; i < 5; ++i) engine.Step(i);
    log.Flush();
    CHECK(Lines(folder.log).size() == 6);
    for (int i = 0; i < 100; ++i) engine.Step(i);
    log.Add(Bind("later"), 7);
    log.Flush();
    CHECK(std::filesystem::file_size(folder.log + ".recording") <= 3100);
    CHECK(Lines(folder.log).size() == 1);
  }
  CHECK(Lines(folder.log).size() == 1);  // no end: it was no recording any more
  const auto [code, text] = Replayed(folder.log + ".recording");
  CHECK(code == 0);
  CHECK(text.starts_with("log was full here; "));
  CHECK(text.ends_with("\n0 decisions, 0 differences\n"));
  CHECK(Replayed(folder.log).first == 1);
}

TEST_CASE("what the demo decided is decided again", "[decision-log]") {
  Folder folder;
  REQUIRE(Demo({.seed = 3, .fast = true, .decision_log = folder.log}) == 0);
  const auto lines = Lines(folder.log);
  const auto decisions = std::ranges::count_if(lines, [](const std::string& line) {
    return line.find("\"kind\"") != std::string::npos &&
           line.find("\"input\"") == std::string::npos;
  });
  CHECK(decisions > 50);
  const auto [code, text] = Replayed(folder.log);
  CHECK(text == std::to_string(decisions) + " decisions, 0 differences\n");
  CHECK(code == 0);
}

}  // namespace
}  // namespace berth::server
