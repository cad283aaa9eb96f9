// An HTTP call as values, independent of what sends it: kube/rest_client.h, or a simulated world.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kube/backoff.h"

namespace berth::kube {

struct Request {
  std::string method = "GET";
  std::string path;  ///< From `/`; each segment already escaped, see EscapeSegment().
  std::vector<std::pair<std::string, std::string>> query;  ///< Plain; escaped on the way out.
  std::string content_type = "application/json";           ///< Of `body`; ignored if there is none.
  std::string body;
  std::string accept = "application/json";
  Duration timeout{30'000};  ///< For the whole call, including the wait for a connection; 0: none.
  /// The call must not be sent after this time, by BootClock(): a process may have been frozen
  /// between asking whether it may call and calling.
  std::optional<TimePoint> not_after{};
};

struct Response {
  int status = 0;
  std::string body;
  std::optional<Duration> retry_after;
  bool Ok() const { return status >= 200 && status < 300; }
};

}  // namespace berth::kube
