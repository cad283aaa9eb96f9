// Lists and watches cut into pieces: the result does not depend on how the bytes arrive.
#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <string>
#include <utility>
#include <vector>

#include "kube/stream.h"
#include "tests/support/catch.h"

namespace berth::kube {
namespace {

constexpr std::size_t kLimit = 24;  // Small enough that random texts pass it.

using Pieces = std::pair<SplitResult, std::vector<std::string>>;

template <typename Splitter>
Pieces Split(const std::string& text, std::size_t step) {
  std::vector<std::string> pieces;
  const PieceFunction take = [&](std::string_view piece) {
    pieces.emplace_back(piece);
    return pieces.size() < 4;
  };
  Splitter splitter(kLimit, take);
  SplitResult result = SplitResult::kContinue;
  for (std::size_t at = 0; at < text.size() && result == SplitResult::kContinue; at += step) {
    result = splitter.Feed(std::string_view(text).substr(at, step));
  }
  return {result, pieces};
}

/// Mostly lists: well-formed ones cut anywhere, and random text of the same bytes.
rc::Gen<std::string> AnyText() {
  const auto token =
      rc::gen::element<std::string>("{\"items\":[", "{\"kind\":\"PodList\",", "\"items\":[", "{}",
                                    "{\"a\":[1,{}]}", ",", "]}", "}", "]", "[", "{", "\"", "\\",
                                    "\n", "\r\n", "long enough to pass the limit", "{\"b\":\"}\"}");
  return rc::gen::map(rc::gen::container<std::vector<std::string>>(token),
                      [](const std::vector<std::string>& tokens) {
                        std::string text;
                        for (const std::string& t : tokens) text += t;
                        return text;
                      });
}

TEST_CASE("stream properties", "[property][kube]") {
  rc::prop("the pieces of a list do not depend on how it arrives", [] {
    const std::string text = *AnyText();
    const std::size_t step = *rc::gen::inRange<std::size_t>(1, 40);
    RC_ASSERT(Split<ItemSplitter>(text, step) == Split<ItemSplitter>(text, text.size() + 1));
  });

  rc::prop("the lines of a watch do not depend on how they arrive", [] {
    const std::string text = *AnyText();
    const std::size_t step = *rc::gen::inRange<std::size_t>(1, 40);
    RC_ASSERT(Split<LineSplitter>(text, step) == Split<LineSplitter>(text, text.size() + 1));
  });
}

}  // namespace
}  // namespace berth::kube
