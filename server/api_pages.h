// /api/v1/* as handlers over a running host: what the service and the demo both serve.
#pragma once

#include "server/host.h"
#include "server/ops_server.h"

namespace berth::server {

/// Fills `queues`, `gangs`, `nodes` and `why`. `host` must outlive the server.
void AddApiPages(const Host& host, OpsHandlers& handlers);

}  // namespace berth::server
