// The API server's error answers, and text for its URLs.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kube/backoff.h"

namespace berth::kube {

/// The metav1.Status in an error body. `code` is the HTTP status when the body has none.
struct ApiStatus {
  int code = 0;
  std::string reason;               ///< `Expired`, `Conflict`, `NotFound`, `Invalid`, ...
  std::string message;              ///< If the body has none: the start of the body.
  std::vector<std::string> causes;  ///< details.causes[].reason
  std::optional<Duration> retry_after;
};

/// Accepts any body.
ApiStatus ParseStatus(std::string_view body, int http_status);

/// Percent-encodes everything but RFC 3986 unreserved characters.
std::string EscapeSegment(std::string_view text);

}  // namespace berth::kube
