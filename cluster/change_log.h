// The nodes that changed, in order, so that code that keeps data per node looks only at these.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace berth::cluster {

/// Bounded: a reader that has fallen too far behind is told to look at all nodes.
class ChangeLog {
 public:
  using Position = std::uint64_t;
  static constexpr std::size_t kMost = 1U << 15U;

  /// `node` has changed.
  void Add(std::int32_t node) {
    if (log_.size() >= kMost) {
      log_.erase(log_.begin(), log_.begin() + kMost / 2);
      begin_ += kMost / 2;
    }
    log_.push_back(node);
  }

  /// The position of a reader that has seen everything. The first position is 0.
  Position end() const { return begin_ + log_.size(); }

  /// The nodes that changed since `position`, one entry for every change; nullopt: they are no
  /// longer known, look at all nodes. Valid until the next Add.
  std::optional<std::span<const std::int32_t>> Since(Position position) const {
    if (position < begin_) return std::nullopt;
    return std::span(log_).subspan(static_cast<std::size_t>(position - begin_));
  }

 private:
  std::vector<std::int32_t> log_;
  Position begin_ = 0;
};

}  // namespace berth::cluster
