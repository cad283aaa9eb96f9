#include "sim/experiments/parallel.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

namespace berth::sim {

ProgressBar::ProgressBar(std::string title, std::size_t total)
    : title_(std::move(title)), total_(total), terminal_(isatty(STDERR_FILENO) == 1) {
  Show(0);
}

ProgressBar::~ProgressBar() {
  if (terminal_) fmt::print(stderr, "\r\x1b[K");
}

void ProgressBar::Show(std::size_t done) const {
  if (!terminal_ || total_ == 0) return;
  constexpr std::size_t kWidth = 30;
  const std::size_t full = kWidth * done / total_;
  fmt::print(stderr, "\r{} [{}{}] {}/{}", title_, std::string(full, '#'),
             std::string(kWidth - full, '.'), done, total_);
}

void ParallelFor(std::size_t count, unsigned threads, const std::function<void(std::size_t)>& run,
                 const ProgressBar* progress) {
  if (threads == 0) threads = std::max(1U, std::thread::hardware_concurrency());
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::size_t done = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      run(i);
      const std::lock_guard lock(mutex);
      ++done;
      if (progress != nullptr) progress->Show(done);
    }
  };
  std::vector<std::jthread> pool;
  for (unsigned t = 1; t < std::min<std::size_t>(threads, count); ++t) pool.emplace_back(work);
  work();
}

}  // namespace berth::sim
