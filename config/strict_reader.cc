#include "config/strict_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "config/scalars.h"

namespace berth::config {
namespace {

std::string_view Describe(const YamlNode& node) {
  switch (node.kind) {
    case YamlKind::kNull:
      return "is empty";
    case YamlKind::kScalar:
      return "is a single value";
    case YamlKind::kSequence:
      return "is a list";
    case YamlKind::kMapping:
      return "is a mapping";
  }
  return "is something else";
}

/// Whether `at` is of `kind`; an error if not.
bool Expect(ErrorSink& sink, const Located& at, YamlKind kind, std::string_view name) {
  if (at.node->kind == kind) return true;
  sink.Add(*at.node, at.path, fmt::format("must be {}, {}", name, Describe(*at.node)));
  return false;
}

/// The text of an unquoted scalar: "4096" in quotes is a text, not a number.
std::optional<std::string_view> ReadPlain(ErrorSink& sink, const Located& at,
                                          std::string_view name) {
  if (!Expect(sink, at, YamlKind::kScalar, name)) return std::nullopt;
  if (at.node->quoted) {
    sink.Add(*at.node, at.path, fmt::format("must be {}, is text in quotes", name));
    return std::nullopt;
  }
  return at.node->text;
}

/// The value of `parsed` if it is within [min, max]; an error if not, with the limits as `show`
/// prints them.
template <typename T, typename Show>
std::optional<T> InRange(ErrorSink& sink, const Located& at, std::expected<T, std::string> parsed,
                         T min, T max, Show show) {
  if (!parsed) {
    sink.Add(*at.node, at.path, std::move(parsed).error());
    return std::nullopt;
  }
  if (*parsed >= min && *parsed <= max) return *parsed;
  sink.Add(*at.node, at.path,
           fmt::format("must be from {} to {}, is {}", show(min), show(max), at.node->text));
  return std::nullopt;
}

}  // namespace

std::string JoinPath(std::string_view parent, std::string_view key) {
  const bool identifier = !key.empty() && std::ranges::all_of(key, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  });
  std::string shown = Quote(key);
  shown = shown.substr(1, shown.size() - 2);
  if (!identifier) return fmt::format("{}[{}]", parent, shown);
  return parent.empty() ? shown : fmt::format("{}.{}", parent, shown);
}

std::string JoinPath(std::string_view parent, std::size_t index) {
  return fmt::format("{}[{}]", parent, index);
}

void ErrorSink::Add(const YamlNode& at, std::string path, std::string message) {
  if (errors_.size() < kMaxErrors) bad_values_.push_back(path);
  Keep(at, std::move(path), std::move(message));
}

void ErrorSink::AddUnknownKey(const YamlNode& at, std::string path, std::string message) {
  unknown_keys_.push_back(path);
  Keep(at, std::move(path), std::move(message));
}

void ErrorSink::Keep(const YamlNode& at, std::string path, std::string message) {
  if (errors_.size() == kMaxErrors) {
    if (!first_left_out_) first_left_out_ = {at.line, at.column};
    return;
  }
  errors_.push_back({.file = file_name_,
                     .line = at.line,
                     .column = at.column,
                     .path = std::move(path),
                     .message = std::move(message)});
}

std::vector<Diagnostic> ErrorSink::Take() && {
  std::ranges::stable_sort(errors_, {}, [](const Diagnostic& d) {
    return std::pair{d.line, d.column};
  });
  if (first_left_out_) {
    errors_.push_back(
        {.file = file_name_,
         .line = first_left_out_->first,
         .column = first_left_out_->second,
         .path = {},
         .message = fmt::format("more than {} errors: the others are not shown", kMaxErrors)});
  }
  return std::move(errors_);
}

std::optional<std::string> ReadText(ErrorSink& sink, const Located& at) {
  if (!Expect(sink, at, YamlKind::kScalar, "a text")) return std::nullopt;
  return at.node->text;
}

std::optional<std::size_t> ReadOneOf(ErrorSink& sink, const Located& at,
                                     std::span<const std::string_view> values) {
  const std::optional<std::string> text = ReadText(sink, at);
  if (!text) return std::nullopt;
  const auto found = std::ranges::find(values, *text);
  if (found != values.end()) return static_cast<std::size_t>(found - values.begin());
  const std::string_view near = Closest(*text, values);
  sink.Add(*at.node, at.path,
           fmt::format("must be {}, is {}{}", fmt::join(values, " or "), Quote(*text),
                       near.empty() ? "" : fmt::format(" (did you mean {}?)", near)));
  return std::nullopt;
}

