// Splits answers while they arrive, so that an answer is never held completely: lines of a watch,
// items of a list.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace berth::kube {

/// Gets one piece; false stops the splitter.
using PieceFunction = std::function<bool(std::string_view)>;

enum class SplitResult : std::uint8_t {
  kContinue,
  kStopped,    ///< The piece function asked to stop.
  kTooLong,    ///< A piece exceeded the limit.
  kMalformed,  ///< Not the format that was expected.
};

/// Cuts a byte stream into lines without their ends; empty lines are dropped.
class LineSplitter {
 public:
  /// `limit`: bytes of one line. `on_line` must outlive the splitter.
  LineSplitter(std::size_t limit, const PieceFunction& on_line)
      : limit_(limit), on_line_(on_line) {}

  /// The next bytes of the stream, in pieces of any size.
  SplitResult Feed(std::string_view bytes);
  /// Emits the remaining bytes without a line end, if any.
  SplitResult Finish();

 private:
  SplitResult Emit(std::string_view line);

  std::size_t limit_;
  const PieceFunction& on_line_;
  std::string rest_;
};

/// Cuts a Kubernetes list into the objects of its top-level `items`, and keeps the rest, with an
/// empty `items`, as the envelope. It only finds boundaries: pieces still have to be parsed.
/// A list of 140,000 pods (700 MB) thus needs the memory of one pod.
class ItemSplitter {
 public:
  /// `limit`: bytes of one item, and of the envelope. `on_item` must outlive the splitter.
  ItemSplitter(std::size_t limit, const PieceFunction& on_item)
      : limit_(limit), on_item_(on_item) {}

  SplitResult Feed(std::string_view bytes);
  /// True when the root object has been closed.
  bool Complete() const { return complete_; }
  /// The list without its items.
  const std::string& Envelope() const { return envelope_; }

 private:
  enum class Boundary : std::uint8_t { kNone, kItemsBegin, kItemBegin, kItemEnd, kItemsEnd };

  std::size_t Skip(std::string_view bytes, std::size_t at) const;
  Boundary Step(char c);
  bool Fits(std::size_t more) const;
  SplitResult Emit(std::string_view tail);

  std::size_t limit_;
  const PieceFunction& on_item_;
  std::string item_;  ///< The part of the current item from earlier feeds.
  std::string envelope_;
  std::string last_key_;  ///< The last string at depth 1, cut at a few bytes.
  int depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
  bool in_items_ = false;  ///< Inside the array of items.
  bool in_item_ = false;
  bool complete_ = false;
};

}  // namespace berth::kube
