#include "topology/known_machines.h"

#include <array>
#include <cctype>
#include <string>

namespace berth::topology {
namespace {

constexpr DeviceTable kHalves{0, 0, 0, 0, 1, 1, 1, 1};   // two sockets of four devices
constexpr DeviceTable kInPairs{0, 0, 1, 1, 2, 2, 3, 3};  // two devices and their NICs on a switch
constexpr DeviceTable kAlone{0, 1, 2, 3, 4, 5, 6, 7};    // a NIC for every device

/// NVLinks of the hybrid cube mesh: six per device, and none between most pairs across sockets.
constexpr PairTable kCubeMesh{{{0, 1, 1, 2, 2, 0, 0, 0},
                               {1, 0, 2, 1, 0, 2, 0, 0},
                               {1, 2, 0, 2, 0, 0, 1, 0},
                               {2, 1, 2, 0, 0, 0, 0, 1},
                               {2, 0, 0, 0, 0, 1, 1, 2},
                               {0, 2, 0, 0, 1, 0, 2, 1},
                               {0, 0, 1, 0, 1, 2, 0, 2},
                               {0, 0, 0, 1, 2, 1, 2, 0}}};

/// Behind NVSwitches every pair has all the links that a device has.
constexpr PairTable AllToAll(int links) {
  PairTable table{};
  for (std::size_t i = 0; i < 8; ++i) {
    for (std::size_t j = 0; j < 8; ++j) table[i][j] = i == j ? 0 : links;
  }
  return table;
}

/// Upper case, without characters that only separate words.
std::string Folded(std::string_view text) {
  std::string folded;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) continue;
    folded += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return folded;
}

}  // namespace

std::span<const KnownMachine> KnownMachines() {
  static const std::array<KnownMachine, 4> kMachines{{
      {"DGX-1V", Describe(8, kCubeMesh, kHalves, kInPairs)},
      {"DGX A100", Describe(8, AllToAll(12), kHalves, kInPairs)},
      {"DGX H100", Describe(8, AllToAll(18), kHalves, kAlone)},
      {"DGX H200", Describe(8, AllToAll(18), kHalves, kAlone)},
  }};
  return kMachines;
}

const KnownMachine* FindMachine(std::string_view machine_label, std::string_view product_label) {
  const std::string product = Folded(product_label);
  if (product.find("MIG") != std::string::npos) return nullptr;
  std::string machine = Folded(machine_label);
  if (machine.starts_with("NVIDIA")) machine.erase(0, 6);
  // A DGX-1 may have P100s, which are wired differently.
  const bool volta = product.find("V100") != std::string::npos;
  for (const KnownMachine& known : KnownMachines()) {
    const bool first = &known == KnownMachines().data();
    if (first ? volta && machine.starts_with("DGX1") : machine.starts_with(Folded(known.name))) {
      return &known;
    }
  }
  return nullptr;
}

}  // namespace berth::topology
