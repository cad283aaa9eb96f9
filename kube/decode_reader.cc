#include "kube/decode_reader.h"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <expected>
#include <limits>
#include <utility>

#include "kube/quantity.h"
#include "kube/time.h"

namespace berth::kube::internal {
namespace {

// Limits of the API server's own validation.
constexpr std::size_t kMaxName = 253;
constexpr std::size_t kMaxUid = 128;
constexpr std::size_t kMaxResourceName = 317;  // prefix/name

/// Names become parts of URLs, paths and logs: they must not contain anything with a special
/// meaning there. This accepts more than Kubernetes allows in the names of any kind.
bool IsName(std::string_view text) {
  const auto allowed = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '.' || c == '_' || c == ':';
  };
  return std::all_of(text.begin(), text.end(), allowed) && text != "." && text != "..";
}

/// Keys are printed unchanged only if they cannot be mistaken for a path or garble a log.
void AppendKey(std::string& path, std::string_view key) {
  const auto plain = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_'; };
  if (std::all_of(key.begin(), key.end(), plain) && key.size() <= 64) {
    if (!path.empty()) path += '.';
    path += key;
    return;
  }
  path += '[';
  for (const char c : key.substr(0, 128)) path += c > ' ' && c <= '~' ? c : '?';
  path += ']';
}

std::optional<SelectorOperator> OperatorFrom(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, SelectorOperator>, 6> kOperators = {{
      {"In", SelectorOperator::kIn},
      {"NotIn", SelectorOperator::kNotIn},
      {"Exists", SelectorOperator::kExists},
      {"DoesNotExist", SelectorOperator::kDoesNotExist},
      {"Gt", SelectorOperator::kGt},
      {"Lt", SelectorOperator::kLt},
  }};
  for (const auto& [name, op] : kOperators) {
    if (name == text) return op;
  }
  return std::nullopt;
}

}  // namespace

void Reader::Problem(std::string_view text) {
  if (problem_) return;
  problem_ = DecodeError{.path = Path(), .text = std::string(text)};
}

void Reader::LeaveOut() {
  if (left_out_++ == 0) first_left_out_ = Path();
}

std::string Reader::LeftOut() const {
  if (left_out_ <= 1) return first_left_out_;
  return first_left_out_ + " and " + std::to_string(left_out_ - 1) + " more";
}

void Reader::TooMany(std::size_t limit) {
  Problem("more than " + std::to_string(limit) + " entries");
}

std::string Reader::Path() const {
  std::string path;
  for (std::size_t i = 0; i < std::min(depth_, path_.size()); ++i) {
    if (path_[i].index == kNoIndex) {
      AppendKey(path, path_[i].key);
    } else {
      path += '[' + std::to_string(path_[i].index) + ']';
    }
  }
  return path;
}

std::string_view Reader::Text(Element value, std::size_t limit) {
  std::string_view text;
  if (value.get_string().get(text) != simdjson::SUCCESS) {
    Problem("not a string");
    return {};
  }
  if (text.size() > limit) {
    Problem("longer than " + std::to_string(limit) + " bytes");
    return {};
  }
  return text;
}

std::string_view Reader::Text(Object object, std::string_view key, std::size_t limit) {
  std::string_view text;
  Field(object, key, [&](Element value) { text = Text(value, limit); });
  return text;
}

bool Reader::Bool(Object object, std::string_view key, bool fallback) {
  bool result = fallback;
  Field(object, key, [&](Element value) {
    if (value.get_bool().get(result) != simdjson::SUCCESS) Problem("not true or false");
  });
  return result;
}

std::int32_t Reader::Int32(Object object, std::string_view key, std::int32_t fallback) {
  std::int32_t result = fallback;
  Field(object, key, [&](Element value) {
    using Limits = std::numeric_limits<std::int32_t>;
    std::int64_t number = 0;
    if (value.get_int64().get(number) != simdjson::SUCCESS || number < Limits::min() ||
        number > Limits::max()) {
      return Problem("not a 32-bit integer");
    }
    result = static_cast<std::int32_t>(number);
  });
  return result;
}

std::optional<Millis> Reader::Time(Object object, std::string_view key) {
  std::optional<Millis> time;
  Field(object, key, [&](Element value) {
    time = ParseTime(Text(value));
    if (!time) Problem("not a timestamp");
  });
  return time;
}

std::vector<std::string> Reader::Texts(Object object, std::string_view key) {
  std::vector<std::string> texts;
  List(object, key, kMaxItems, [&](Element item) { texts.emplace_back(Text(item)); });
  return texts;
}

StringMap Reader::TextMap(Object object, std::string_view key, std::size_t limit,
                          std::size_t text_limit) {
  StringMap texts;
  Map(object, key, [&](std::string_view name, Element value) {
    if (texts.size() >= limit) return TooMany(limit);
    if (name.size() > kMaxText) return Problem("key is too long");
    // The API server writes maps in order: the hint makes each insertion O(1).
    texts.emplace_hint(texts.end(), name, Text(value, text_limit));
  });
  return texts;
}

