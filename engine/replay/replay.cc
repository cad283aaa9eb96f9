#include "engine/replay/replay.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <fstream>
#include <istream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>

#include "engine/replay/decision_line.h"
#include "engine/replay/player.h"

namespace berth::replay {
namespace {

constexpr int kSame = 0;
constexpr int kWrong = 1;
constexpr int kUnreadable = 3;
constexpr const char* kRecord =
    "record one with `berth serve --decision-log FILE --decision-log-inputs`";

/// One log. Each step returns an exit code where it ends the run.
class Run {
 public:
  Run(std::string name, std::ostream& out, std::ostream& err)
      : name_(std::move(name)), out_(out), err_(err) {}

  std::optional<int> Line(std::string_view text) {
    ++line_;
    if (!end_.empty()) return Wrong("after the end of the log");
    simdjson::dom::element line;
    if (const auto error = parser_.parse(text.data(), text.size()).get(line)) {
      return Wrong(
          fmt::format("not JSON ({}); was the line cut off?", simdjson::error_message(error)));
    }
    if (!line.is_object()) return Wrong("not an object");
    std::string_view value;
    if (line["input"].get(value) == simdjson::SUCCESS) return Input(line, value == "begin");
    if (line["end"].get(value) == simdjson::SUCCESS) return End(line, value);
    if (line["kind"].get(value) == simdjson::SUCCESS) return Decision(text);
    return Wrong("neither an input nor a decision");
  }

  int Finish() {
    if (line_ == 0) return Wrong("empty");
    if (end_.empty()) {
      out_ << name_ << " has no end: the service was killed, or still writes to it\n";
    } else if (end_ == "full") {
      out_ << name_ << " was full here; what the service decided later is not in it\n";
    }
    out_ << decisions_ << " decisions, 0 differences\n";
    return kSame;
  }

  int Wrong(const std::string& message) {
    err_ << name_;
    if (line_ > 0) err_ << ':' << line_;
    err_ << ": " << message << '\n';
    return kWrong;
  }

  void NextLine() { ++line_; }

 private:
  std::optional<int> Input(simdjson::dom::element line, bool begin) {
    // A process that was killed may have made decisions that were not written to the log.
    if (begin) made_.clear();
    begun_ |= begin;
    auto made = player_.Feed(line);
    if (!made) return Wrong(made.error());
    for (std::string& decision : *made) made_.push_back(std::move(decision));
    return std::nullopt;
  }

  std::optional<int> Decision(std::string_view recorded) {
    if (!begun_)
      return Wrong(fmt::format("a decision without the inputs it came from; {}", kRecord));
    if (made_.empty() || made_.front() != recorded) return Differs(recorded);
    made_.pop_front();
    ++decisions_;
    return std::nullopt;
  }

  std::optional<int> End(simdjson::dom::element line, std::string_view why) {
    std::int64_t version = 0;
    if (line["v"].get(version) != simdjson::SUCCESS || version != kLineVersion) {
      return Wrong(fmt::format("of another version than {}", kLineVersion));
    }
    if (why != "stopped" && why != "full") return Wrong("an end that is neither stopped nor full");
    if (!begun_) return Wrong(fmt::format("an end without a begin; {}", kRecord));
    end_ = why;
    // A full log ends wherever it was full.
    if (end_ == "stopped" && !made_.empty()) return Differs("nothing more");
    return std::nullopt;
  }

  int Differs(std::string_view recorded) {
    out_ << name_ << ':' << line_ << ": the first difference, after " << decisions_
         << " equal decisions\n  recorded: " << recorded
         << "\n  replayed: " << (made_.empty() ? "no decision" : made_.front()) << '\n';
    return kWrong;
  }

  const std::string name_;
  std::ostream& out_;
  std::ostream& err_;
  simdjson::dom::parser parser_;
  Player player_;
  std::deque<std::string> made_;  ///< Decisions that the log has not shown yet.
  bool begun_ = false;
  std::string end_;
  std::size_t line_ = 0;
  std::size_t decisions_ = 0;
};

}  // namespace

std::string EndLine(const std::string& why) {
  return nlohmann::ordered_json{{"v", kLineVersion}, {"end", why}}.dump();
}

int Replay(std::istream& in, const std::string& name, std::ostream& out, std::ostream& err) {
  Run run(name, out, err);
  constexpr auto kBuffer = static_cast<std::streamsize>(kMaxLineBytes + 1);
  const auto buffer = std::make_unique_for_overwrite<char[]>(kBuffer);  // mostly never touched
  while (true) {
    in.getline(buffer.get(), kBuffer);
    auto size = static_cast<std::size_t>(in.gcount());
    if (in.bad()) return run.Wrong("cannot be read");
    if (in.fail() && !in.eof()) {
      run.NextLine();
      return run.Wrong("longer than 64 MiB");
    }
    if (size == 0) return run.Finish();
    if (!in.eof()) --size;  // the newline
    if (const auto code = run.Line({buffer.get(), size})) return *code;
  }
}

int ReplayFile(const std::string& path, std::ostream& out, std::ostream& err) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  in.peek();  // a directory can be opened, not read
  if (!in.is_open() || in.bad()) {
    err << path << ": " << std::strerror(errno) << '\n';
    return kUnreadable;
  }
  in.clear();
  return Replay(in, path, out, err);
}

}  // namespace berth::replay
