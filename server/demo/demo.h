// `berth demo`: an embedded cluster and a model of kube-scheduler drive the real HTTP verbs on
// loopback with a stream of jobs; the result is drawn, explained and checked.
#pragma once

#include <cstdint>
#include <string>

namespace berth::server {

struct DemoOptions {
  std::string program = "berth";  ///< How it was called, for the commands it suggests.
  std::uint64_t seed = 1;
  bool fast = false;
  std::string cluster{};  ///< Empty: the built-in one.
  bool print_cluster = false;
  bool verbose = false;
  std::string decision_log{};  ///< Empty: none.
};

/// The process's exit code: 1 if a check failed, 3 if no port on loopback is available.
int Demo(const DemoOptions& options);

}  // namespace berth::server
