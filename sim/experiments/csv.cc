#include "sim/experiments/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "kube/read_file.h"
#include "sim/seeds.h"

namespace berth::sim {
namespace {

bool NameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-' || c == '|';
}

/// Shortens the text for a message and removes control characters.
std::string Printable(std::string_view text) {
  std::string out(text.substr(0, 40));
  std::ranges::replace_if(
      out, [](char c) { return c < ' ' || c > '~'; }, '?');
  return out;
}

}  // namespace

std::string InputError::ToString() const {
  return line == 0 ? fmt::format("{}: {}", file, message)
                   : fmt::format("{}:{}: {}", file, line, message);
}

std::expected<std::string, InputError> ReadInputFile(const std::string& path) {
  auto text = kube::ReadFile(path, kMaxFileBytes);
  if (text) return std::move(*text);
  // Removes the file's name at the beginning of the message, because ToString adds it.
  return std::unexpected(InputError{.file = path,
                                    .message = text.error().message.substr(path.size() + 2),
                                    .unreadable = text.error().unreadable});
}

CsvReader::CsvReader(std::string_view text, std::string file)
    : rest_(text), file_(std::move(file)) {}

void CsvReader::Fail(std::string message) {
  if (!error_) error_ = InputError{file_, line_, std::move(message)};
}

bool CsvReader::Line(std::string_view& line) {
  if (rest_.empty()) return false;
  ++line_;
  const auto end = rest_.find('\n');
  line = rest_.substr(0, end);
  rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line.size() > kMaxCsvLine) {
    Fail(fmt::format("longer than {} bytes", kMaxCsvLine));
    return false;
  }
  return true;
}

int CsvReader::Header(std::span<const std::string_view> allowed) {
  std::string_view line;
  if (!Line(line)) {
    Fail("no header");
    return -1;
  }
  const auto it = std::ranges::find(allowed, line);
  if (it == allowed.end()) {
    Fail(fmt::format("the header must be `{}`", fmt::join(allowed, "` or `")));
    return -1;
  }
  header_ = SplitAt(*it, ',');
  return static_cast<int>(it - allowed.begin());
}

bool CsvReader::Next() {
  if (error_ || header_.empty()) return false;
  std::string_view line;
  if (!Line(line)) return false;
  if (line_ > kMaxCsvRows + 1) {
    Fail(fmt::format("more than {} rows", kMaxCsvRows));
    return false;
  }
  fields_ = SplitAt(line, ',');
  if (fields_.size() != header_.size()) {
    Fail(fmt::format("{} fields, expected {}", fields_.size(), header_.size()));
    return false;
  }
  return true;
}

std::string_view CsvReader::Name(std::size_t i) {
  const std::string_view text = fields_[i];
  if (text.empty() || text.size() > 253 || !std::ranges::all_of(text, NameCharacter)) {
    Fail(fmt::format("{}: `{}` is no name", header_[i], Printable(text)));
  }
  return text;
}

std::int64_t CsvReader::Integer(std::size_t i, std::int64_t low, std::int64_t high) {
  const std::string_view text = fields_[i];
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code == std::errc() && end == text.data() + text.size() && value >= low && value <= high) {
    return value;
  }
  Fail(fmt::format("{}: `{}` is no integer in {}..{}", header_[i], Printable(text), low, high));
  return low;
}

std::optional<std::int64_t> CsvReader::OptionalInteger(std::size_t i, std::int64_t low,
                                                       std::int64_t high) {
  if (fields_[i].empty()) return std::nullopt;
  return Integer(i, low, high);
}

}  // namespace berth::sim
