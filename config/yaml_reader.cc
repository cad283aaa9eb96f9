#include "config/yaml_reader.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <array>
#include <optional>
#include <sstream>
#include <utility>

namespace berth::config {
namespace {

/// Ends a parse from inside an event: yaml-cpp has no other way to stop it.
struct StopParsing {
  YAML::Mark mark;
  std::string message;
};

/// Builds the tree of each document from yaml-cpp's events. yaml-cpp's own tree is not used: it
/// drops duplicate keys silently and expands aliases.
class TreeBuilder : public YAML::EventHandler {
 public:
  struct Refusal {
    YAML::Mark mark;
    std::string message;
  };

  explicit TreeBuilder(const YamlLimits& limits) : limits_(limits) {}

  std::vector<YamlNode> TakeDocuments() { return std::move(documents_); }
  const std::vector<Refusal>& refusals() const { return refusals_; }

  void OnDocumentStart(const YAML::Mark&) override { open_.clear(); }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    RefuseAnchor(mark, anchor);
    Attach(MakeNode(YamlKind::kNull, mark));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    Refuse(mark, "aliases (*name) are not supported: write the value out");
    Attach(MakeNode(YamlKind::kNull, mark));
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    RefuseAnchor(mark, anchor);
    RefuseTag(mark, tag);
    static constexpr std::array<std::string_view, 5> kNulls{"", "~", "null", "Null", "NULL"};
    const bool quoted = tag == "!";
    const bool null = !quoted && std::ranges::find(kNulls, value) != kNulls.end();
    YamlNode node = MakeNode(null ? YamlKind::kNull : YamlKind::kScalar, mark);
    node.quoted = quoted;
    node.text = value;
    Attach(std::move(node));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(YamlKind::kSequence, mark, tag, anchor);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(YamlKind::kMapping, mark, tag, anchor);
  }
  void OnMapEnd() override { Close(); }

 private:
  YamlNode MakeNode(YamlKind kind, const YAML::Mark& mark) {
    if (++nodes_ > limits_.nodes) {
      throw StopParsing{
          mark,
          fmt::format("more than {} values (keys count, too): that is the bound", limits_.nodes)};
    }
    YamlNode node;
    node.kind = kind;
    node.line = mark.line + 1;
    node.column = mark.column + 1;
    return node;
  }

  void Open(YamlKind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    RefuseAnchor(mark, anchor);
    RefuseTag(mark, tag);
    if (open_.size() >= limits_.depth) {
      throw StopParsing{mark, fmt::format("nested deeper than {} levels", limits_.depth)};
    }
    open_.push_back(MakeNode(kind, mark));
  }

  void Close() {
    YamlNode node = std::move(open_.back());
    open_.pop_back();
    Attach(std::move(node));
  }

  void Attach(YamlNode node) {
    if (open_.empty()) {
      if (node.kind != YamlKind::kNull) documents_.push_back(std::move(node));
      return;
    }
    YamlNode& parent = open_.back();
    const bool is_key =
        parent.kind == YamlKind::kMapping && parent.keys.size() == parent.items.size();
    if (parent.kind == YamlKind::kMapping && !is_key && node.kind == YamlKind::kNull) {
      // yaml-cpp marks an absent value at the next token, which may be lines away.
      node.line = parent.keys.back().line;
      node.column = parent.keys.back().column;
    }
    (is_key ? parent.keys : parent.items).push_back(std::move(node));
  }

  void Refuse(const YAML::Mark& mark, std::string message) {
    static constexpr std::size_t kMaxRefusals = 100;
    if (refusals_.size() >= kMaxRefusals) throw StopParsing{mark, "too many errors, stopped here"};
    refusals_.push_back({mark, std::move(message)});
  }
  void RefuseAnchor(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) Refuse(mark, "anchors (&name) are not supported");
  }
  void RefuseTag(const YAML::Mark& mark, const std::string& tag) {
    // `?` and `!` are what yaml-cpp reports for plain and for quoted scalars without a tag.
    if (tag.empty() || tag == "?" || tag == "!") return;
    Refuse(mark, "tags (!name) are not supported");
  }

  YamlLimits limits_;
  std::vector<YamlNode> documents_;
  std::vector<YamlNode> open_;  ///< Collections that have begun and not ended, outermost first.
  std::vector<Refusal> refusals_;
  std::size_t nodes_ = 0;
};

