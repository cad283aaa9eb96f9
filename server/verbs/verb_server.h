// POST /filter /prioritize /bind /preempt: from HTTP to a VerbHandler and back.
#pragma once

#include "server/http/http_server.h"
#include "server/logging.h"
#include "server/ops/metrics.h"
#include "server/verbs/verbs.h"

namespace berth::server {

/// Registers the four verbs. All must outlive the server.
///
/// A body that cannot be decoded is answered with 200 and an Error text for filter and bind, which
/// kube-scheduler shows to the user; prioritize and preempt have no such field and get an empty
/// 400; it is counted, and logged at most once a second. Unavailable becomes its status, an empty
/// body and the end of the connection, so that the scheduler's next call reaches the replica that
/// can answer.
void ServeVerbs(HttpServer& server, VerbHandler& handler, Metrics& metrics, Logger& logger);

}  // namespace berth::server
