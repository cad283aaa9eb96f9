// How many of the real components a simulation runs. Every output names it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace berth::sim {

/// From the least of the real components to the most.
enum class Fidelity : std::uint8_t {
  kEngine,     ///< Ledger and placement alone: decisions.
  kInstant,    ///< As kScheduler, but nothing takes time: a pod waits only for decisions and room.
  kScheduler,  ///< In virtual time, with models of kube-scheduler and of the API server.
  kWire,       ///< As kScheduler, but whatever crosses a process boundary does so as bytes, through
               ///< the codecs of kube/, server/verbs/wire and config/.
};

/// As on the command line.
inline constexpr std::string_view Name(Fidelity fidelity) {
  constexpr std::array<std::string_view, 4> kNames{"engine", "instant", "scheduler", "wire"};
  return kNames[static_cast<std::size_t>(fidelity)];
}

}  // namespace berth::sim
