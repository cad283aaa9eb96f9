// The use of the demo's queues over time, from the service's page of queues, and its chart.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "server/demo/demo_evictions.h"
#include "server/demo/demo_picture.h"

namespace berth::server {

/// Samples of what queues use, in kColumns equal parts of the demo.
class QueueHistory {
 public:
  static constexpr std::size_t kColumns = 60;

  /// Of one queue; GPUs.
  struct Queue {
    std::string name;
    int quota = 0;
    int limit = 0;
    std::vector<int> used{};   ///< By column; as long as there was one, the last is the latest.
    std::vector<int> share{};  ///< Its fair share, in the same columns.
  };

  /// `length_ms` above 0.
  explicit QueueHistory(std::int64_t length_ms) : length_ms_(length_ms) {}

  /// Whether the column of this moment has no sample yet.
  bool Due(std::int64_t now_ms) const;
  /// A sample, the service's /api/v1/queues. Columns that were missed repeat what was before.
  void Add(std::int64_t now_ms, const nlohmann::ordered_json& page);

  const std::vector<Queue>& queues() const { return queues_; }
  std::int64_t length_ms() const { return length_ms_; }
  /// kColumns or more: after the end.
  std::size_t ColumnOf(std::int64_t now_ms) const;

 private:
  std::int64_t length_ms_;
  std::vector<Queue> queues_;
};

/// One area for each queue, on one scale, with its quota as a line and its fair share as marks;
/// below them the time, and when jobs were evicted. `gpus`: of the cluster. An area ends at the
/// queue's limit: while victims end, the page counts their room twice, for them and for who gets
/// it.
std::string DrawHistory(const QueueHistory& history, const std::vector<JobEviction>& evictions,
                        int gpus, const PictureStyle& style);

}  // namespace berth::server
