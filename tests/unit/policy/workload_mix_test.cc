// Fragmentation over devices one by one, worked out by hand (Weng et al., ATC 2023, section 3).
#include "policy/workload_mix.h"

#include <vector>

#include "tests/support/catch.h"

namespace berth::policy {
namespace {

topology::DeviceSet Free(const std::vector<int>& free) {
  topology::DeviceSet set(static_cast<int>(free.size()));
  for (std::size_t i = 0; i < free.size(); ++i) {
    set.Take(static_cast<topology::DeviceMask>(1U << i), 1000 - free[i]);
  }
  return set;
}

/// Half of the pods want half a device and 4 cores, 30 % two devices and 8 cores, 20 % none.
NodeMix Mixed() {
  return {.pods = {{.cpu = 4000, .milli = 500, .devices = 1, .millionths = 500'000},
                   {.cpu = 8000, .milli = 1000, .devices = 2, .millionths = 300'000}},
          .unusable = 200'000};
}

TEST_CASE("F of a node, device by device", "[unit][policy]") {
  struct Row {
    std::int64_t cpu;
    std::vector<int> free;
    std::int64_t fragment;
  };
  const std::vector<Row> rows = {
      // Both fit, 300 is too little for either: 0.5 x 300 + 0.3 x 300 + 0.2 x 2300
      {10'000, {1000, 300, 1000, 0}, 700},
      // 6 cores: not for the pair. 0.5 x 300 + 0.3 x 2300 + 0.2 x 2300
      {6'000, {1000, 300, 1000, 0}, 1300},
      // One whole device only: 0.5 x 700 + 0.3 x 1700 + 0.2 x 1700
      {10'000, {400, 300, 1000}, 1200},
      // 500 is enough for a half: 0.5 x 0 + 0.3 x 1000 + 0.2 x 1000
      {10'000, {500, 500}, 500},
      // No cores: everything is lost.
      {1'000, {1000, 1000}, 2000},
      {10'000, {0, 0}, 0},
      // Whole and empty: lost for the pods without devices alone.
      {10'000, {1000, 1000}, 400},
  };
  for (const Row& row : rows) {
    const auto devices = Free(row.free);
    INFO(row.fragment);
    CHECK(Fragment(Mixed(), row.cpu, devices.total(), devices) == row.fragment);
  }
}

TEST_CASE("whole devices: one by one or counted, it is the same", "[unit][policy]") {
  const NodeMix mix = {.pods = {{.cpu = 0, .milli = 1000, .devices = 1, .millionths = 250'000},
                                {.cpu = 0, .milli = 1000, .devices = 2, .millionths = 250'000},
                                {.cpu = 9000, .milli = 1000, .devices = 4, .millionths = 400'000}},
                       .unusable = 100'000};
  for (int taken = 0; taken <= 8; ++taken) {
    for (const std::int64_t cpu : {0, 8'999, 9'000}) {
      const auto devices = topology::DeviceSet::FromCounts(8, 8000 - taken * 1000);
      CHECK(FragmentSum(mix, cpu, devices.total(), devices) ==
            FragmentSum(mix, cpu, devices.total(), {}));
    }
  }
}

}  // namespace
}  // namespace berth::policy
