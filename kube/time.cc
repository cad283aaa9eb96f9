#include "kube/time.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <limits>

#include "kube/ascii.h"

namespace berth::kube {
namespace {

constexpr std::size_t kMaxLength = 64;
constexpr Millis kFirst = -62'167'219'200'000;  // 0000-01-01T00:00:00.000Z
constexpr Millis kLast = 253'402'300'799'999;   // 9999-12-31T23:59:59.999Z

/// Parses texts from the left; after the first mismatch everything fails.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}

  bool ok() const { return ok_; }
  bool done() const { return rest_.empty(); }
  char Peek() const { return rest_.empty() ? '\0' : rest_.front(); }

  void Expect(char c) {
    if (Peek() == c && !rest_.empty()) {
      rest_.remove_prefix(1);
    } else {
      ok_ = false;
    }
  }

  /// Exactly `count` digits with a value in [low, high].
  int Digits(std::size_t count, int low, int high) {
    int value = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (!IsDigit(Peek())) {
        ok_ = false;
        return low;
      }
      value = value * 10 + (rest_.front() - '0');
      rest_.remove_prefix(1);
    }
    ok_ = ok_ && value >= low && value <= high;
    return value;
  }

  /// The digits of a fraction of a second, as milliseconds.
  int Milliseconds() {
    ok_ = ok_ && IsDigit(Peek());
    int value = 0;
    int weight = 100;
    for (; IsDigit(Peek()); rest_.remove_prefix(1)) {
      value += (rest_.front() - '0') * weight;
      weight /= 10;
    }
    return value;
  }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

int ParseOffsetMinutes(Scanner& scanner) {
  if (scanner.Peek() == 'Z') {
    scanner.Expect('Z');
    return 0;
  }
  const bool west = scanner.Peek() == '-';
  scanner.Expect(west ? '-' : '+');
  const int hours = scanner.Digits(2, 0, 23);
  scanner.Expect(':');
  const int minutes = hours * 60 + scanner.Digits(2, 0, 59);
  return west ? -minutes : minutes;
}

std::string FormatWith(Millis time, bool micros) {
  using namespace std::chrono;
  const milliseconds since{std::clamp(time, kFirst, kLast)};
  const sys_days day{floor<days>(since)};
  const year_month_day date{day};
  const hh_mm_ss clock{since - day.time_since_epoch()};
  std::array<char, 64> text{};
  const int length = std::snprintf(
      text.data(), text.size(), "%04d-%02u-%02uT%02d:%02d:%02d", static_cast<int>(date.year()),
      static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
      static_cast<int>(clock.hours().count()), static_cast<int>(clock.minutes().count()),
      static_cast<int>(clock.seconds().count()));
  std::string result(text.data(), static_cast<std::size_t>(length));
  if (micros) {
    const std::string millis = std::to_string(clock.subseconds().count());
    result += "." + std::string(3 - millis.size(), '0') + millis + "000";
  }
  return result + "Z";
}

struct Unit {
  std::string_view name;
  std::int64_t nanos;
};

constexpr std::array kUnits = {
    Unit{"ns", 1},
    Unit{"us", 1'000},
    Unit{"\xC2\xB5s", 1'000},  // U+00B5, the micro sign
    Unit{"\xCE\xBCs", 1'000},  // U+03BC, the Greek letter
    Unit{"ms", 1'000'000},
    Unit{"s", 1'000'000'000},
    Unit{"m", 60'000'000'000},
    Unit{"h", 3'600'000'000'000},
};

/// Takes the unit, which extends to the next number, off the front of `text`; 0: not a unit.
std::int64_t TakeUnit(std::string_view& text) {
  const std::size_t size = std::min(text.find_first_of("0123456789."), text.size());
  const std::string_view name = text.substr(0, size);
  text.remove_prefix(size);
  for (const Unit& unit : kUnits) {
    if (unit.name == name) return unit.nanos;
  }
  return 0;
}

/// Takes one number and its unit ("1.5h") off the front of `text`.
std::optional<std::int64_t> TakeTerm(std::string_view& text) {
  std::int64_t whole = 0;
  bool any_digit = false;
  for (; !text.empty() && IsDigit(text.front()); text.remove_prefix(1)) {
    any_digit = true;
    if (__builtin_mul_overflow(whole, 10, &whole) ||
        __builtin_add_overflow(whole, text.front() - '0', &whole)) {
      return std::nullopt;
    }
  }
  std::string_view fraction;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    std::size_t size = 0;
    while (size < text.size() && IsDigit(text[size])) ++size;
    fraction = text.substr(0, size);
    text.remove_prefix(size);
  }
  if (!any_digit && fraction.empty()) return std::nullopt;

  const std::int64_t unit = TakeUnit(text);
  std::int64_t nanos = 0;
  if (unit == 0 || __builtin_mul_overflow(whole, unit, &nanos)) return std::nullopt;
  // Long multiplication from the last digit; the part that is cut off is below a nanosecond.
  std::int64_t part = 0;
  for (std::size_t i = fraction.size(); i > 0; --i) {
    part = ((fraction[i - 1] - '0') * unit + part) / 10;
  }
  if (__builtin_add_overflow(nanos, part, &nanos)) return std::nullopt;
  return nanos;
}

}  // namespace

std::optional<Millis> ParseTime(std::string_view text) {
  if (text.size() > kMaxLength) return std::nullopt;
  Scanner scanner(text);
  const int year = scanner.Digits(4, 0, 9999);
  scanner.Expect('-');
  const int month = scanner.Digits(2, 1, 12);
  scanner.Expect('-');
  const int day = scanner.Digits(2, 1, 31);
  scanner.Expect('T');
  const int hour = scanner.Digits(2, 0, 23);
  scanner.Expect(':');
  const int minute = scanner.Digits(2, 0, 59);
  scanner.Expect(':');
  const int second = scanner.Digits(2, 0, 59);  // Go does not know leap seconds either.
  int millis = 0;
  if (scanner.Peek() == '.') {
    scanner.Expect('.');
    millis = scanner.Milliseconds();
  }
  const int offset = ParseOffsetMinutes(scanner);
  if (!scanner.ok() || !scanner.done()) return std::nullopt;

  using namespace std::chrono;
  const year_month_day date{std::chrono::year{year},
                            std::chrono::month{static_cast<unsigned>(month)},
                            std::chrono::day{static_cast<unsigned>(day)}};
  if (!date.ok()) return std::nullopt;
  const milliseconds since = sys_days{date}.time_since_epoch() + hours{hour} + minutes{minute} +
                             seconds{second} + milliseconds{millis} - minutes{offset};
  return since.count();
}

std::string FormatTime(Millis time) { return FormatWith(time, false); }

std::string FormatMicroTime(Millis time) { return FormatWith(time, true); }

std::optional<std::chrono::nanoseconds> ParseDuration(std::string_view text) {
  if (text.size() > kMaxLength) return std::nullopt;
  bool negative = false;
  if (text.starts_with('-') || text.starts_with('+')) {
    negative = text.front() == '-';
    text.remove_prefix(1);
  }
  if (text == "0") return std::chrono::nanoseconds{0};  // The only text without a unit.
  if (text.empty()) return std::nullopt;
  std::int64_t total = 0;
  while (!text.empty()) {
    const std::optional<std::int64_t> term = TakeTerm(text);
    if (!term || __builtin_add_overflow(total, *term, &total)) return std::nullopt;
  }
  return std::chrono::nanoseconds{negative ? -total : total};
}

}  // namespace berth::kube
