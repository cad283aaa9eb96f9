// /api/v1/* as handlers over a running host: what the service and the demo both serve.
#pragma once

#include <chrono>

#include "server/host.h"
#include "server/ops_server.h"

namespace berth::server {

/// Fills `queues`, `gangs`, `pods`, `nodes`, `why` and /debug/ledger. Each takes the engine's lock,
/// which the verbs wait for: so a page may be `max_age` old, and is made no more often than that.
/// `host` must outlive the server.
void AddApiPages(const Host& host, std::chrono::milliseconds max_age, OpsHandlers& handlers);

}  // namespace berth::server
