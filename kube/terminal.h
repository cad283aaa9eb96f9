// Text on its way to a terminal. Much of it was written by others: names, messages, files.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace berth::kube {

/// `text` on one line, with everything written as an escape that a terminal would act on or that
/// hides or reorders what stands beside it: control characters, line ends, bidirectional and
/// invisible formatting characters. The escapes are JSON's (`\n`, `\u001b`), so that JSON stays the
/// same JSON. Bytes that are not UTF-8 become U+FFFD.
std::string Printable(std::string_view text);

/// The same for text of several lines: `\n` and `\t` stay.
std::string PrintableLines(std::string_view text);

/// Writes PrintableLines(text). Every command prints with it, save for what draws on the terminal.
void Write(std::FILE* to, std::string_view text);

}  // namespace berth::kube
