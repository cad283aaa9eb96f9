// EncodePolicy and PolicyKeyPaths of decode.h.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <type_traits>
#include <utility>

#include "config/decode.h"
#include "config/policy_keys.h"
#include "config/scalars.h"
#include "kube/quantity.h"

namespace berth::config {
namespace {

/// Names that YAML 1.1 readers would not take for text (`no`, `10`, `1e3`, `*`) are quoted. No name
/// needs escapes: all are label keys, DNS names or `*`.
std::string Text(std::string_view name) {
  static constexpr std::array<std::string_view, 10> kWords{"y",   "n",    "yes",   "no",   "on",
                                                           "off", "true", "false", "null", "auto"};
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  const bool plain =
      !name.empty() && name.front() >= 'A' && std::ranges::find(kWords, lower) == kWords.end();
  return plain ? std::string(name) : fmt::format("\"{}\"", name);
}

std::string List(std::span<const std::string> names) {
  std::vector<std::string> texts;
  for (const std::string& name : names) texts.push_back(Text(name));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

std::string Amounts(const kube::ResourceList& amounts) {
  std::vector<std::string> texts;
  for (const auto& [resource, amount] : amounts) {
    texts.push_back(fmt::format("{}: {}", Text(resource), kube::Format(resource, amount)));
  }
  return fmt::format("{{{}}}", fmt::join(texts, ", "));
}

std::string LabelsText(const kube::StringMap& labels) {
  std::vector<std::string> texts;
  for (const auto& [label, value] : labels) {
    texts.push_back(fmt::format("{}: {}", Text(label), Text(value)));
  }
  return fmt::format("{{{}}}", fmt::join(texts, ", "));
}

/// Writes the keys of one mapping. What is empty and may be left out is left out.
class Encoder {
 public:
  explicit Encoder(std::string& out) : out_(out) {}

  void operator()(std::string_view key, const keys::Constant& type) { Line(key, type.text); }
  void operator()(std::string_view key, const auto& value, const keys::Choice& type,
                  std::string_view) {
    Line(key, type.values[static_cast<std::size_t>(value)]);
  }
  /// A value out of bounds stands for a key that is absent.
  void operator()(std::string_view key, std::int64_t value, const keys::Whole& type,
                  std::string_view) {
    if (value >= type.min && value <= type.max) Line(key, std::to_string(value));
  }
  void operator()(std::string_view key, std::int64_t value, const keys::Decimal&,
                  std::string_view) {
    Line(key, FormatThousandths(value));
  }
  void operator()(std::string_view key, std::chrono::milliseconds value, const keys::Duration&,
                  std::string_view) {
    Line(key, FormatDuration(value));
  }
  void operator()(std::string_view key, const std::string& value, const keys::Name& type,
                  std::string_view) {
    if (type.required || !value.empty()) Line(key, Text(value));
  }
  void operator()(std::string_view key, const std::vector<std::string>& value, const keys::Names&,
                  std::string_view) {
    Line(key, List(value));
  }
  void operator()(std::string_view key, const std::optional<std::vector<std::string>>& value,
                  const keys::Names&, std::string_view) {
    if (value) Line(key, List(*value));
  }
  void operator()(std::string_view key, const kube::ResourceList& value, const keys::Amounts&,
                  std::string_view) {
    if (!value.empty()) Line(key, Amounts(value));
  }
  void operator()(std::string_view key, const kube::StringMap& value, const keys::Labels&,
                  std::string_view) {
    if (!value.empty()) Line(key, LabelsText(value));
  }
  template <typename T>
  void operator()(std::string_view key, T& value, const keys::Section&, std::string_view) {
    Line(key);
    Encoder inner(out_, indent_ + "  ", indent_ + "  ");
    keys::Keys(inner, value);
  }
  template <typename T>
  void operator()(std::string_view key, const std::vector<T>& values, const keys::Elements&,
                  std::string_view) {
    if (values.empty()) return;
    Line(key);
    for (const T& value : values) {
      Encoder inner(out_, indent_ + "- ", indent_ + "  ");
      keys::Keys(inner, value);
    }
  }

 private:
  Encoder(std::string& out, std::string first, std::string indent)
      : out_(out), next_(std::move(first)), indent_(std::move(indent)) {}

  void Line(std::string_view key, std::string_view value = {}) {
    out_ += fmt::format("{}{}:{}{}\n", std::exchange(next_, indent_), key, value.empty() ? "" : " ",
                        value);
  }

  std::string& out_;
  std::string next_;    ///< Before the next key.
  std::string indent_;  ///< Before those that follow it.
};

/// Collects the paths of the keys of one mapping.
class PathCollector {
 public:
  PathCollector(std::vector<std::string>& paths, std::string parent)
      : paths_(paths), parent_(std::move(parent)) {}

  void operator()(std::string_view key, const keys::Constant&) {
    paths_.push_back(parent_ + std::string(key));
  }
  template <typename T, typename Type>
  void operator()(std::string_view key, T& value, const Type&, std::string_view) {
    paths_.push_back(parent_ + std::string(key));
    if constexpr (std::is_same_v<Type, keys::Section>) {
      PathCollector inner(paths_, paths_.back() + ".");
      keys::Keys(inner, value);
    } else if constexpr (std::is_same_v<Type, keys::Elements>) {
      PathCollector inner(paths_, paths_.back() + "[].");
      typename T::value_type element;
      keys::Keys(inner, element);
    }
  }

 private:
  std::vector<std::string>& paths_;
  std::string parent_;
};

}  // namespace

std::string EncodePolicy(const PolicyConfiguration& policy) {
  std::string out;
  Encoder encoder(out);
  keys::Keys(encoder, policy);
  return out;
}

std::vector<std::string> PolicyKeyPaths() {
  std::vector<std::string> paths;
  PathCollector collector(paths, "");
  PolicyConfiguration policy;
  keys::Keys(collector, policy);
  return paths;
}

}  // namespace berth::config
