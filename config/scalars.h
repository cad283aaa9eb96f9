// Converts texts of a policy file to values and back, exactly, without using a double. The error of
// each parser completes the sentence "<path>: ...".
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>
#include <string>
#include <string_view>

namespace berth::config {

/// A Go duration (`60s`, `1m30s`, `1.5h`) of whole milliseconds.
std::expected<std::chrono::milliseconds, std::string> ParseDuration(std::string_view text);

/// As Go prints it: `20s`, `1m0s`, `1.5s`, `250ms`. Parses back to the same value.
std::string FormatDuration(std::chrono::milliseconds value);

/// `3.7` is 3700: a decimal of at most three places, up to 10^12.
std::expected<std::int64_t, std::string> ParseThousandths(std::string_view text);
std::string FormatThousandths(std::int64_t value);

/// A decimal integer. `010` is refused: YAML 1.1 reads it as eight, people as ten.
std::expected<std::int64_t, std::string> ParseInteger(std::string_view text);

/// RFC 1123: at most 63 of [a-z0-9-], beginning and ending with a letter or digit.
bool IsDnsLabel(std::string_view text);

/// DNS labels joined by dots, at most 253 characters.
bool IsDnsSubdomain(std::string_view text);

/// A Kubernetes label key or resource name: `[domain/]name`.
bool IsQualifiedName(std::string_view text);

/// `text` in double quotes, shortened, so that a message stays one readable line.
std::string Quote(std::string_view text);

/// The candidate of which `text` is probably a misspelling; empty if none is near, or if there are
/// more than kMaxCandidates: a file may cause this search once for each of its lines.
inline constexpr std::size_t kMaxCandidates = 256;
std::string_view Closest(std::string_view text, std::span<const std::string_view> candidates);

}  // namespace berth::config
