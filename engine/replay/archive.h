// Values to JSON and back, exactly: what Writer writes, Reader reads into an equal value. The
// fields of a type are named once, in its Fields(), for both directions (fields.h).
#pragma once

#include <simdjson.h>

#include <concepts>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace berth::replay {

using Json = nlohmann::ordered_json;

/// T or const T.
template <typename T, typename U>
concept Is = std::same_as<std::remove_const_t<T>, U>;

/// Enumerations are written with Kubernetes' names: `Names(Enum)` lists them in the enum's order.
template <typename T>
concept Named = requires(T value) {
  Names(value);
};

/// Writes the fields of one object. Empty ones, and those with their usual value, are left out.
class Writer {
 public:
  template <typename T>
  void operator()(const char* key, const T& value) {
    if (!Absent(value)) json_[key] = Encode(value);
  }
  template <typename T>
  void operator()(const char* key, const T& value, const T& usual) {
    if (value != usual) json_[key] = Encode(value);
  }
  Json Take() { return std::move(json_); }

  static Json Encode(bool value) { return value; }
  static Json Encode(std::integral auto value) { return value; }
  static Json Encode(std::string_view value) { return value; }
  static Json Encode(const std::string& value) { return value; }
  static Json Encode(Named auto value) { return Names(value)[static_cast<std::size_t>(value)]; }
  template <typename T>
  static Json Encode(const std::vector<T>& values) {
    Json list = Json::array();
    for (const T& value : values) list.push_back(Encode(value));
    return list;
  }
  template <typename T>
  static Json Encode(const std::map<std::string, T, std::less<>>& values) {
    Json object = Json::object();
    for (const auto& [key, value] : values) object[key] = Encode(value);
    return object;
  }
  template <typename T>
  static Json Encode(const std::optional<T>& value) {
    return Encode(*value);
  }
  template <typename T>
  static Json Encode(const std::shared_ptr<const T>& value) {
    return Encode(*value);
  }
  template <typename T>
  requires requires(Writer& w, const T& value) { Fields(w, value); }
  static Json Encode(const T& value) {
    Writer writer;
    writer.json_ = Json::object();
    Fields(writer, value);
    return writer.Take();
  }

 private:
  template <typename T>
  static bool Absent(const T& value) {
    if constexpr (requires { value.empty(); }) return value.empty();
    if constexpr (requires { value.has_value(); }) return !value.has_value();
    return false;
  }

  Json json_ = Json::object();
};

/// Reads the fields of one object; remembers the first error with its path. A field that was not
/// asked for is an error, too: it would be lost.
class Reader {
 public:
  using Element = simdjson::dom::element;

  explicit Reader(Element element) {
    if (element.get_object().get(object_) != simdjson::SUCCESS) Fail("", "not an object");
  }

  template <typename T>
  void operator()(const char* key, T& value) {
    Element element;
    if (!error_.empty() || object_.at_key(key).get(element) != simdjson::SUCCESS) return;
    ++asked_;
    if (const std::string error = Decode(element, value); !error.empty()) Fail(key, error);
  }
  template <typename T>
  void operator()(const char* key, T& value, const T& usual) {
    value = usual;
    (*this)(key, value);
  }

  /// A field that has to be there.
  template <typename T>
  void Require(const char* key, T& value) {
    const std::size_t asked = asked_;
    (*this)(key, value);
    if (error_.empty() && asked_ == asked) Fail(key, "missing");
  }

  /// Empty: no error, and no field besides those that were read.
  std::string Finish() {
    if (error_.empty() && asked_ != object_.size()) {
      Fail("", "a field is unknown, or there twice");
    }
    return error_;
  }

  static std::string Decode(Element element, bool& value) {
    return element.get_bool().get(value) == simdjson::SUCCESS ? "" : "not a boolean";
  }
  template <std::integral T>
  requires(!std::same_as<T, bool>) static std::string Decode(Element element, T& value) {
    std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t> wide = 0;
    if (element.get(wide) != simdjson::SUCCESS || !std::in_range<T>(wide)) {
      return "not an integer, or out of range";
    }
    if constexpr (std::is_signed_v<T>) {  // differences of times must not overflow
      if (wide > kFarthest || wide < -kFarthest) return "out of range";
    }
    value = static_cast<T>(wide);
    return {};
  }
  static std::string Decode(Element element, std::string& value) {
    std::string_view text;
    if (element.get_string().get(text) != simdjson::SUCCESS) return "not a string";
    value = text;
    return {};
  }
  template <Named T>
  static std::string Decode(Element element, T& value) {
    std::string_view text;
    if (element.get_string().get(text) != simdjson::SUCCESS) return "not a string";
    std::size_t index = 0;
    for (const std::string_view name : Names(value)) {
      if (name == text) {
        value = static_cast<T>(index);
        return {};
      }
      ++index;
    }
    return "`" + std::string(text.substr(0, 64)) + "` is none of its words";
  }
  template <typename T>
  static std::string Decode(Element element, std::vector<T>& values) {
    simdjson::dom::array list;
    if (element.get_array().get(list) != simdjson::SUCCESS) return "not a list";
    for (const Element item : list) {
      if (std::string error = Decode(item, values.emplace_back()); !error.empty()) return error;
    }
    return {};
  }
  template <typename T>
  static std::string Decode(Element element, std::map<std::string, T, std::less<>>& values) {
    simdjson::dom::object object;
    if (element.get_object().get(object) != simdjson::SUCCESS) return "not an object";
    for (const auto& [key, item] : object) {
      if (std::string error = Item(item, values[std::string(key)]); !error.empty()) return error;
    }
    return {};
  }
  template <typename T>
  static std::string Decode(Element element, std::optional<T>& value) {
    return Decode(element, value.emplace());
  }
  template <typename T>
  static std::string Decode(Element element, std::shared_ptr<const T>& value) {
    auto fresh = std::make_shared<T>();
    std::string error = Decode(element, *fresh);
    value = std::move(fresh);
    return error;
  }
  template <typename T>
  requires requires(Reader& r, T& value) { Fields(r, value); }
  static std::string Decode(Element element, T& value) {
    Reader reader(element);
    Fields(reader, value);
    return reader.Finish();
  }

 private:
  static constexpr std::int64_t kFarthest = std::int64_t{1} << 60U;

  template <typename T>
  static std::string Item(Element element, T& value) {
    return Decode(element, value);
  }
  /// An amount of a ResourceList: up to the largest number, never negative.
  static std::string Item(Element element, std::int64_t& amount) {
    if (element.get(amount) != simdjson::SUCCESS || amount < 0) return "not an amount";
    return {};
  }

  void Fail(std::string_view key, const std::string& text) {
    if (!error_.empty()) return;
    error_ = std::string(key);
    // "pod" and "labels: not an object" make "pod.labels: not an object".
    if (!key.empty()) error_ += text.find(": ") == std::string::npos ? ": " : ".";
    error_ += text;
  }

  simdjson::dom::object object_;
  std::size_t asked_ = 0;
  std::string error_;
};

}  // namespace berth::replay
