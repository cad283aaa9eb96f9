// A watch at fidelity `wire`: every event as a line and every list as one document, in the bytes
// that the API server sends, decoded as Berth decodes them (kube/stream.h, kube/watch_event.h,
// kube/decode.h; the policy as server/drivers/informers and config/ do).
#pragma once

#include <simdjson.h>

#include <expected>
#include <optional>
#include <string>
#include <string_view>

#include "kube/stream.h"
#include "sim/world/api_server.h"

namespace berth::sim {

/// The reader of one stream. Errors describe what did not arrive as it was sent.
class WatchBytes {
 public:
  explicit WatchBytes(Kind kind) : kind_(kind) {}
  WatchBytes(const WatchBytes&) = delete;
  WatchBytes& operator=(const WatchBytes&) = delete;

  /// Encodes one event and decodes it again.
  std::expected<Change, std::string> Event(const Change& change);

  /// A list from its beginning to its end, item by item.
  void BeginList();
  std::expected<Change, std::string> Item(const Change& change);
  /// Empty text: the list has arrived completely.
  std::string EndList();

 private:
  bool Read(simdjson::dom::element object);
  std::expected<Change, std::string> Arrived(const Change& sent, bool whole);

  const Kind kind_;
  simdjson::dom::parser parser_;
  Change read_;        ///< Content of the last piece.
  bool has_ = false;   ///< Whether there was one.
  std::string error_;  ///< Error of decoding it.
  bool first_ = true;  ///< The list has had no item yet.
  const kube::PieceFunction on_item_ = [this](std::string_view item) {
    simdjson::dom::element object;
    return parser_.parse(item.data(), item.size()).get(object) == simdjson::SUCCESS && Read(object);
  };
  std::optional<kube::ItemSplitter> items_;
};

}  // namespace berth::sim
