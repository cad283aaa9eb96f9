// Typed access to a YamlNode that reports every error and goes on, so that one run of `berth check`
// shows all errors of a file. Internal to config/.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/yaml_reader.h"

namespace berth::config {

/// `parent.key`, or `parent[key]` for a key that is not an identifier.
std::string JoinPath(std::string_view parent, std::string_view key);
/// `parent[index]`.
std::string JoinPath(std::string_view parent, std::size_t index);

/// Collects errors of one file.
class ErrorSink {
 public:
  /// A hostile file can have more errors than anyone reads.
  static constexpr std::size_t kMaxErrors = 1000;

  explicit ErrorSink(std::string_view file_name) : file_name_(file_name) {}

  /// Adds an error about a value.
  void Add(const YamlNode& at, std::string path, std::string message);
  /// Adds an error about a key; `at` is the key.
  void AddUnknownKey(const YamlNode& at, std::string path, std::string message);
  /// Whether there were more errors than could be kept.
  bool overflowed() const { return first_left_out_.has_value(); }
  /// The paths of wrong values, without those of unknown keys.
  const std::vector<std::string>& bad_values() const { return bad_values_; }
  /// The paths of unknown keys.
  const std::vector<std::string>& unknown_keys() const { return unknown_keys_; }
  bool empty() const { return errors_.empty(); }

  /// All errors in document order; the last one says if there were more.
  std::vector<Diagnostic> Take() &&;

 private:
  void Keep(const YamlNode& at, std::string path, std::string message);

  std::string file_name_;
  std::vector<Diagnostic> errors_;
  std::vector<std::string> bad_values_;
  std::vector<std::string> unknown_keys_;
  std::optional<std::pair<int, int>> first_left_out_;  ///< Line and column.
};

/// A node with its path, for the readers below.
struct Located {
  const YamlNode* node;
  std::string path;
};

/// The text of a scalar; nullopt and an error if it is none.
std::optional<std::string> ReadText(ErrorSink& sink, const Located& at);

/// The index of a text that must be one of `values`.
std::optional<std::size_t> ReadOneOf(ErrorSink& sink, const Located& at,
                                     std::span<const std::string_view> values);

/// A whole number, and a duration, from `min` to `max`; nullopt and an error if it is none.
std::optional<std::int64_t> ReadInteger(ErrorSink& sink, const Located& at, std::int64_t min,
                                        std::int64_t max);
std::optional<std::chrono::milliseconds> ReadDuration(ErrorSink& sink, const Located& at,
                                                      std::chrono::milliseconds min,
                                                      std::chrono::milliseconds max);
/// A decimal, in thousandths, as are `min` and `max`.
std::optional<std::int64_t> ReadThousandths(ErrorSink& sink, const Located& at, std::int64_t min,
                                            std::int64_t max);

/// The elements of a list; nullopt and an error if it is none.
std::optional<std::vector<Located>> ReadList(ErrorSink& sink, const Located& at);

/// The entries of a mapping with free keys, without duplicates; each has a `path` of its own.
struct Entry {
  std::string key;
  const YamlNode* key_node;
  Located value;
};
std::vector<Entry> ReadEntries(ErrorSink& sink, const Located& at);

/// A mapping whose keys are all known. Unknown, duplicate and non-text keys, and a node that is not
/// a mapping, are reported on construction.
class Fields {
 public:
  Fields(ErrorSink& sink, const Located& at, std::span<const std::string_view> known_keys);

  /// The value of a key, if it is there.
  std::optional<Located> Find(std::string_view key) const;

  /// As Find, and an error if the key is missing.
  std::optional<Located> Require(std::string_view key);

 private:
  ErrorSink& sink_;
  Located at_;
  std::vector<Entry> entries_;
};

/// Reports values that occurred before, and where.
class Uniqueness {
 public:
  /// False and an error if `value` has been seen.
  bool Check(ErrorSink& sink, const Located& at, const std::string& value);

 private:
  std::map<std::string, int, std::less<>> first_lines_;
};

}  // namespace berth::config
