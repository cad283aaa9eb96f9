// Why a workload could not be placed: the true blocker, found by relaxing one condition at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "policy/fit.h"

namespace berth::policy {

struct PlacementRequest;

/// Members of one shape.
struct ShapeGroup {
  std::shared_ptr<const cluster::PodShape> shape;
  std::vector<const cluster::PodInfo*> pods;
};

/// By shape, the hardest to place first (whole node, devices, CPU, then order of appearance).
std::vector<ShapeGroup> GroupByShape(std::span<const cluster::PodInfo* const> pods);

/// Whether the nodes that match, if they were empty, could not hold some pods: of work that was not
/// judged yet, what ExplainShortage will say of it. False where no node matches. What it computes
/// is remembered by shape, so that the next pods like these cost no look at the nodes: make one
/// for many workloads, and use it until nodes or pods change.
class EmptyRoom {
 public:
  /// Both must outlive it.
  EmptyRoom(const cluster::Store& store, FitCache& fit) : store_(&store), fit_(&fit) {}
  bool NeverFits(std::span<const cluster::PodInfo* const> pods);

 private:
  /// What the nodes before `next` could hold of one shape. The others are looked at when more is
  /// asked for: mostly the first ones are enough.
  struct Count {
    std::size_t next = 0;
    std::ptrdiff_t room = 0;
    bool matches = false;
  };
  bool Holds(const cluster::PodShape& shape, std::ptrdiff_t pods);

  const cluster::Store* store_;
  FitCache* fit_;
  std::unordered_map<const cluster::PodShape*, Count> counts_;
};

/// REQUIRES: Place() found nothing for these groups. The verdict's numbers are those of the group
/// that lacks room; see cluster::Verdict.
cluster::Verdict ExplainShortage(const PlacementRequest& request,
                                 const std::vector<ShapeGroup>& groups, const Overlay& base,
                                 FitCache& fit);

}  // namespace berth::policy
