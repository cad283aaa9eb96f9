// The policies that Berth is compared with, as the simulator of Weng et al., "Beware of
// Fragmentation" (USENIX ATC 2023), defines them (hkust-adsl/kubernetes-scheduler-simulator). They
// use the same tables, search and ledger as Berth's own. Scores are as defined there: whole
// numbers, mostly 0..100. REQUIRES of all: StoreOptions::shares.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "policy/node_scorer.h"

namespace berth::sim {

/// `Random DotProd GpuClustering GpuPacking BestFit FGD`
std::span<const std::string_view> BaselineNames();

/// One of BaselineNames(); null: no policy has that name. Random needs a PlacementRequest::tie_seed
/// per pod, FGD a mix (TypicalPods, WorkloadMix::Fix).
std::unique_ptr<const policy::NodeScorer> MakeBaseline(std::string_view name);

/// floor(100 x sigmoid(x / 1000)) for a fragment that shrinks by x thousandths of a device.
/// `shrinks` is in millionths of those thousandths.
policy::Score FgdScore(std::int64_t shrinks);

}  // namespace berth::sim