std::optional<std::int64_t> ReadInteger(ErrorSink& sink, const Located& at, std::int64_t min,
                                        std::int64_t max) {
  const auto text = ReadPlain(sink, at, "a whole number");
  if (!text) return std::nullopt;
  return InRange(sink, at, ParseInteger(*text), min, max, [](std::int64_t v) { return v; });
}

std::optional<std::chrono::milliseconds> ReadDuration(ErrorSink& sink, const Located& at,
                                                      std::chrono::milliseconds min,
                                                      std::chrono::milliseconds max) {
  if (!Expect(sink, at, YamlKind::kScalar, "a duration")) return std::nullopt;
  return InRange(sink, at, ParseDuration(at.node->text), min, max, FormatDuration);
}

std::optional<std::int64_t> ReadThousandths(ErrorSink& sink, const Located& at, std::int64_t min,
                                            std::int64_t max) {
  const auto text = ReadPlain(sink, at, "a number");
  if (!text) return std::nullopt;
  return InRange(sink, at, ParseThousandths(*text), min, max, FormatThousandths);
}

std::optional<std::vector<Located>> ReadList(ErrorSink& sink, const Located& at) {
  if (!Expect(sink, at, YamlKind::kSequence, "a list")) return std::nullopt;
  std::vector<Located> elements;
  elements.reserve(at.node->items.size());
  for (std::size_t i = 0; i < at.node->items.size(); ++i) {
    elements.push_back({.node = &at.node->items[i], .path = JoinPath(at.path, i)});
  }
  return elements;
}

std::vector<Entry> ReadEntries(ErrorSink& sink, const Located& at) {
  std::vector<Entry> entries;
  if (!Expect(sink, at, YamlKind::kMapping, "a mapping")) return entries;
  std::map<std::string_view, int> first_lines;
  for (std::size_t i = 0; i < at.node->keys.size(); ++i) {
    const YamlNode& key = at.node->keys[i];
    if (key.kind != YamlKind::kScalar) {
      sink.Add(key, at.path, fmt::format("a key must be a text, {}", Describe(key)));
      continue;
    }
    std::string path = JoinPath(at.path, key.text);
    const auto [first, inserted] = first_lines.emplace(key.text, key.line);
    if (!inserted) {
      sink.Add(key, std::move(path), fmt::format("duplicate key, first on line {}", first->second));
      continue;
    }
    entries.push_back({.key = key.text,
                       .key_node = &key,
                       .value = {.node = &at.node->items[i], .path = std::move(path)}});
  }
  return entries;
}

Fields::Fields(ErrorSink& sink, const Located& at, std::span<const std::string_view> known_keys)
    : sink_(sink), at_(at), entries_(ReadEntries(sink, at)) {
  std::erase_if(entries_, [&](const Entry& entry) {
    if (std::ranges::find(known_keys, entry.key) != known_keys.end()) return false;
    const std::string_view near = Closest(entry.key, known_keys);
    sink.AddUnknownKey(*entry.key_node, entry.value.path,
                       near.empty()
                           ? fmt::format("unknown key; known here: {}", fmt::join(known_keys, ", "))
                           : fmt::format("unknown key, did you mean {}?", near));
    return true;
  });
}

std::optional<Located> Fields::Find(std::string_view key) const {
  const auto found = std::ranges::find(entries_, key, &Entry::key);
  if (found == entries_.end()) return std::nullopt;
  return found->value;
}

std::optional<Located> Fields::Require(std::string_view key) {
  std::optional<Located> found = Find(key);
  if (!found && at_.node->kind == YamlKind::kMapping) {
    sink_.Add(*at_.node, JoinPath(at_.path, key), "missing");
  }
  return found;
}

bool Uniqueness::Check(ErrorSink& sink, const Located& at, const std::string& value) {
  const auto [first, inserted] = first_lines_.emplace(value, at.node->line);
  if (!inserted) {
    sink.Add(*at.node, at.path,
             fmt::format("{} is already on line {}", Quote(value), first->second));
  }
  return inserted;
}

}  // namespace berth::config
