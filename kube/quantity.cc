#include "kube/quantity.h"

#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <system_error>

#include "kube/ascii.h"

namespace berth::kube {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::uint64_t kMaxMagnitude = static_cast<std::uint64_t>(kMax);

/// What follows the number: a factor of 2^shift or of 10^exponent.
struct Suffix {
  int shift = 0;
  std::int64_t exponent = 0;
};

struct NamedSuffix {
  std::string_view name;
  Suffix factor;
};

constexpr std::array kSuffixes = {
    NamedSuffix{"", {}},
    NamedSuffix{"n", {.exponent = -9}},
    NamedSuffix{"u", {.exponent = -6}},
    NamedSuffix{"m", {.exponent = -3}},
    NamedSuffix{"k", {.exponent = 3}},
    NamedSuffix{"M", {.exponent = 6}},
    NamedSuffix{"G", {.exponent = 9}},
    NamedSuffix{"T", {.exponent = 12}},
    NamedSuffix{"P", {.exponent = 15}},
    NamedSuffix{"E", {.exponent = 18}},
    NamedSuffix{"Ki", {.shift = 10}},
    NamedSuffix{"Mi", {.shift = 20}},
    NamedSuffix{"Gi", {.shift = 30}},
    NamedSuffix{"Ti", {.shift = 40}},
    NamedSuffix{"Pi", {.shift = 50}},
    NamedSuffix{"Ei", {.shift = 60}},
};

std::optional<Suffix> ParseSuffix(std::string_view text) {
  for (const NamedSuffix& suffix : kSuffixes) {
    if (suffix.name == text) return suffix.factor;
  }
  if (text.front() != 'e' && text.front() != 'E') return std::nullopt;
  text.remove_prefix(1);
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.empty() || !IsDigit(text.front())) return std::nullopt;
  }
  // As in apimachinery, the exponent must be an int64, and so must be written in plain digits.
  Suffix result;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), result.exponent);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  // Larger than any representable amount; keeps the sums below far from overflow.
  constexpr std::int64_t kFar = 1'000'000;
  if (result.exponent > kFar) result.exponent = kFar;
  if (result.exponent < -kFar) result.exponent = -kFar;
  return result;
}

/// 0.d1d2d3... * 10^point * 2^shift, with d1 != 0 unless the number is zero.
struct Number {
  bool negative = false;
  std::array<char, kMaxQuantityLength> digits{};
  std::size_t count = 0;
  std::int64_t point = 0;
  int shift = 0;
};

std::expected<Number, QuantityError> ParseNumber(std::string_view text) {
  if (text.empty()) return std::unexpected(QuantityError::kEmpty);
  if (text.size() > kMaxQuantityLength) return std::unexpected(QuantityError::kTooLong);

  Number number;
  std::size_t at = 0;
  if (text[0] == '+' || text[0] == '-') {
    number.negative = text[0] == '-';
    at = 1;
  }
  bool after_point = false;
  bool any_digit = false;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '.' && !after_point) {
      after_point = true;
      continue;
    }
    if (!IsDigit(c)) break;
    any_digit = true;
    if (number.count > 0 || c != '0') {
      number.digits[number.count++] = c;
      if (!after_point) ++number.point;
    } else if (after_point) {
      --number.point;
    }
  }
  if (!any_digit) return std::unexpected(QuantityError::kNotANumber);
  const std::optional<Suffix> suffix = ParseSuffix(text.substr(at));
  if (!suffix) return std::unexpected(QuantityError::kUnknownSuffix);
  number.shift = suffix->shift;
  number.point += suffix->exponent;
  return number;
}

/// The digits after the point, times 2^shift, rounded up. Long multiplication from the last digit:
/// the carry out of the first place is the whole part. No carry exceeds 2^60.
std::uint64_t ScaleFraction(const Number& number) {
  const std::size_t first = number.point > 0 ? static_cast<std::size_t>(number.point) : 0;
  std::uint64_t carry = 0;
  bool rest = false;
  for (std::size_t i = number.count; i > first; --i) {
    const auto digit = static_cast<std::uint64_t>(number.digits[i - 1] - '0');
    const std::uint64_t product = (digit << number.shift) + carry;
    rest = rest || product % 10 != 0;
    carry = product / 10;
  }
  // The zeros between the point and the first digit.
  for (std::int64_t zeros = -number.point; zeros > 0 && carry > 0; --zeros) {
    rest = rest || carry % 10 != 0;
    carry /= 10;
  }
  return carry + (rest ? 1 : 0);
}

std::uint64_t RoundedMagnitude(const Number& number) {
  if (number.count == 0) return 0;
  if (number.point > 19) return kMaxMagnitude;  // >= 10^19, as the first digit is not zero.
  std::uint64_t whole = 0;
  for (std::int64_t i = 0; i < number.point; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const char digit = at < number.count ? number.digits[at] : '0';
    whole = whole * 10 + static_cast<std::uint64_t>(digit - '0');
  }
  if (whole > (kMaxMagnitude >> number.shift)) return kMaxMagnitude;
  const std::uint64_t sum = (whole << number.shift) + ScaleFraction(number);
  return sum > kMaxMagnitude ? kMaxMagnitude : sum;
}

/// In units of 10^-decimals.
std::expected<std::int64_t, QuantityError> Parse(std::string_view text, int decimals) {
  std::expected<Number, QuantityError> number = ParseNumber(text);
  if (!number) return std::unexpected(number.error());
  number->point += decimals;
  const auto magnitude = static_cast<std::int64_t>(RoundedMagnitude(*number));
  return number->negative ? -magnitude : magnitude;
}

bool CountsBytes(std::string_view resource_name) {
  return resource_name == "memory" || resource_name == "ephemeral-storage" ||
         resource_name == "storage" || resource_name.starts_with("hugepages-");
}

}  // namespace

std::string_view Message(QuantityError error) {
  switch (error) {
    case QuantityError::kEmpty:
      return "not a quantity (empty)";
    case QuantityError::kTooLong:
      return "not a quantity (longer than 64 characters)";
    case QuantityError::kNotANumber:
      return "not a quantity (no digits)";
    case QuantityError::kUnknownSuffix:
      return "not a quantity (unknown suffix)";
    case QuantityError::kNegative:
      return "negative";
  }
  return "not a quantity";
}

std::expected<std::int64_t, QuantityError> ParseMilli(std::string_view text) {
  return Parse(text, 3);
}

std::expected<std::int64_t, QuantityError> ParseWhole(std::string_view text) {
  return Parse(text, 0);
}

bool InThousandths(std::string_view resource_name) {
  return resource_name == "cpu" || resource_name.find('/') != std::string_view::npos;
}

std::expected<std::int64_t, QuantityError> ParseFor(std::string_view resource_name,
                                                    std::string_view text) {
  const auto amount = InThousandths(resource_name) ? ParseMilli(text) : ParseWhole(text);
  if (amount && *amount < 0) return std::unexpected(QuantityError::kNegative);
  return amount;
}

std::string Format(std::string_view resource_name, std::int64_t amount) {
  if (InThousandths(resource_name)) {
    return amount % 1000 == 0 ? std::to_string(amount / 1000) : std::to_string(amount) + "m";
  }
  if (!CountsBytes(resource_name) || amount == 0) return std::to_string(amount);
  constexpr std::array<std::string_view, 7> kNames = {"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
  std::size_t step = 0;
  for (; step + 1 < kNames.size() && amount % 1024 == 0; ++step) amount /= 1024;
  return std::to_string(amount) + std::string(kNames[step]);
}

}  // namespace berth::kube
