// The API server's HTTP interface, limited to the writes that Berth makes: requests in the bytes
// that kube/requests.h makes, decoded and applied to the model's objects, and answers in bytes.
//
// It is strict where a real server is lenient: a path, a content type or a field that is not known
// here is a request that the model cannot carry out, and it is reported as an error.
#pragma once

#include <string>

#include "kube/http.h"
#include "sim/world/api_server.h"

namespace berth::sim {

/// Returns the server's answer. If the request is not understood, sets `unknown` to the reason and
/// answers 400.
kube::Response Serve(ApiServer& api, const kube::Request& request, std::string& unknown);

/// A metav1.Status, which every answer other than a success carries.
kube::Response StatusResponse(int status, const std::string& message);

}  // namespace berth::sim
