#include "kube/terminal.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

namespace berth::kube {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

struct Range {
  char32_t first;
  char32_t last;
};

// Control characters, then the formatting characters of Unicode that reorder text, break lines or
// are invisible.
constexpr std::array<Range, 9> kUnsafe{{{0x00, 0x1F},
                                        {0x7F, 0x9F},
                                        {0x061C, 0x061C},
                                        {0x200B, 0x200F},
                                        {0x2028, 0x202E},
                                        {0x2060, 0x206F},
                                        {0xFEFF, 0xFEFF},
                                        {0xFFF9, 0xFFFB},
                                        {0xE0000, 0xE007F}}};

/// Takes one character off `text`, which is not empty. An invalid UTF-8 sequence takes one byte.
char32_t TakeCharacter(std::string_view& text) {
  const auto byte = [&text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const std::size_t length = lead < 0x80            ? 1
                             : (lead >> 5U) == 0x06 ? 2
                             : (lead >> 4U) == 0x0E ? 3
                             : (lead >> 3U) == 0x1E ? 4
                                                    : 0;
  constexpr std::array<char32_t, 5> kSmallest{0, 0, 0x80, 0x800, 0x10000};
  char32_t character = length == 1 ? lead : lead & (0x7FU >> length);
  bool good = length != 0 && length <= text.size();
  for (std::size_t i = 1; good && i < length; ++i) {
    good = (byte(i) & 0xC0U) == 0x80U;
    character = (character << 6U) | (byte(i) & 0x3FU);
  }
  good = good && character >= kSmallest[length] && character <= 0x10FFFF &&
         (character < 0xD800 || character > 0xDFFF);
  text.remove_prefix(good ? length : 1);
  return good ? character : kReplacement;
}

void AppendEscape(std::string& out, char32_t character) {
  switch (character) {
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      break;
  }
  const auto unit = [&out](char32_t value) {
    fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(value));
  };
  if (character < 0x10000) return unit(character);
  unit(0xD800 + ((character - 0x10000) >> 10U));
  unit(0xDC00 + ((character - 0x10000) & 0x3FFU));
}

std::string Escape(std::string_view text, bool lines) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::string_view before = text;
    const char32_t character = TakeCharacter(text);
    const bool unsafe = std::ranges::any_of(kUnsafe, [character](const Range& range) {
      return character >= range.first && character <= range.last;
    });
    if (unsafe && !(lines && (character == '\n' || character == '\t'))) {
      AppendEscape(out, character);
    } else if (character == kReplacement) {
      out += "\uFFFD";
    } else {
      out += before.substr(0, before.size() - text.size());
    }
  }
  return out;
}

}  // namespace

std::string Printable(std::string_view text) { return Escape(text, /*lines=*/false); }

std::string PrintableLines(std::string_view text) { return Escape(text, /*lines=*/true); }

void Write(std::FILE* to, std::string_view text) {
  const std::string safe = PrintableLines(text);
  std::fwrite(safe.data(), 1, safe.size(), to);
}

}  // namespace berth::kube
