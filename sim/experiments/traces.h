// The traces that experiments use, as plain values. Formats: docs/simulator.md.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/experiments/csv.h"

namespace berth::sim {

template <typename T>
using Traced = std::expected<std::vector<T>, InputError>;

/// A node of the openb cluster (FGD, USENIX ATC 2023).
struct OpenbNode {
  std::string name;
  std::int64_t cpu_milli = 0;
  std::int64_t memory_mib = 0;
  std::int64_t gpus = 0;
  std::string model{};  ///< Empty without GPUs.
  std::string rack{};   ///< Not in the files: set by experiments that add racks.
};

/// A pod of an openb list: a share of one GPU, or whole GPUs, or none.
struct OpenbPod {
  std::string name;
  std::int64_t cpu_milli = 0;
  std::int64_t memory_mib = 0;
  std::int64_t gpus = 0;       ///< 0..64
  std::int64_t gpu_milli = 0;  ///< Of each GPU: 1..1000; 1000 when gpus > 1; 0 when gpus = 0.
  std::vector<std::string> models{};          ///< Allowed GPU models; empty: any.
  std::int64_t creation_s = 0;                ///< Seconds of the trace; 0 in lists without times.
  std::optional<std::int64_t> scheduled_s{};  ///< Absent: it never ran.
  std::optional<std::int64_t> deletion_s{};
  std::string qos{};

  /// The sum over all its GPUs.
  std::int64_t total_gpu_milli() const { return gpus * gpu_milli; }
};

/// A job: a number of GPUs for some time.
struct TraceJob {
  std::int64_t arrival_s = 0;   ///< 0 in files without arrivals.
  std::int64_t duration_s = 0;  ///< 0 in files without durations.
  std::int64_t gpus = 0;
  std::string group{};  ///< Virtual cluster or model, where the file has one.
};

/// `sn,cpu_milli,memory_mib,gpu,model`
Traced<OpenbNode> ReadOpenbNodes(std::string_view text, const std::string& file);
/// `name,cpu_milli,memory_mib,num_gpu,gpu_milli`, alone or with
/// `,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time`
Traced<OpenbPod> ReadOpenbPods(std::string_view text, const std::string& file);
/// `duration_s,gpus` (philly-gavel)
Traced<TraceJob> ReadPhillyDurations(std::string_view text, const std::string& file);
/// `vc,arrival_s,gpus` (philly-gavel)
Traced<TraceJob> ReadPhillyArrivals(std::string_view text, const std::string& file);
/// `job_id,model,gpus,mode,total_steps,duration_s,arrival_s` (shockwave-tacc)
Traced<TraceJob> ReadTacc(std::string_view text, const std::string& file);
/// `job_id,num_gpu,submit_time,iterations,model_name,duration,interval` (tiresias)
Traced<TraceJob> ReadTiresias(std::string_view text, const std::string& file);

/// Reads a whole file with one of the readers above.
template <typename T>
Traced<T> ReadTrace(const std::string& path,
                    Traced<T> (*reader)(std::string_view, const std::string&)) {
  const auto text = ReadInputFile(path);
  if (!text) return std::unexpected(text.error());
  return reader(*text, path);
}

}  // namespace berth::sim
