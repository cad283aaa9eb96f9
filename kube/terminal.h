// Text for a terminal. Much of it comes from outside: names, messages, files.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace berth::kube {

/// `text` on one line, with escapes for everything that a terminal would act on or that hides or
/// reorders the text next to it: control characters, line ends, bidirectional and invisible
/// formatting characters. The escapes are JSON's (`\n`, `\u001b`), so that JSON stays the same
/// JSON. Bytes that are not UTF-8 become U+FFFD.
std::string Printable(std::string_view text);

/// The same for text of several lines: `\n` and `\t` stay.
std::string PrintableLines(std::string_view text);

/// Writes PrintableLines(text). Every command prints with it, except for what draws on the
/// terminal.
void Write(std::FILE* to, std::string_view text);

}  // namespace berth::kube
