// Which nodes changed, in order, so that whoever keeps something per node looks at those alone.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace berth::cluster {

/// Bounded: a reader that stayed away for too long is told to look at all nodes.
class ChangeLog {
 public:
  using Position = std::uint64_t;
  static constexpr std::size_t kMost = 1U << 15U;

  void Add(std::int32_t node) {
    if (log_.size() >= kMost) {
      log_.erase(log_.begin(), log_.begin() + kMost / 2);
      begin_ += kMost / 2;
    }
    log_.push_back(node);
  }

  /// Where a reader that has seen everything stands. The first is 0.
  Position end() const { return begin_ + log_.size(); }

  /// Nodes that changed since `position`, a node once for every change; nullopt: they are not
  /// known any more, look at all. Valid until the next Add.
  std::optional<std::span<const std::int32_t>> Since(Position position) const {
    if (position < begin_) return std::nullopt;
    return std::span(log_).subspan(static_cast<std::size_t>(position - begin_));
  }

 private:
  std::vector<std::int32_t> log_;
  Position begin_ = 0;
};

}  // namespace berth::cluster
