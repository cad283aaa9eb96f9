// Internal to kube/decode*.cc: reads optional JSON fields into plain values and remembers the first
// problem, with its path. The path costs nothing until there is a problem.
#pragma once

#include <simdjson.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kube/decode.h"
#include "kube/objects.h"

namespace berth::kube::internal {

inline constexpr std::size_t kMaxText = 4096;  ///< Bytes of a string without a smaller bound of its
                                               ///< own.

class Reader {
 public:
  using Object = simdjson::dom::object;
  using Element = simdjson::dom::element;

  Reader() = default;
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  /// The first problem, if any.
  const std::optional<DecodeError>& problem() const { return problem_; }

  /// Notes a problem with the value being read, unless there was one before.
  void Problem(std::string_view text);
  /// Notes that the value being read was left out.
  void LeaveOut();
  /// The text for ObjectMeta::left_out.
  std::string LeftOut() const;

  /// Calls `read(Element)` if the field is there and not null. Returns whether it was.
  template <typename Read>
  bool Field(Object object, std::string_view key, Read read) {
    Element value;
    if (object.at_key(key).get(value) != simdjson::SUCCESS || value.is_null()) return false;
    const Scope scope(*this, {.key = key});
    read(value);
    return true;
  }

  /// Calls `read(Object)` if the field is an object.
  template <typename Read>
  bool ObjectField(Object object, std::string_view key, Read read) {
    return Field(object, key, [&](Element value) { AsObject(value, read); });
  }

  /// Calls `read(Element)` for every item of a list that is not null.
  template <typename Read>
  void List(Object object, std::string_view key, std::size_t limit, Read read) {
    Field(object, key, [&](Element value) {
      simdjson::dom::array items;
      if (value.get_array().get(items) != simdjson::SUCCESS) return Problem("not a list");
      std::size_t index = 0;
      for (const Element item : items) {
        if (index == limit) return TooMany(limit);
        const Scope scope(*this, {.index = index++});
        if (!item.is_null()) read(item);
      }
    });
  }

  /// As List, of elements that are objects; the others are problems.
  template <typename Read>
  void ObjectList(Object object, std::string_view key, std::size_t limit, Read read) {
    List(object, key, limit, [&](Element item) { AsObject(item, read); });
  }

  /// Calls `read(key, Element)` for every member of a map that is not null.
  template <typename Read>
  void Map(Object object, std::string_view key, Read read) {
    ObjectField(object, key, [&](Object map) {
      for (const simdjson::dom::key_value_pair entry : map) {
        const Scope scope(*this, {.key = entry.key});
        if (!entry.value.is_null()) read(entry.key, entry.value);
      }
    });
  }

  /// A view into the parser's buffer; empty if absent, of a wrong type or longer than `limit`.
  std::string_view Text(Object object, std::string_view key, std::size_t limit = kMaxText);
  std::string_view Text(Element value, std::size_t limit = kMaxText);

  /// `fallback` where it is absent or, which is a problem, of a wrong type.
  bool Bool(Object object, std::string_view key, bool fallback = false);
  std::int32_t Int32(Object object, std::string_view key, std::int32_t fallback = 0);
  /// An RFC 3339 timestamp.
  std::optional<Millis> Time(Object object, std::string_view key);
  /// A list of texts.
  std::vector<std::string> Texts(Object object, std::string_view key);
  /// A map of at most `limit` texts.
  StringMap TextMap(Object object, std::string_view key, std::size_t limit,
                    std::size_t text_limit = kMaxText);
  /// A resource list, without the amounts that cannot be read (each is a problem).
  ResourceList Amounts(Object object, std::string_view key);
  /// The same for a node: beyond kMaxNodeResources, only Kubernetes' own resources are kept.
  ResourceList NodeAmounts(Object object, std::string_view key);

  /// metav1.LabelSelector; nullopt: absent, or it cannot be read.
  std::optional<LabelSelector> Selector(Object object, std::string_view key);
  std::vector<Requirement> Requirements(Object object, std::string_view key);

  /// The owner that controls the object, of its `metadata`.
  std::optional<OwnerReference> Controller(Object object);
  /// Reads `metadata`; fields that cannot be read stay empty.
  ObjectMeta Meta(Object object, Author author);

 private:
  static constexpr std::size_t kNoIndex = static_cast<std::size_t>(-1);

  struct Segment {
    std::string_view key = {};
    std::size_t index = kNoIndex;
  };

  class Scope {
   public:
    Scope(Reader& reader, Segment segment) : reader_(reader) {
      if (reader_.depth_ < reader_.path_.size()) reader_.path_[reader_.depth_] = segment;
      ++reader_.depth_;
    }
    ~Scope() { --reader_.depth_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Reader& reader_;
  };

  template <typename Read>
  void AsObject(Element value, Read& read) {
    Object object;
    if (value.get_object().get(object) != simdjson::SUCCESS) return Problem("not an object");
    read(object);
  }

  /// The name of an object: safe to put into a URL.
  std::string_view Name(Object object, std::string_view key);
  StringMap Labels(Object metadata, std::size_t limit);
  void TooMany(std::size_t limit);
  void Amount(ResourceList& amounts, std::string_view name, Element value);
  std::string Path() const;

  std::array<Segment, 16> path_;  // The deepest path that is read has 11.
  std::size_t depth_ = 0;
  std::optional<DecodeError> problem_;
  std::size_t left_out_ = 0;
  std::string first_left_out_;
};

/// Decodes a kind for which every problem is an error. `read(reader, object, result)` fills in
/// everything after the metadata.
template <typename T, typename Read>
std::expected<T, DecodeError> DecodeStrictly(Reader::Element json, Read read,
                                             Author author = Author::kUser) {
  Reader::Object object;
  if (json.get_object().get(object) != simdjson::SUCCESS) {
    return std::unexpected(DecodeError{.path = "", .text = "not an object"});
  }
  Reader reader;
  T result;
  result.meta = reader.Meta(object, author);
  if (!reader.problem() && result.meta.name.empty()) {
    return std::unexpected(DecodeError{.path = "metadata.name", .text = "missing"});
  }
  read(reader, object, result);
  if (reader.problem()) return std::unexpected(*reader.problem());
  result.meta.left_out = reader.LeftOut();
  return result;
}

}  // namespace berth::kube::internal
