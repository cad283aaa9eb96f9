// `--decision-log FILE|-`: one JSON line per decision, bounded and rotated. With
// `--decision-log-inputs` also a line for every input of the engine, so that `berth simulate
// replay` can make the same decisions again.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/actions.h"
#include "engine/replay/recorder.h"

namespace berth::server {

struct DecisionLogOptions {
  std::string path{};  ///< Empty: off. `-`: standard output, which has no bound.
  bool inputs = false;
  /// Without inputs: a file larger than this moves to `<path>.1`; the previous one there is
  /// dropped.
  std::size_t max_bytes = std::size_t{64} << 20U;
  /// With inputs, the file starts empty with the process (an existing one moves to `<path>.1`).
  /// When it grows larger than this, it moves to `<path>.recording`, and only decisions are written
  /// from then on: a recording is only of use from its beginning.
  std::size_t max_recording_bytes = std::size_t{1} << 30U;
};

/// The file, and what is to be written to it.
class DecisionLog {
 public:
  explicit DecisionLog(DecisionLogOptions options);
  /// Ends a recording cleanly.
  ~DecisionLog();
  DecisionLog(const DecisionLog&) = delete;
  DecisionLog& operator=(const DecisionLog&) = delete;

  bool enabled() const { return !options_.path.empty(); }
  /// For engine::Options; null where inputs are not logged.
  engine::InputListener* listener() { return recorder_ ? &*recorder_ : nullptr; }
  /// Thread-safe; writes nothing yet. Call in the order in which the decisions were made.
  void Add(const engine::Decision& decision, std::int64_t now_ms);
  /// Writes the lines added so far. Thread-safe. A line that cannot be written is counted, and
  /// never retried.
  void Flush();
  /// Empty: the file could be opened.
  const std::string& error() const { return error_; }
  std::size_t lost() const { return lost_; }

 private:
  struct Closer {
    void operator()(std::FILE* file) const {
      if (file != nullptr && file != stdout) std::fclose(file);
    }
  };
  struct Entry {
    std::string line;
    const char* then_move_to;  ///< Suffix under which the file is put away after this line; null:
                               ///< it stays.
  };
  void Append(std::string line);
  void AppendInput(std::string line);
  void Open();
  void Write(const Entry& entry);
  void PutAway(const char* suffix);
  void StopRecording();

  const DecisionLogOptions options_;
  std::optional<replay::Recorder> recorder_;

  mutable std::mutex mutex_;  ///< Guards the next three.
  std::vector<Entry> added_;
  std::size_t size_ = 0;  ///< Of the file, once all of it is written.
  bool recording_ = false;

  std::mutex file_mutex_;  ///< Guards the next two. Taken before the other mutex.
  std::unique_ptr<std::FILE, Closer> file_;
  std::string error_;
  std::atomic<std::size_t> lost_ = 0;
};

}  // namespace berth::server
