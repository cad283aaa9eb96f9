// An HTTP call as values, whoever carries it: kube/rest_client.h, or a simulated world.
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
  std::string content_type = "application/json";           ///< Of `body`; ignored without one.
  std::string body;
  Duration timeout{30'000};  ///< For the whole call, waiting for a connection included; 0: none.
  /// And not beyond this, by BootClock(): for who was frozen between asking whether it may call and
  /// calling.
  std::optional<TimePoint> not_after{};
};

struct Response {
  int status = 0;
  std::string body;
  std::optional<Duration> retry_after;
  bool Ok() const { return status >= 200 && status < 300; }
};

}  // namespace berth::kube
