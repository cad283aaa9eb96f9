// Strict, bounded reading of plain CSV: a header, then rows with as many fields as the header, no
// quotes. Anything else is an error with file and line.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace berth::sim {

/// An error in an input file. `line` counts from 1; 0: the file as a whole.
struct InputError {
  std::string file;
  int line = 0;
  std::string message;
  bool unreadable = false;  ///< The file is missing or not readable: the error is not in its
                            ///< content.

  /// `FILE:LINE: MESSAGE`, or `FILE: MESSAGE`.
  std::string ToString() const;
};

inline constexpr std::size_t kMaxFileBytes = 256U << 20U;
inline constexpr int kMaxCsvRows = 5'000'000;
inline constexpr std::size_t kMaxCsvLine = 4096;

/// The content of a file of at most kMaxFileBytes.
std::expected<std::string, InputError> ReadInputFile(const std::string& path);

/// Reads the rows of `text` once; `text` must outlive the reader.
///
///   CsvReader csv(text, "jobs.csv");
///   csv.Header({"duration_s,gpus"});
///   while (csv.Next()) use(csv.Integer(0, 1, 1'000'000));
///   if (csv.error()) return *csv.error();
class CsvReader {
 public:
  CsvReader(std::string_view text, std::string file);

  /// Reads the header: exactly one of these lines. Returns its index; -1: an error is set.
  int Header(std::span<const std::string_view> allowed);

  /// Goes to the next row. False: at the end, or after the first error, from any function.
  bool Next();

  std::size_t fields() const { return fields_.size(); }
  /// The bytes of field `i`, which may be empty. REQUIRES: i < fields().
  std::string_view Text(std::size_t i) const { return fields_[i]; }
  /// The same, at least one character of A-Z a-z 0-9 . _ - | and at most 253.
  std::string_view Name(std::size_t i);
  /// A decimal integer in low..high; anything else is an error, and `low` is returned.
  std::int64_t Integer(std::size_t i, std::int64_t low, std::int64_t high);
  /// The same, nullopt for an empty field.
  std::optional<std::int64_t> OptionalInteger(std::size_t i, std::int64_t low, std::int64_t high);

  /// Reports an error in the current row. The first report is kept.
  void Fail(std::string message);
  const std::optional<InputError>& error() const { return error_; }

 private:
  bool Line(std::string_view& line);

  std::string_view rest_;
  std::string file_;
  int line_ = 0;
  std::vector<std::string_view> header_;
  std::vector<std::string_view> fields_;
  std::optional<InputError> error_;
};

}  // namespace berth::sim
