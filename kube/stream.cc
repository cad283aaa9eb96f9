#include "kube/stream.h"

#include <algorithm>
#include <array>

namespace berth::kube {

SplitResult LineSplitter::Emit(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line.empty()) return SplitResult::kContinue;
  return on_line_(line) ? SplitResult::kContinue : SplitResult::kStopped;
}

SplitResult LineSplitter::Feed(std::string_view bytes) {
  while (true) {
    const std::size_t end = bytes.find('\n');
    const std::size_t length = std::min(end, bytes.size());
    if (rest_.size() + length > limit_) return SplitResult::kTooLong;
    if (end == std::string_view::npos) {
      rest_.append(bytes);
      return SplitResult::kContinue;
    }
    SplitResult result;
    if (rest_.empty()) {
      result = Emit(bytes.substr(0, end));
    } else {
      rest_.append(bytes.substr(0, end));
      result = Emit(rest_);
      rest_.clear();
    }
    if (result != SplitResult::kContinue) return result;
    bytes.remove_prefix(end + 1);
  }
}

SplitResult LineSplitter::Finish() {
  const SplitResult result = Emit(rest_);
  rest_.clear();
  return result;
}

/// Processes one byte and returns which boundary it was.
ItemSplitter::Boundary ItemSplitter::Step(char c) {
  constexpr std::size_t kKeyLimit = 16;
  if (in_string_) {
    if (escaped_) {
      escaped_ = false;
    } else if (c == '\\') {
      escaped_ = true;
    } else if (c == '"') {
      in_string_ = false;
      return Boundary::kNone;
    }
    if (depth_ == 1 && last_key_.size() < kKeyLimit) last_key_.push_back(c);
    return Boundary::kNone;
  }
  switch (c) {
    case '"':
      in_string_ = true;
      if (depth_ == 1) last_key_.clear();
      return Boundary::kNone;
    case '{':
    case '[':
      ++depth_;
      if (depth_ == 2 && c == '[' && last_key_ == "items") return Boundary::kItemsBegin;
      return depth_ == 3 && in_items_ ? Boundary::kItemBegin : Boundary::kNone;
    case '}':
    case ']':
      --depth_;
      if (depth_ <= 0) complete_ = true;
      if (depth_ == 1 && in_items_) return Boundary::kItemsEnd;
      return depth_ == 2 && in_item_ ? Boundary::kItemEnd : Boundary::kNone;
    default:
      return Boundary::kNone;
  }
}

SplitResult ItemSplitter::Emit(std::string_view tail) {
  if (item_.size() + tail.size() > limit_) return SplitResult::kTooLong;
  if (item_.empty()) return on_item_(tail) ? SplitResult::kContinue : SplitResult::kStopped;
  item_.append(tail);
  const bool more = on_item_(item_);
  item_.clear();
  return more ? SplitResult::kContinue : SplitResult::kStopped;
}

/// The position of the next byte that Step() has to see. It does not need most bytes.
std::size_t ItemSplitter::Skip(std::string_view bytes, std::size_t at) const {
  static constexpr auto kStops = [] {
    std::array<std::uint8_t, 256> stops{};
    for (const char c : std::string_view("{}[]")) stops[static_cast<unsigned char>(c)] = 1;
    stops['\\'] = 2;
    stops['"'] = 1 | 2;
    return stops;
  }();
  if (depth_ == 1 || escaped_) return at;  // The keys of the list itself are collected.
  const std::uint8_t mask = in_string_ ? 2 : 1;
  while (at < bytes.size() && !(kStops[static_cast<unsigned char>(bytes[at])] & mask)) ++at;
  return at;
}

/// True if this many more bytes may be kept of the current item or envelope.
bool ItemSplitter::Fits(std::size_t more) const {
  if (in_items_ && !in_item_) return true;  // Commas and blanks between items are not kept.
  return (in_item_ ? item_ : envelope_).size() + more <= limit_;
}

SplitResult ItemSplitter::Feed(std::string_view bytes) {
  std::size_t start = 0;  // Start of the bytes that belong to the current item, or to the envelope.
  for (std::size_t i = Skip(bytes, 0); i < bytes.size(); i = Skip(bytes, i + 1)) {
    const Boundary boundary = Step(bytes[i]);
    // The result must not depend on where the stream was cut, so check for excess length first.
    if (depth_ < 0) return Fits(i - start) ? SplitResult::kMalformed : SplitResult::kTooLong;
    if (boundary == Boundary::kNone) continue;
    if (boundary == Boundary::kItemsBegin) {
      if (!Fits(i + 1 - start)) return SplitResult::kTooLong;
      in_items_ = true;
      envelope_.append(bytes.substr(start, i + 1 - start));
    } else if (boundary == Boundary::kItemBegin) {
      in_item_ = true;
      start = i;
    } else if (boundary == Boundary::kItemEnd) {
      in_item_ = false;
      const SplitResult result = Emit(bytes.substr(start, i + 1 - start));
      if (result != SplitResult::kContinue) return result;
    } else {
      in_items_ = false;
      start = i;
    }
  }
  if (in_items_ && !in_item_) return SplitResult::kContinue;  // Commas and blanks between items.
  const std::string_view rest = bytes.substr(std::min(start, bytes.size()));
  if (!Fits(rest.size())) return SplitResult::kTooLong;
  (in_item_ ? item_ : envelope_).append(rest);
  return SplitResult::kContinue;
}

}  // namespace berth::kube
