#include "server/cli/json_path.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

namespace berth::server {

using Json = nlohmann::ordered_json;

/// Reads the steps of one path.
class PathReader {
 public:
  explicit PathReader(std::string_view rest) : rest_(rest) {}

  std::expected<JsonPath, std::string> Read() {
    JsonPath path;
    if (rest_.starts_with('$') || rest_.starts_with('@')) rest_.remove_prefix(1);
    if (!rest_.empty() && rest_.front() != '.' && rest_.front() != '[') {
      if (!Field(path)) return Fail();  // `name` for `.name`
    }
    while (!rest_.empty()) {
      const bool good = rest_.front() == '.' ? Dot(path) : Bracket(path);
      if (!good) return Fail();
    }
    return path;
  }

 private:
  using Step = JsonPath::Step;

  std::unexpected<std::string> Fail() const {
    return std::unexpected(fmt::format("unsupported JSONPath at {:?}", rest_));
  }

  bool Dot(JsonPath& path) {
    rest_.remove_prefix(1);
    if (rest_.empty()) return path.steps_.empty();  // `{.}`: all of it
    if (rest_.front() == '[') return true;
    if (rest_.front() != '*') return Field(path);
    rest_.remove_prefix(1);
    path.steps_.push_back({.kind = Step::Kind::kAll});
    return true;
  }

  bool Field(JsonPath& path) {
    std::string name;
    while (!rest_.empty() && rest_.front() != '.' && rest_.front() != '[') {
      if (rest_.front() == '\\' && rest_.size() > 1) rest_.remove_prefix(1);
      name += rest_.front();
      rest_.remove_prefix(1);
    }
    if (name.empty() || name.find_first_of(" ?()\"'{},:") != std::string::npos) return false;
    path.steps_.push_back({.field = std::move(name)});
    return true;
  }

  bool Bracket(JsonPath& path) {
    const auto close = rest_.find(']');
    if (rest_.front() != '[' || close == std::string_view::npos) return false;
    const std::string_view inside = rest_.substr(1, close - 1);
    if (inside == "*") {
      path.steps_.push_back({.kind = Step::Kind::kAll});
    } else if (inside.size() > 2 && (inside.front() == '\'' || inside.front() == '"') &&
               inside.back() == inside.front()) {
      path.steps_.push_back({.field = std::string(inside.substr(1, inside.size() - 2))});
    } else {
      std::int64_t index = 0;
      const char* end = inside.data() + inside.size();
      const auto [stop, code] = std::from_chars(inside.data(), end, index);
      if (inside.empty() || code != std::errc{} || stop != end) return false;
      path.steps_.push_back({.kind = Step::Kind::kIndex, .index = index});
    }
    rest_.remove_prefix(close + 1);
    return true;
  }

  std::string_view rest_;
};

namespace {

std::string_view Trim(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

/// Fills a template in, once for every element of a range.
class Filler {
 public:
  Filler(std::string_view text, std::string& out) : text_(text), out_(out) {}

  /// Fills in from `at` up to the end, or to the `{end}` of the enclosing range. Returns where it
  /// stopped.
  std::optional<std::size_t> Fill(std::size_t at, const Json& root, bool in_range) {
    while (at < text_.size()) {
      if (text_[at] != '{') {
        out_ += text_[at++];
        continue;
      }
      const std::size_t close = CloseOf(at);
      if (close == std::string_view::npos) return Fail("a { without a closing }");
      const std::string_view inside = Trim(text_.substr(at + 1, close - at - 1));
      at = close + 1;
      if (inside == "end") {
        if (!in_range) return Fail("an {end} without a {range}");
        return at;
      }
      if (inside.starts_with("range ")) {
        const auto after = Range(Trim(inside.substr(6)), at, root);
        if (!after) return std::nullopt;
        at = *after;
      } else if (!Value(inside, root)) {
        return std::nullopt;
      }
    }
    if (in_range) return Fail("a {range} without an {end}");
    return at;
  }

  std::string error;

 private:
  std::optional<std::size_t> Fail(std::string text) {
    error = std::move(text);
    return std::nullopt;
  }

  /// The } for the { at `at`; those in quotes do not count.
  std::size_t CloseOf(std::size_t at) const {
    char quote = 0;
    for (std::size_t i = at + 1; i < text_.size(); ++i) {
      const char c = text_[i];
      if (quote != 0) {
        if (c == '\\') {
          ++i;
        } else if (c == quote) {
          quote = 0;
        }
      } else if (c == '"' || c == '\'') {
        quote = c;
      } else if (c == '}') {
        return i;
      }
    }
    return std::string_view::npos;
  }

  std::optional<std::size_t> Range(std::string_view path_text, std::size_t at, const Json& root) {
    const auto path = JsonPath::Parse(path_text);
    if (!path) return Fail(path.error());
    // One pass without output finds the end, and mistakes inside.
    const std::size_t before = out_.size();
    const auto after = Fill(at, Json(), /*in_range=*/true);
    out_.resize(before);
    if (!after) return std::nullopt;
    for (const Json* element : path->Find(root)) Fill(at, *element, /*in_range=*/true);
    return after;
  }

  bool Value(std::string_view inside, const Json& root) {
    if (inside.size() >= 2 && (inside.front() == '"' || inside.front() == '\'')) {
      const auto literal =
          Json::parse('"' + std::string(inside.substr(1, inside.size() - 2)) + '"', nullptr, false);
      if (inside.back() == inside.front() && literal.is_string()) {
        out_ += literal.get<std::string>();
        return true;
      }
      return Fail(fmt::format("not a valid string: {}", inside)).has_value();
    }
    const auto path = JsonPath::Parse(inside);
    if (!path) return Fail(path.error()).has_value();
    bool first = true;
    for (const Json* value : path->Find(root)) {
      if (!std::exchange(first, false)) out_ += ' ';
      out_ += value->is_string() ? value->get<std::string>() : value->dump();
    }
    return true;
  }

  const std::string_view text_;
  std::string& out_;
};

}  // namespace

std::expected<JsonPath, std::string> JsonPath::Parse(std::string_view text) {
  if (text.starts_with('{') && text.ends_with('}')) text = text.substr(1, text.size() - 2);
  return PathReader(Trim(text)).Read();
}

std::vector<const Json*> JsonPath::Find(const Json& root) const {
  std::vector<const Json*> found{&root};
  for (const Step& step : steps_) {
    std::vector<const Json*> next;
    for (const Json* json : found) {
      if (step.kind == Step::Kind::kField) {
        if (!json->is_object()) continue;
        if (const auto it = json->find(step.field); it != json->end()) next.push_back(&*it);
      } else if (step.kind == Step::Kind::kAll) {
        if (!json->is_structured()) continue;
        for (const Json& element : *json) next.push_back(&element);
      } else if (json->is_array()) {
        const auto size = static_cast<std::int64_t>(json->size());
        const std::int64_t index = step.index < 0 ? size + step.index : step.index;
        if (index >= 0 && index < size) next.push_back(&(*json)[static_cast<std::size_t>(index)]);
      }
    }
    found = std::move(next);
  }
  return found;
}

std::expected<std::string, std::string> FillTemplate(std::string_view text, const Json& root) {
  std::string out;
  Filler filler(text, out);
  if (!filler.Fill(0, root, /*in_range=*/false)) return std::unexpected(filler.error);
  return out;
}

}  // namespace berth::server
