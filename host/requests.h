// Which request to the API server carries out an order of a host, and what the answer means for the
// host. Pure. Both drivers send these requests: server/drivers/kube_api.h, and
// sim/world/api_client.h in virtual time.
#pragma once

#include <expected>
#include <string>
#include <variant>

#include "host/orders.h"
#include "kube/attempts.h"
#include "kube/http.h"
#include "kube/requests.h"

namespace berth::host {

/// The orders that the API server carries out.
using ApiOrder = std::variant<Nominate, RemoveGate, MarkVictim, Evict, FindObject, ReadJobs,
                              SuspendJob, ReadPod, PostBinding>;

/// The pod, as requests name it.
kube::PodRef RefOf(const engine::PodRef& pod);

Id IdOf(const ApiOrder& order);

/// Requests of the same key are made one after the other, in the order of their orders; a Binding
/// is posted at once.
std::string KeyOf(const ApiOrder& order);

/// The request, with the time that all its attempts together may take. A GET is made by whoever
/// asks for it; any other request only by the leader. `now` is noted in what is written. The error
/// is the result without a request: no object can have that name.
std::expected<kube::Request, Result> RequestOf(const ApiOrder& order, kube::MicroTime now);

// The annotations that they write.
kube::AnnotationPatch AnnotationsOf(const Nominate& order);
kube::AnnotationPatch AnnotationsOf(const MarkVictim& order);

/// What `answer` means, without what was read.
Result OutcomeOf(const ApiOrder& order, const kube::WriteResult& answer);
/// The same, with the pod or the Jobs that were read.
Result ResultOf(const ApiOrder& order, const kube::WriteResult& answer);

}  // namespace berth::host