void Reader::Amount(ResourceList& amounts, std::string_view name, Element value) {
  if (name.size() > kMaxResourceName) return Problem("key is too long");
  std::string_view text;
  std::string digits;
  if (std::int64_t number = 0; value.get_int64().get(number) == simdjson::SUCCESS) {
    text = digits = std::to_string(number);  // Allowed, since people write it: `cpu: 2`.
  } else if (value.get_string().get(text) != simdjson::SUCCESS) {
    return Problem("not a quantity");
  }
  const std::expected<std::int64_t, QuantityError> amount = ParseFor(name, text);
  if (!amount) return Problem(Message(amount.error()));
  amounts.emplace_hint(amounts.end(), name, *amount);
}

ResourceList Reader::Amounts(Object object, std::string_view key) {
  ResourceList amounts;
  Map(object, key, [&](std::string_view name, Element value) {
    if (amounts.size() >= kMaxResources) return TooMany(kMaxResources);
    Amount(amounts, name, value);
  });
  return amounts;
}

ResourceList Reader::NodeAmounts(Object object, std::string_view key) {
  ResourceList amounts;
  std::size_t extended = 0;
  Map(object, key, [&](std::string_view name, Element value) {
    const bool native = name.find('/') == std::string_view::npos;
    if (!native && ++extended > kMaxNodeResources) return LeaveOut();
    Amount(amounts, name, value);
  });
  return amounts;
}

std::vector<Requirement> Reader::Requirements(Object object, std::string_view key) {
  std::vector<Requirement> requirements;
  ObjectList(object, key, kMaxItems, [&](Object item) {
    Requirement requirement{.key = std::string(Text(item, "key")),
                            .op = SelectorOperator::kIn,
                            .values = Texts(item, "values")};
    if (const auto op = OperatorFrom(Text(item, "operator"))) {
      requirement.op = *op;
    } else {
      requirement.values.clear();  // `In` without values: an unknown operator never matches.
    }
    requirements.push_back(std::move(requirement));
  });
  return requirements;
}

std::optional<LabelSelector> Reader::Selector(Object object, std::string_view key) {
  std::optional<LabelSelector> selector;
  ObjectField(object, key, [&](Object fields) {
    selector.emplace();
    for (auto& [name, value] : TextMap(fields, "matchLabels", kMaxItems)) {
      selector->requirements.push_back(
          {.key = name, .op = SelectorOperator::kIn, .values = {value}});
    }
    for (Requirement& requirement : Requirements(fields, "matchExpressions")) {
      selector->requirements.push_back(std::move(requirement));
    }
  });
  return selector;
}

std::optional<OwnerReference> Reader::Controller(Object object) {
  std::optional<OwnerReference> controller;
  ObjectField(object, "metadata", [&](Object metadata) {
    ObjectList(metadata, "ownerReferences", kMaxItems, [&](Object owner) {
      if (controller || !Bool(owner, "controller")) return;
      controller = OwnerReference{.api_version = std::string(Text(owner, "apiVersion")),
                                  .kind = std::string(Text(owner, "kind")),
                                  .name = std::string(Text(owner, "name")),
                                  .uid = std::string(Text(owner, "uid")),
                                  .controller = true};
    });
  });
  return controller;
}

std::string_view Reader::Name(Object object, std::string_view key) {
  std::string_view name;
  Field(object, key, [&](Element value) {
    name = Text(value, kMaxName);
    if (IsName(name)) return;
    name = {};
    Problem("not a name");
  });
  return name;
}

StringMap Reader::Labels(Object metadata, std::size_t limit) {
  StringMap labels;
  std::size_t others = 0;
  Map(metadata, "labels", [&](std::string_view name, Element value) {
    if (!IsReadLabel(name) && ++others > limit) return LeaveOut();
    if (name.size() > kMaxText) return Problem("key is too long");
    // The API server writes maps in order: the hint makes each insertion O(1).
    labels.emplace_hint(labels.end(), name, Text(value));
  });
  return labels;
}

ObjectMeta Reader::Meta(Object object, Author author) {
  ObjectMeta meta;
  ObjectField(object, "metadata", [&](Object fields) {
    meta.name = Name(fields, "name");
    meta.ns = Name(fields, "namespace");
    meta.uid = Text(fields, "uid", kMaxUid);
    meta.resource_version = Text(fields, "resourceVersion", kMaxUid);
    meta.creation = Time(fields, "creationTimestamp").value_or(0);
    meta.deletion = Time(fields, "deletionTimestamp");
    meta.labels = Labels(fields, author == Author::kAdmin ? kMaxAdminLabels : kMaxLabels);
    Map(fields, "annotations", [&](std::string_view key, Element value) {
      const std::size_t limit = AnnotationLimit(key, author);
      if (limit == 0) return;
      meta.annotations.emplace_hint(meta.annotations.end(), key, Text(value, limit));
    });
  });
  return meta;
}

}  // namespace berth::kube::internal
