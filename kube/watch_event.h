// One event of a watch, as the API server writes it: `{"type": "ADDED", "object": {...}}`.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace berth::kube {

/// metadata.resourceVersion of an object or a list; empty: there is none.
std::string_view VersionOf(simdjson::dom::element object);

struct WatchEvent {
  enum class Type : std::uint8_t { kUpsert, kDelete, kBookmark, kError };
  Type type = Type::kUpsert;      ///< ADDED and MODIFIED: the same object state may come more than
                                  ///< once.
  simdjson::dom::element object;  ///< A metav1.Status for kError.
  std::string_view version;       ///< The object's; never empty, except for kError.
};

/// nullopt: `line` is not a watch event. Views are valid as long as the parser's buffers.
std::optional<WatchEvent> ReadWatchEvent(simdjson::dom::element line);

}  // namespace berth::kube
