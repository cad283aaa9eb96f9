// The API server's HTTP face, as far as Berth's writes go: requests in the bytes that
// kube/requests.h makes, decoded and applied to the model's objects, and answers in bytes.
//
// Strict where a real server is lenient: a path, a content type or a field that nobody here knows
// is a request that the model cannot carry out, and is said so loudly.
#pragma once

#include <string>

#include "kube/http.h"
#include "sim/world/api_server.h"

namespace berth::sim {

/// The answer of the server itself. `unknown` is set where the request is not understood; the
/// answer is 400 then.
kube::Response Serve(ApiServer& api, const kube::Request& request, std::string& unknown);

/// A metav1.Status, as every answer that is no success has one.
kube::Response StatusResponse(int status, const std::string& message);

}  // namespace berth::sim
