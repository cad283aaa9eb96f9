// What this binary was built from.
#pragma once

#include "server/metrics.h"

namespace berth::server {

#ifndef BERTH_VERSION
#define BERTH_VERSION "0.0.0"
#endif
#ifndef BERTH_COMMIT
#define BERTH_COMMIT "unknown"
#endif

inline BuildInfo ThisBuild() {
  return {.version = BERTH_VERSION, .commit = BERTH_COMMIT, .compiler = "g++ " __VERSION__};
}

}  // namespace berth::server
