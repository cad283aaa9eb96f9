// The source that this binary was built from.
#pragma once

#include "server/ops/metrics.h"

namespace berth::server {

/// The commit is followed by `-dirty` if the tree differed; `unknown` outside a git checkout.
BuildInfo ThisBuild();

}  // namespace berth::server
