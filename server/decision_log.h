// `--decision-log FILE|-`: one JSON line per decision, bounded and rotated.
#pragma once

#include <cstddef>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>

#include "engine/actions.h"

namespace berth::server {

class DecisionLog {
 public:
  /// Empty path: off. `-`: standard output. A file is moved to `<path>.1` when it passes
  /// `max_bytes`; the one before that is dropped.
  explicit DecisionLog(std::string path, std::size_t max_bytes = std::size_t{64} << 20U);
  ~DecisionLog();
  DecisionLog(const DecisionLog&) = delete;
  DecisionLog& operator=(const DecisionLog&) = delete;

  bool enabled() const { return !path_.empty(); }
  /// Thread-safe. A line that cannot be written is counted, never waited for.
  void Write(const engine::Decision& decision, std::int64_t now_ms);
  /// Empty: the file could be opened.
  const std::string& error() const { return error_; }
  std::size_t lost() const;

 private:
  struct Closer {
    void operator()(std::FILE* file) const {
      if (file != nullptr && file != stdout) std::fclose(file);
    }
  };
  void Open();

  const std::string path_;
  const std::size_t max_bytes_;
  mutable std::mutex mutex_;
  std::unique_ptr<std::FILE, Closer> file_;
  std::size_t written_ = 0;
  std::size_t lost_ = 0;
  std::string error_;
};

/// The line without its newline.
std::string ToJson(const engine::Decision& decision, std::int64_t now_ms);

}  // namespace berth::server
