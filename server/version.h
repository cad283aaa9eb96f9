// What this binary was built from.
#pragma once

#include "server/metrics.h"

namespace berth::server {

/// The commit has `-dirty` after it where the tree differed; `unknown` outside a git checkout.
BuildInfo ThisBuild();

}  // namespace berth::server
