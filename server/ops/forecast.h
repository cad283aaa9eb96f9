// When work that waits is expected to start, as far as that can be told (engine/forecast.h).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "server/ops/parts.h"

namespace berth::server {

/// The forecasts of one page. Each costs some looks at all nodes, in parts of their own.
class Forecasts {
 public:
  /// Work that has more than this many before it in its queue gets no forecast.
  static constexpr std::size_t kMostBefore = 8;
  /// Looks for one page; work of the queues that come after these gets no forecast.
  static constexpr int kMostLooks = 200;

  /// Reads the ends that are expected.
  explicit Forecasts(const InParts& read);
  /// The first time at which the last workload of `line`, which is the line of its queue down to
  /// it, by key, has room and quota beside the work before it. 0: not known.
  engine::TimePoint Of(std::span<const std::string> line);

 private:
  bool HasRoomAt(std::span<const std::string> line, engine::TimePoint at);

  const InParts& read_;
  std::vector<engine::TimePoint> ends_;
  int looks_ = 0;
};

}  // namespace berth::server
