// The demo's stream of jobs: what three teams submit, and when. At first product has little to do,
// and research borrows its quota; an urgent job of research takes the room of other work of
// research; then product's own work comes, and takes back what it lent.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "config/policy_configuration.h"

namespace berth::server {

/// The device resource that the demo's cluster and jobs use.
inline constexpr const char* kGpu = "nvidia.com/gpu";

/// One job: pods of one shape. A gang when it has more than one pod.
struct DemoJob {
  std::string name;
  std::string team;  ///< Namespace and queue.
  int pods = 1;
  int gpus = 1;  ///< For each pod.
  bool whole_node = false;
  std::int32_t priority = 0;
  bool gated = false;       ///< Waits behind Berth's scheduling gate, outside the scheduler.
  std::string required{};   ///< Topology domain level that all members must share.
  std::string preferred{};  ///< The same as a preference.
  std::int64_t at_ms = 0;
  std::int64_t run_ms = 0;
  int late = 0;              ///< Members that are created `late_ms` after the others.
  std::int64_t late_ms = 0;  ///< Negative: they are never created.
  int round = 0;             ///< How often it was evicted; each time its pods are new ones.

  bool gang() const { return pods > 1; }
  /// `index` from 0 to pods - 1. Both are new after each eviction.
  std::string PodName(int index) const;
  std::string PodUid(int index) const;
  /// Its name in Berth, as in the annotation berth.dev/evicted-for.
  std::string WorkloadKey() const;
  /// `8x8`, `1 GPU`, `whole node`.
  std::string Shape() const;
};

/// Jobs by arrival, the same for the same arguments. Their work is more than `gpus` devices can do
/// in `length_ms`, so that some of it waits.
std::vector<DemoJob> DemoStream(std::uint64_t seed, int gpus, std::int64_t length_ms, double pace);

/// The pod as its controller would create it.
nlohmann::json DemoPod(const DemoJob& job, int index, std::int64_t now_ms);

/// Three teams with quota and limit in proportion to `gpus`. They lend each other what they do not
/// use, and take it back.
config::PolicyConfiguration DemoPolicy(int gpus);

}  // namespace berth::server
