// Devices of one node, whole and in shares.
#include "topology/device_set.h"

#include <vector>

#include "tests/support/catch.h"

namespace berth::topology {
namespace {

/// A set with this much free on each device.
DeviceSet Free(const std::vector<int>& free) {
  DeviceSet set(static_cast<int>(free.size()));
  for (std::size_t i = 0; i < free.size(); ++i) {
    set.Take(static_cast<DeviceMask>(1U << i), DeviceSet::kWhole - free[i]);
  }
  return set;
}

std::vector<int> Numbers(const DeviceSet& set) {
  std::vector<int> numbers;
  for (int i = 0; i < set.size(); ++i) numbers.push_back(set.free(i));
  return numbers;
}

using List = std::vector<int>;

TEST_CASE("what is free, and what fits", "[unit][topology]") {
  struct Row {
    List free;
    int total;
    int whole;
    int share;
    DeviceMask open;      // for the share
    DeviceMask tightest;  // for the share
  };
  const std::vector<Row> rows = {
      {{}, 0, 0, 1, 0, 0},
      {{1000, 1000}, 2000, 2, 400, 0b11, 0b01},
      {{1000, 400, 700}, 2100, 1, 400, 0b111, 0b010},
      {{1000, 399, 700}, 2099, 1, 400, 0b101, 0b100},
      {{700, 1000, 700}, 2400, 1, 500, 0b111, 0b001},  // the lowest index of equal ones
      {{0, 0, 100}, 100, 0, 400, 0, 0},
      {{1000}, 1000, 1, 0, 0, 0},  // a share of nothing
  };
  for (const Row& row : rows) {
    const DeviceSet set = Free(row.free);
    INFO(row.total << " with " << row.share);
    CHECK(Numbers(set) == row.free);
    CHECK(set.total() == row.total);
    CHECK(set.WholeFree() == row.whole);
    CHECK(set.AtLeast(row.share) == row.open);
    CHECK(set.Tightest(row.share) == row.tightest);
  }
}

TEST_CASE("whole devices: the fully free ones of the lowest index", "[unit][topology]") {
  const DeviceSet set = Free({300, 1000, 0, 1000, 1000});
  CHECK(set.LowestWhole(0) == 0);
  CHECK(set.LowestWhole(1) == 0b00010);
  CHECK(set.LowestWhole(2) == 0b01010);
  CHECK(set.LowestWhole(3) == 0b11010);
  CHECK(set.LowestWhole(4) == 0);
}

TEST_CASE("what is taken can be given back, and nothing else", "[unit][topology]") {
  DeviceSet set = Free({1000, 600, 1000});
  CHECK(set.Take(0b101, 1000));
  CHECK(Numbers(set) == List{0, 600, 0});
  CHECK(set.Take(0b010, 600));
  CHECK_FALSE(set.Take(0b010, 1));
  CHECK_FALSE(set.Take(0, 100));
  CHECK_FALSE(set.Take(0b1000, 100));  // there is no fourth
  CHECK(set.GiveBack(0b010, 600));
  CHECK_FALSE(set.GiveBack(0b010, 401));
  CHECK_FALSE(set.GiveBack(0b110, 500));  // one of the two cannot: neither does
  CHECK_FALSE(set.GiveBack(0b1000, 1));
  CHECK(set.GiveBack(0b101, 1000));
  CHECK(set == Free({1000, 600, 1000}));
}

TEST_CASE("made from counts", "[unit][topology]") {
  CHECK(Numbers(DeviceSet::FromCounts(3, 3000)) == List{1000, 1000, 1000});
  CHECK(Numbers(DeviceSet::FromCounts(3, 1250)) == List{0, 250, 1000});
  CHECK(Numbers(DeviceSet::FromCounts(3, 0)) == List{0, 0, 0});
  CHECK(Numbers(DeviceSet::FromCounts(2, -500)) == List{0, 0});
  CHECK(Numbers(DeviceSet::FromCounts(2, 9000)) == List{1000, 1000});
  CHECK(DeviceSet(99).size() == DeviceSet::kMost);
}

TEST_CASE("equal sets have equal words", "[unit][topology]") {
  DeviceSet a = Free({1000, 600});
  CHECK(a == Free({1000, 600}));
  CHECK(a.words() == Free({1000, 600}).words());
  CHECK(a.words() != Free({600, 1000}).words());
  CHECK(DeviceSet(a.words(), a.size()) == a);
  // Only the size tells a taken device from one that does not exist.
  CHECK(Free({1000, 0}).words() == Free({1000}).words());
  CHECK_FALSE(Free({1000, 0}) == Free({1000}));
}

TEST_CASE("every different way to place a share", "[unit][topology]") {
  std::vector<std::pair<DeviceMask, List>> ways;
  Free({300, 1000, 500, 1000, 500}).ForEachShare(400, [&](DeviceMask alike, const DeviceSet& set) {
    ways.emplace_back(alike, Numbers(set));
  });
  CHECK(ways == std::vector<std::pair<DeviceMask, List>>{
                    {0b01010, {300, 600, 500, 1000, 500}},
                    {0b10100, {300, 1000, 100, 1000, 500}},
                });
}

}  // namespace
}  // namespace berth::topology
