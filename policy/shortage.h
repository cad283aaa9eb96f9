// Why a workload could not be placed: the true blocker, found by relaxing one condition at a time.
#pragma once

#include <memory>
#include <span>
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

/// REQUIRES: Place() found nothing for these groups. The verdict's numbers are the ones of the
/// group that lacks room; see cluster::Verdict.
cluster::Verdict ExplainShortage(const PlacementRequest& request,
                                 const std::vector<ShapeGroup>& groups, const Overlay& base,
                                 FitCache& fit);

}  // namespace berth::policy
