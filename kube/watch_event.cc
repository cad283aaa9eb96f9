#include "kube/watch_event.h"

#include <simdjson.h>

#include <array>
#include <utility>

namespace berth::kube {
namespace {

std::optional<WatchEvent::Type> TypeFrom(std::string_view text) {
  using enum WatchEvent::Type;
  static constexpr std::array<std::pair<std::string_view, WatchEvent::Type>, 5> kTypes{
      {{"ADDED", kUpsert},
       {"MODIFIED", kUpsert},
       {"DELETED", kDelete},
       {"BOOKMARK", kBookmark},
       {"ERROR", kError}}};
  for (const auto& [name, type] : kTypes) {
    if (name == text) return type;
  }
  return std::nullopt;
}

}  // namespace

std::string_view VersionOf(simdjson::dom::element object) {
  std::string_view version;
  if (object["metadata"]["resourceVersion"].get(version) != simdjson::SUCCESS) return {};
  return version;
}

std::optional<WatchEvent> ReadWatchEvent(simdjson::dom::element line) {
  std::string_view text;
  WatchEvent event;
  if (line["type"].get(text) != simdjson::SUCCESS ||
      line["object"].get(event.object) != simdjson::SUCCESS) {
    return std::nullopt;
  }
  const auto type = TypeFrom(text);
  if (!type) return std::nullopt;
  event.type = *type;
  event.version = VersionOf(event.object);
  if (event.version.empty() && event.type != WatchEvent::Type::kError) return std::nullopt;
  return event;
}

}  // namespace berth::kube
