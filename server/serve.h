// `berth serve`: wires the service together and runs it until a signal.
#pragma once

#include "server/serve_options.h"

namespace berth::server {

/// The process's exit code (CONTRACT: 0 fine, 1 bad input, 2 usage, 3 environment).
int Serve(const ServeOptions& options);

}  // namespace berth::server
