// YAML as a plain tree with positions, read from untrusted bytes. It keeps scalars as the text that
// was written, because YAML 1.1's interpretations (`on` a bool, `010` eight) must never decide what
// a policy means, and it keeps duplicate keys, so that the decoder can refuse them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

namespace berth::config {

/// One error in a file, with its position. Lines and columns start at 1; columns count bytes.
struct Diagnostic {
  std::string file;
  int line = 1;
  int column = 1;
  std::string path;  ///< `queues[1].quota[nvidia.com/gpu]`; empty: the file itself.
  std::string message;

  /// `file:line:column: path: message`.
  std::string ToString() const;
  bool operator==(const Diagnostic&) const = default;
};

enum class YamlKind : std::uint8_t { kNull, kScalar, kSequence, kMapping };

/// A value, and where it is in the text; lines and columns count from 1.
struct YamlNode {
  YamlKind kind = YamlKind::kNull;
  bool quoted = false;  ///< A scalar in quotes or a block scalar: always text.
  int line = 1;
  int column = 1;
  std::string text;             ///< Of a scalar.
  std::vector<YamlNode> keys;   ///< Of a mapping; same size and order as `items`.
  std::vector<YamlNode> items;  ///< Values of a mapping, elements of a sequence.

  /// The first value under `key` of a mapping, else null.
  const YamlNode* Find(std::string_view key) const;
};

/// How large a text may be. The defaults are a policy's.
struct YamlLimits {
  std::size_t bytes = std::size_t{1} << 20;
  std::size_t depth = 32;
  std::size_t nodes = 100'000;
};

/// All documents of `text` that are not empty, in order. Refused: more than the limits, bytes that
/// are not UTF-8 text, anchors, aliases and tags (a policy has no use for them, and with them a
/// small file can expand to a large one). Never throws.
std::expected<std::vector<YamlNode>, std::vector<Diagnostic>> ReadYaml(
    std::string_view text, std::string_view file_name, const YamlLimits& limits = {});

}  // namespace berth::config
