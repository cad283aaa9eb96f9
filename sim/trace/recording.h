// A cluster and its work as they were recorded, from any of the formats of docs/simulator.md.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "kube/objects.h"
#include "sim/traces.h"
#include "sim/world/timeline.h"

namespace berth::sim {

/// A gang or a lone pod, as its controller creates it: all pods at once.
struct RecordedJob {
  std::string name;
  Duration arrival = 0;  ///< Milliseconds since the first arrival of the recording.
  Duration service = 0;  ///< How long it runs once all its pods do; at least 1 ms.
  std::vector<kube::Pod> pods;

  std::int64_t gpus() const;  ///< Of all its pods.
};

struct Recording {
  std::vector<RecordedJob> jobs;  ///< By rising arrival.
  bool has_arrivals = true;       ///< False: durations alone, arrivals are to be drawn.
  /// What is in the file and cannot be replayed: `NAME: why`.
  std::vector<std::string> left_out;
};

/// `NxG` (N nodes of G GPUs, 128 cores, 1 Ti, racks of 16), a node CSV, or Kubernetes objects.
std::expected<std::vector<kube::Node>, TraceError> ReadCluster(const std::string& source);

struct ClusterGpus {
  std::int64_t all = 0;
  std::int64_t per_node = 1;  ///< Of the node that has most; at least 1.
};
ClusterGpus CountGpus(const std::vector<kube::Node>& nodes);

/// Its text, where it is a file. Split off for ReadCluster.
std::expected<std::vector<kube::Node>, TraceError> ReadNodes(std::string_view text,
                                                             const std::string& file);

/// A pod or job CSV, or Kubernetes objects. A CSV's job that asks for more than a node has becomes
/// a gang; one that asks for more than the cluster has is left out.
std::expected<Recording, TraceError> ReadRecording(const std::string& path,
                                                   const ClusterGpus& gpus);

/// Its text. Split off for ReadRecording.
std::expected<Recording, TraceError> ReadJobs(const std::string& text, const std::string& file,
                                              const ClusterGpus& gpus);

/// Kubernetes objects alone: pods that ended, or that say how long they run; a pod that is there
/// twice is an error. A gang is as many jobs as it had runs. Jobs come by creation, which their
/// arrivals are. Split off for ReadRecording.
std::expected<Recording, TraceError> ReadRecordedPods(const std::string& text,
                                                      const std::string& file);

}  // namespace berth::sim
