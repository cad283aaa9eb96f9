// What happened: a rolling hash of all events and the text of the last ones.
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <cstdint>
#include <deque>
#include <limits>
#include <string>
#include <string_view>

#include "sim/world/timeline.h"

namespace berth::sim {

/// Takes one line for each event of a run.
class EventLog {
 public:
  /// Not even the hash: for experiments, which read neither.
  static constexpr std::size_t kNothing = std::numeric_limits<std::size_t>::max();

  /// Keeps the last `lines` lines; 0: the hash alone.
  EventLog(const Timeline& timeline, std::size_t lines) : timeline_(timeline), lines_(lines) {}

  /// The line is made only if it is kept.
  template <std::invocable Make>
  void Say(const Make& make) {
    if (lines_ != kNothing) Add(make());
  }
  template <typename... Args>
  void Say(fmt::format_string<Args...> format, Args&&... args) {
    if (lines_ != kNothing) Add(fmt::format(format, std::forward<Args>(args)...));
  }

  /// FNV-1a over every line and its time.
  std::uint64_t hash() const { return hash_; }
  const std::deque<std::string>& last() const { return last_; }

 private:
  void Add(const std::string& line) {
    const auto mix = [this](std::uint64_t byte) { hash_ = (hash_ ^ byte) * 0x100000001b3U; };
    for (const char c : line) mix(static_cast<unsigned char>(c));
    mix(static_cast<std::uint64_t>(timeline_.now()));
    if (lines_ == 0) return;
    if (last_.size() == lines_) last_.pop_front();
    last_.push_back(fmt::format("{:>10.3f} #{:<6} {}",
                                static_cast<double>(timeline_.now() % 100'000'000) / 1000.0,
                                timeline_.steps(), line));
  }

  const Timeline& timeline_;
  std::size_t lines_;
  std::uint64_t hash_ = 0xcbf29ce484222325U;
  std::deque<std::string> last_;
};

}  // namespace berth::sim
