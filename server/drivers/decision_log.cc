#include "server/drivers/decision_log.h"

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "engine/replay/decision_line.h"
#include "engine/replay/replay.h"

namespace berth::server {
namespace {

constexpr const char* kOld = ".1";
constexpr const char* kRecording = ".recording";

std::size_t SizeOf(const std::string& path) {
  std::error_code code;
  const auto size = std::filesystem::file_size(path, code);
  return code ? 0 : size;
}

}  // namespace

DecisionLog::DecisionLog(DecisionLogOptions options) : options_(std::move(options)) {
  if (!enabled()) return;
  if (options_.inputs) {
    recording_ = true;
    recorder_.emplace([this](std::string line) { AppendInput(std::move(line)); });
    if (SizeOf(options_.path) > 0) PutAway(kOld);
  }
  Open();
  size_ = SizeOf(options_.path);
}

DecisionLog::~DecisionLog() {
  if (recording_) added_.push_back({replay::EndLine("stopped"), nullptr});
  Flush();
}

void DecisionLog::Open() {
  if (options_.path == "-") {
    file_.reset(stdout);
    return;
  }
  file_.reset(std::fopen(options_.path.c_str(), "a"));
  if (file_ == nullptr) error_ = options_.path + ": " + std::strerror(errno);
}

void DecisionLog::PutAway(const char* suffix) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(options_.path, ignored)) return;
  file_.reset();
  std::filesystem::rename(options_.path, options_.path + suffix, ignored);
}

void DecisionLog::Add(const engine::Decision& decision, std::int64_t now_ms) {
  if (!enabled()) return;
  std::string line = replay::DecisionLine(decision, now_ms);
  const std::scoped_lock lock(mutex_);
  Append(std::move(line));
}

void DecisionLog::AppendInput(std::string line) {
  const std::scoped_lock lock(mutex_);
  if (!recording_) return;
  if (options_.path != "-" && size_ + line.size() > options_.max_recording_bytes) {
    recording_ = false;
    added_.push_back({replay::EndLine("full"), kRecording});
    size_ = 0;
    return;
  }
  Append(std::move(line));
}

/// REQUIRES: the lock.
void DecisionLog::Append(std::string line) {
  if (!recording_ && options_.path != "-" && size_ + line.size() > options_.max_bytes &&
      size_ > 0) {
    added_.push_back({{}, kOld});
    size_ = 0;
  }
  size_ += line.size() + 1;
  added_.push_back({std::move(line), nullptr});
}

void DecisionLog::Flush() {
  if (!enabled()) return;
  const std::scoped_lock file_lock(file_mutex_);
  std::vector<Entry> entries;
  {
    const std::scoped_lock lock(mutex_);
    entries.swap(added_);
  }
  for (const Entry& entry : entries) Write(entry);
  if (entries.empty() || (file_ != nullptr && std::fflush(file_.get()) == 0)) return;
  ++lost_;
  StopRecording();
}

/// A recording with a gap would be taken for a difference in the decisions, so it ends before the
/// gap.
void DecisionLog::StopRecording() {
  {
    const std::scoped_lock lock(mutex_);
    if (!std::exchange(recording_, false)) return;
    lost_ += added_.size();
    added_.clear();
    size_ = 0;
  }
  PutAway(kRecording);
  Open();
}

/// REQUIRES: the file's lock.
void DecisionLog::Write(const Entry& entry) {
  if (!entry.line.empty()) {
    const std::string text = entry.line + '\n';
    const bool written =
        file_ != nullptr && std::fwrite(text.data(), 1, text.size(), file_.get()) == text.size();
    if (!written) ++lost_;
  }
  if (entry.then_move_to == nullptr) return;
  PutAway(entry.then_move_to);
  Open();
}

}  // namespace berth::server
