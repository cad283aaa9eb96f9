// `--decision-log FILE|-`: one JSON line per decision, bounded and rotated. With
// `--decision-log-inputs` also a line for everything that goes into the engine, so that
// `berth simulate replay` can decide the same again.
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
#include "replay/recorder.h"

namespace berth::server {

struct DecisionLogOptions {
  std::string path{};  ///< Empty: off. `-`: standard output, which has no bound.
  bool inputs = false;
  /// Without inputs: a file that passes this moves to `<path>.1`; the one before that is dropped.
  std::size_t max_bytes = std::size_t{64} << 20U;
  /// With inputs the file begins anew with the process (what was there moves to `<path>.1`). When
  /// it passes this it moves to `<path>.recording`, and only decisions are written from then on: a
  /// recording is of use from its begin only.
  std::size_t max_recording_bytes = std::size_t{1} << 30U;
};

class DecisionLog {
 public:
  explicit DecisionLog(DecisionLogOptions options);
  /// Ends a recording in good order.
  ~DecisionLog();
  DecisionLog(const DecisionLog&) = delete;
  DecisionLog& operator=(const DecisionLog&) = delete;

  bool enabled() const { return !options_.path.empty(); }
  /// For engine::Options; null where inputs are not logged.
  engine::InputListener* listener() { return recorder_ ? &*recorder_ : nullptr; }
  /// Thread-safe; writes nothing yet. Call in the order in which decisions were made.
  void Add(const engine::Decision& decision, std::int64_t now_ms);
  /// Writes what was added. Thread-safe. A line that cannot be written is counted, never waited
  /// for.
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
    const char* then_move_to;  ///< Suffix under which the file is put away after it; null: stays.
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

  std::mutex file_mutex_;  ///< Guards the next two. Taken before the other one.
  std::unique_ptr<std::FILE, Closer> file_;
  std::string error_;
  std::atomic<std::size_t> lost_ = 0;
};

}  // namespace berth::server
