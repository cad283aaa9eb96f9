// /api/v1/* as handlers over a running host, used by the service and the demo.
#pragma once

#include <chrono>

#include "server/drivers/host_driver.h"
#include "server/ops/ops_server.h"

namespace berth::server {

/// Fills `queues`, `gangs`, `pods`, `nodes`, `why` and /debug/ledger. Each takes the host's lock,
/// which the verbs need, the large ones in parts. A page may be `max_age` old, and is built no more
/// often than that.
/// `host` must outlive the server.
void AddApiPages(const HostDriver& host, std::chrono::milliseconds max_age, OpsHandlers& handlers);

}  // namespace berth::server
