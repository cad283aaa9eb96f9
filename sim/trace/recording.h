// A recorded cluster and its workloads, from any of the formats of docs/simulator.md.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "kube/objects.h"
#include "sim/experiments/traces.h"
#include "sim/world/timeline.h"

namespace berth::sim {

/// A gang or a lone pod. Its controller creates all pods at once.
struct RecordedJob {
  std::string name;
  Duration arrival = 0;  ///< Milliseconds since the first arrival of the recording.
  Duration service = 0;  ///< How long it runs once all its pods run; at least 1 ms.
  std::vector<kube::Pod> pods;

  std::int64_t gpus() const;  ///< Sum over all its pods.
};

/// The jobs of a trace, ready to be replayed.
struct Recording {
  std::vector<RecordedJob> jobs;  ///< By rising arrival.
  bool has_arrivals = true;       ///< False: the file has durations only, and arrivals are to be
                                  ///< drawn.
  /// What is in the file but cannot be replayed: `NAME: why`.
  std::vector<std::string> left_out;
};

/// `NxG` (N nodes of G GPUs, 128 cores, 1 Ti, racks of 16), a node CSV, or Kubernetes objects.
std::expected<std::vector<kube::Node>, InputError> ReadCluster(const std::string& source);

/// A node of an openb list as Kubernetes shows it.
kube::Node MakeOpenbNode(const OpenbNode& row);

/// A job of a CSV without CPU and memory columns, named by its index: on nodes of so many GPUs a
/// pod, or a gang of whole nodes and what is left.
RecordedJob MakeJob(const TraceJob& job, std::size_t index, std::int64_t gpus_per_node);

/// How many GPUs a cluster has.
struct ClusterGpus {
  std::int64_t all = 0;
  std::int64_t per_node = 1;  ///< GPUs of the node that has most; at least 1.
};
/// Counts what the nodes report as allocatable.
ClusterGpus CountGpus(const std::vector<kube::Node>& nodes);

/// The same for the text of a file. Split off for ReadCluster.
std::expected<std::vector<kube::Node>, InputError> ReadNodes(std::string_view text,
                                                             const std::string& file);

/// Reads a pod or job CSV, or Kubernetes objects. A job of a CSV that asks for more GPUs than a
/// node has becomes a gang; one that asks for more than the cluster has is left out.
std::expected<Recording, InputError> ReadRecording(const std::string& path,
                                                   const ClusterGpus& gpus);

/// The same for the text of a file. Split off for ReadRecording.
std::expected<Recording, InputError> ReadJobs(const std::string& text, const std::string& file,
                                              const ClusterGpus& gpus);

/// Pods of an openb list as jobs of one pod, by rising arrival. Pods that never ran are left out,
/// and shares of a GPU.
Recording RecordingOf(const std::vector<OpenbPod>& pods);

/// Kubernetes objects only: pods that have ended, or that say how long they run; a pod that occurs
/// twice is an error. A gang becomes as many jobs as it had runs. Jobs are ordered by creation,
/// which is also their arrival. Split off for ReadRecording.
std::expected<Recording, InputError> ReadRecordedPods(const std::string& text,
                                                      const std::string& file);

}  // namespace berth::sim
