// Independent runs on all cores. Each run writes to its own place, so the result does not depend on
// the number of threads.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace berth::sim {

/// A progress line on stderr if that is a terminal; otherwise prints nothing.
class ProgressBar {
 public:
  ProgressBar(std::string title, std::size_t total);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  void Show(std::size_t done) const;

 private:
  std::string title_;
  std::size_t total_;
  bool terminal_;
};

/// Calls run(0) .. run(count - 1), each once, on `threads` threads (0: one per core).
/// `run` must not throw.
void ParallelFor(std::size_t count, unsigned threads, const std::function<void(std::size_t)>& run,
                 const ProgressBar* progress = nullptr);

}  // namespace berth::sim
