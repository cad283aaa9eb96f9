// Choice of devices for every set of free ones: DGX-1V, and sixteen devices in four sockets.
#include <benchmark/benchmark.h>

#include <bit>

#include "topology/known_machines.h"

namespace berth::bench {
namespace {

using topology::DeviceMask;

topology::Machine Sixteen() {
  topology::PairTable links{};
  topology::DeviceTable socket{};
  topology::DeviceTable rail{};
  for (std::size_t i = 0; i < 16; ++i) {
    socket[i] = static_cast<std::uint8_t>(i / 4);
    rail[i] = static_cast<std::uint8_t>(i / 2);
    for (std::size_t j = 0; j < 16; ++j) links[i][j] = i != j && i / 8 == j / 8 ? 4 : 0;
  }
  return topology::Machine(topology::Describe(16, links, socket, rail));
}

/// One pass: every set of free devices, and a pod of every size that fits. Time per choice: real
/// time divided by `choices`.
void AllMasks(benchmark::State& state, const topology::Machine& machine) {
  std::int64_t choices = 0;
  for (auto _ : state) {
    for (unsigned free = 1; free <= machine.all(); ++free) {
      for (int wanted = 1; wanted <= std::popcount(free); ++wanted) {
        benchmark::DoNotOptimize(machine.Choose(static_cast<DeviceMask>(free), wanted));
        ++choices;
      }
    }
  }
  state.SetItemsProcessed(choices);
  state.counters["choices"] = static_cast<double>(choices / state.iterations());
}

void ChooseAllMasks8(benchmark::State& state) {
  AllMasks(state, topology::Machine(topology::KnownMachines().front().description));
}
BENCHMARK(ChooseAllMasks8)->Unit(benchmark::kMicrosecond);

void ChooseAllMasks16(benchmark::State& state) { AllMasks(state, Sixteen()); }
BENCHMARK(ChooseAllMasks16)->Unit(benchmark::kMillisecond);

/// The most expensive single choice: eight of sixteen, 12,870 sets.
void ChooseHalfOf16(benchmark::State& state) {
  const topology::Machine machine = Sixteen();
  for (auto _ : state) benchmark::DoNotOptimize(machine.Choose(machine.all(), 8));
}
BENCHMARK(ChooseHalfOf16)->Unit(benchmark::kMicrosecond);

/// The one-time cost of a machine model that was not seen before.
void NewMachineOf16(benchmark::State& state) {
  const topology::MachineDescription description = Sixteen().description();
  for (auto _ : state) benchmark::DoNotOptimize(topology::Machine(description).uniform());
}
BENCHMARK(NewMachineOf16)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace berth::bench
