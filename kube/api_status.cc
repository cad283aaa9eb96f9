#include "kube/api_status.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>

namespace berth::kube {

std::string EscapeSegment(std::string_view text) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_' || c == '~';
    if (plain) {
      out.push_back(c);
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out.push_back('%');
      out.push_back(kHex[byte >> 4]);
      out.push_back(kHex[byte & 15]);
    }
  }
  return out;
}

ApiStatus ParseStatus(std::string_view body, int http_status) {
  constexpr std::size_t kExcerpt = 256;
  ApiStatus status{.code = http_status,
                   .reason = {},
                   .message = std::string(body.substr(0, kExcerpt)),
                   .causes = {},
                   .retry_after = {}};
  const auto json = nlohmann::json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || json.value("kind", nlohmann::json()) != "Status") return status;
  const auto text = [](const nlohmann::json& object, const char* key) {
    const auto at = object.find(key);
    return at != object.end() && at->is_string() ? at->get<std::string>() : std::string();
  };
  const auto number = [](const nlohmann::json& object, const char* key) -> std::int64_t {
    const auto at = object.find(key);
    return at != object.end() && at->is_number_integer() ? at->get<std::int64_t>() : 0;
  };
  if (const auto code = number(json, "code"); code >= 100 && code <= 599) {
    status.code = static_cast<int>(code);
  }
  status.reason = text(json, "reason");
  status.message = text(json, "message");
  const auto details = json.find("details");
  if (details == json.end() || !details->is_object()) return status;
  if (const auto seconds = number(*details, "retryAfterSeconds"); seconds > 0) {
    status.retry_after = std::chrono::seconds(std::min<std::int64_t>(seconds, 3600));
  }
  if (const auto causes = details->find("causes"); causes != details->end() && causes->is_array()) {
    for (const auto& cause : *causes) {
      if (cause.is_object()) status.causes.push_back(text(cause, "reason"));
    }
  }
  return status;
}

}  // namespace berth::kube
