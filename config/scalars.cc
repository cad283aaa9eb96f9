#include "config/scalars.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "kube/label_value.h"

namespace berth::config {
namespace {

/// How many bytes of a value a message repeats.
constexpr std::size_t kMaxShown = 60;

constexpr bool IsDigit(char c) { return c >= '0' && c <= '9'; }
constexpr bool IsLowerAlnum(char c) { return IsDigit(c) || (c >= 'a' && c <= 'z'); }

std::string_view TakeDigits(std::string_view& text) {
  const auto end = std::ranges::find_if_not(text, IsDigit);
  const std::string_view digits = text.substr(0, static_cast<std::size_t>(end - text.begin()));
  text.remove_prefix(digits.size());
  return digits;
}

struct Unit {
  std::string_view name;
  std::int64_t nanoseconds;
};

/// Of two names where one begins with the other, the longer comes first.
constexpr std::array<Unit, 8> kUnits{{{"ns", 1},
                                      {"us", 1'000},
                                      {"\u00b5s", 1'000},
                                      {"\u03bcs", 1'000},
                                      {"ms", 1'000'000},
                                      {"s", 1'000'000'000},
                                      {"m", 60'000'000'000},
                                      {"h", 3'600'000'000'000}}};

/// `whole`.`fraction` of a unit in nanoseconds; nullopt on overflow or below a nanosecond.
std::optional<std::int64_t> Scale(std::string_view whole, std::string_view fraction,
                                  std::int64_t unit) {
  std::int64_t total = 0;
  for (const char c : whole) {
    if (__builtin_mul_overflow(total, 10, &total) || __builtin_add_overflow(total, c - '0', &total))
      return std::nullopt;
  }
  if (__builtin_mul_overflow(total, unit, &total)) return std::nullopt;
  for (const char c : fraction) {
    if (unit % 10 != 0 && c != '0') return std::nullopt;
    unit /= 10;
    if (__builtin_add_overflow(total, (c - '0') * unit, &total)) return std::nullopt;
  }
  return total;
}

}  // namespace

std::expected<std::chrono::milliseconds, std::string> ParseDuration(std::string_view text) {
  const auto fail = [&] {
    return std::unexpected(
        fmt::format("must be a duration such as 60s, 1m30s or 500ms, is {}", Quote(text)));
  };
  std::string_view rest = text;
  std::int64_t total = 0;
  if (rest.empty()) return fail();
  if (rest == "0") return std::chrono::milliseconds{0};
  while (!rest.empty()) {
    const std::string_view whole = TakeDigits(rest);
    std::string_view fraction;
    if (rest.starts_with('.')) {
      rest.remove_prefix(1);
      fraction = TakeDigits(rest);
    }
    if (whole.empty() && fraction.empty()) return fail();
    const auto unit = std::ranges::find_if(
        kUnits, [&](const Unit& candidate) { return rest.starts_with(candidate.name); });
    if (unit == kUnits.end()) {
      if (!rest.empty() || whole.size() != text.size()) return fail();
      return std::unexpected(fmt::format("has no unit: write {}s", text.substr(0, kMaxShown)));
    }
    rest.remove_prefix(unit->name.size());
    const std::optional<std::int64_t> part = Scale(whole, fraction, unit->nanoseconds);
    if (!part || __builtin_add_overflow(total, *part, &total)) return fail();
  }
  constexpr std::int64_t kNanosecondsPerMillisecond = 1'000'000;
  if (total % kNanosecondsPerMillisecond != 0) {
    return std::unexpected(fmt::format("must be whole milliseconds, is {}", Quote(text)));
  }
  return std::chrono::milliseconds{total / kNanosecondsPerMillisecond};
}

std::string FormatDuration(std::chrono::milliseconds value) {
  const std::int64_t ms = value.count();
  if (ms == 0) return "0s";
  if (ms < 1000) return fmt::format("{}ms", ms);
  const std::int64_t minutes = ms / 60'000;
  std::string seconds = FormatThousandths(ms % 60'000) + "s";
  if (minutes == 0) return seconds;
  if (minutes < 60) return fmt::format("{}m{}", minutes, seconds);
  return fmt::format("{}h{}m{}", minutes / 60, minutes % 60, seconds);
}

std::expected<std::int64_t, std::string> ParseThousandths(std::string_view text) {
  std::string_view rest = text;
  const bool negative = rest.starts_with('-');
  if (negative) rest.remove_prefix(1);
  const std::string_view whole = TakeDigits(rest);
  std::string_view fraction;
  bool valid = !whole.empty();
  if (rest.starts_with('.')) {
    rest.remove_prefix(1);
    fraction = TakeDigits(rest);
    valid = valid && !fraction.empty();
  }
  valid = valid && rest.empty() && (whole.size() == 1 || whole.front() != '0');
  if (!valid) {
    return std::unexpected(fmt::format("must be a number such as 1 or 0.5, is {}", Quote(text)));
  }
  const auto last = fraction.find_last_not_of('0');
  fraction = last == std::string_view::npos ? std::string_view{} : fraction.substr(0, last + 1);
  if (fraction.size() > 3) {
    return std::unexpected(fmt::format("must have at most three decimals, is {}", Quote(text)));
  }
  const std::optional<std::int64_t> value = Scale(whole, fraction, 1000);
  constexpr std::int64_t kMax = 1'000'000'000'000'000;
  if (!value || *value > kMax) return std::unexpected(fmt::format("too large: {}", Quote(text)));
  return negative ? -*value : *value;
}

std::string FormatThousandths(std::int64_t value) {
  const std::int64_t fraction = std::abs(value % 1000);
  std::string text = fmt::format("{}{}", value < 0 ? "-" : "", std::abs(value / 1000));
  if (fraction == 0) return text;
  text += fmt::format(".{:03}", fraction);
  text.erase(text.find_last_not_of('0') + 1);
  return text;
}

std::expected<std::int64_t, std::string> ParseInteger(std::string_view text) {
  std::string_view digits = text;
  if (digits.starts_with('-')) digits.remove_prefix(1);
  if (digits.empty() || !std::ranges::all_of(digits, IsDigit)) {
    return std::unexpected(fmt::format("must be a whole number, is {}", Quote(text)));
  }
  if (digits.size() > 1 && digits.front() == '0') {
    return std::unexpected(
        fmt::format("must not begin with 0 (YAML reads {} as octal)", Quote(text)));
  }
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::unexpected(fmt::format("too large: {}", Quote(text)));
  return value;
}

bool IsDnsLabel(std::string_view text) {
  constexpr std::size_t kMaxLabel = 63;
  return !text.empty() && text.size() <= kMaxLabel && IsLowerAlnum(text.front()) &&
         IsLowerAlnum(text.back()) &&
         std::ranges::all_of(text, [](char c) { return IsLowerAlnum(c) || c == '-'; });
}

bool IsDnsSubdomain(std::string_view text) {
  constexpr std::size_t kMaxSubdomain = 253;
  if (text.size() > kMaxSubdomain) return false;
  while (true) {
    const std::size_t dot = text.find('.');
    const std::string_view label = text.substr(0, dot);
    // Kubernetes bounds a subdomain as a whole, not its labels.
    if (label.empty() || !IsLowerAlnum(label.front()) || !IsLowerAlnum(label.back())) return false;
    if (!std::ranges::all_of(label, [](char c) { return IsLowerAlnum(c) || c == '-'; })) {
      return false;
    }
    if (dot == std::string_view::npos) return true;
    text.remove_prefix(dot + 1);
  }
}

bool IsQualifiedName(std::string_view text) {
  if (const std::size_t slash = text.find('/'); slash != std::string_view::npos) {
    if (!IsDnsSubdomain(text.substr(0, slash))) return false;
    text.remove_prefix(slash + 1);
  }
  return !text.empty() && kube::IsLabelValue(text);
}

std::string Quote(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text.substr(0, kMaxShown)) {
    quoted += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  if (text.size() > kMaxShown) {
    // Do not cut inside a character: cut back to before its first byte.
    while (quoted.size() > 1 && (static_cast<unsigned char>(quoted.back()) & 0xC0) == 0x80) {
      quoted.pop_back();
    }
    if (static_cast<unsigned char>(quoted.back()) >= 0xC0) quoted.pop_back();
    quoted += "...";
  }
  return quoted + '"';
}

namespace {

std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const auto lower = [](char c) {
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
      };
      const std::size_t substitute = diagonal + (lower(a[i]) == lower(b[j]) ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substitute, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string_view Closest(std::string_view text, std::span<const std::string_view> candidates) {
  constexpr std::size_t kMaxCompared = 64;  // Bounds the cost of a hostile key.
  if (text.size() > kMaxCompared || candidates.size() > kMaxCandidates) return {};
  std::string_view best;
  std::size_t best_distance = std::numeric_limits<std::size_t>::max();
  for (const std::string_view candidate : candidates) {
    const std::size_t distance = EditDistance(text, candidate);
    const std::size_t allowed = std::max(text.size(), candidate.size()) / 3;
    if (distance <= allowed && distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace berth::config