/// Length of the well-formed UTF-8 sequence at the start of `text` (not empty), or 0.
std::size_t Utf8Length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const bool overlong = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xF0 && byte(1) < 0x90);
  const bool surrogate = first == 0xED && byte(1) >= 0xA0;
  const bool too_large = first == 0xF4 && byte(1) >= 0x90;
  return overlong || surrogate || too_large ? 0 : length;
}

/// yaml-cpp reads 0x04 as the end of input, drops NULs, guesses at UTF-16 and replaces bad UTF-8.
/// With any of these a file could mean something else than it shows, so such texts are refused
/// before parsing.
std::optional<Diagnostic> CheckText(std::string_view text, std::string_view file_name) {
  Diagnostic at{.file = std::string(file_name), .path = {}, .message = {}};
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const std::size_t length = Utf8Length(text.substr(i));
    if (length == 0) {
      at.message = fmt::format("not UTF-8 text (byte 0x{:02X})", byte);
      return at;
    }
    if ((byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7F) {
      at.message = fmt::format("control character (byte 0x{:02X})", byte);
      return at;
    }
    if (byte == '\n') {
      ++at.line;
      at.column = 1;
    } else {
      at.column += static_cast<int>(length);
    }
    i += length;
  }
  return std::nullopt;
}

Diagnostic At(std::string_view file_name, const YAML::Mark& mark, std::string message) {
  return {.file = std::string(file_name),
          .line = std::max(mark.line, 0) + 1,
          .column = std::max(mark.column, 0) + 1,
          .path = {},
          .message = std::move(message)};
}

/// The first tab that indents a line up to `mark`: yaml-cpp's own error does not name the tab.
std::optional<Diagnostic> TabAt(std::string_view text, std::string_view file_name,
                                const YAML::Mark& mark) {
  for (int number = 0; number <= mark.line && !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const auto indent = std::min(line.find_first_not_of(" \t"), line.size());
    const auto tab = line.substr(0, indent).find('\t');
    if (tab == std::string_view::npos) continue;
    YAML::Mark at;
    at.line = number;
    at.column = static_cast<int>(tab);
    return At(file_name, at, "a tab indents this line: YAML allows blanks only");
  }
  return std::nullopt;
}

}  // namespace

std::string Diagnostic::ToString() const {
  return path.empty() ? fmt::format("{}:{}:{}: {}", file, line, column, message)
                      : fmt::format("{}:{}:{}: {}: {}", file, line, column, path, message);
}

const YamlNode* YamlNode::Find(std::string_view key) const {
  const auto found = std::ranges::find_if(
      keys, [&](const YamlNode& k) { return k.kind == YamlKind::kScalar && k.text == key; });
  return found == keys.end() ? nullptr : &items[static_cast<std::size_t>(found - keys.begin())];
}

std::expected<std::vector<YamlNode>, std::vector<Diagnostic>> ReadYaml(std::string_view text,
                                                                       std::string_view file_name,
                                                                       const YamlLimits& limits) {
  using Errors = std::vector<Diagnostic>;
  if (text.size() > limits.bytes) {
    return std::unexpected(
        Errors{At(file_name, YAML::Mark(), fmt::format("larger than {} bytes", limits.bytes))});
  }
  if (std::optional<Diagnostic> bad = CheckText(text, file_name)) {
    return std::unexpected(Errors{*std::move(bad)});
  }
  // After some mistakes (`{a: 1},{b: 2}`) yaml-cpp finds documents without end although no byte is
  // left to read. No text has more values than twice its bytes (a key and the null behind its
  // colon).
  YamlLimits bounds = limits;
  bounds.nodes = std::min(limits.nodes, 2 * text.size() + 2);
  TreeBuilder builder(bounds);
  Errors errors;
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const StopParsing& stop) {
    errors.push_back(At(file_name, stop.mark, stop.message));
  } catch (const YAML::Exception& e) {
    errors.push_back(
        TabAt(text, file_name, e.mark).value_or(At(file_name, e.mark, "not valid YAML: " + e.msg)));
  }
  for (const TreeBuilder::Refusal& refusal : builder.refusals()) {
    errors.push_back(At(file_name, refusal.mark, refusal.message));
  }
  if (errors.empty()) return builder.TakeDocuments();
  std::ranges::stable_sort(errors, {}, [](const Diagnostic& d) {
    return std::pair{d.line, d.column};
  });
  return std::unexpected(std::move(errors));
}

}  // namespace berth::config
