// The types of the values that a file may have, with their bounds, for the lists of keys
// (policy_keys.h, sim/scenario/keys.h).
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

namespace berth::config::keys {

using Values = std::span<const std::string_view>;

/// Exactly this text, which the file must have.
struct Constant {
  std::string_view text;
};
/// One of `values`, which are in the order of their enumerators.
struct Choice {
  Values values;
  std::size_t count;  ///< Of enumerators. Values beyond it are the first ones, spelled otherwise.

  /// `different`: the number of enumerators, if some have several spellings.
  constexpr explicit Choice(Values all) : Choice(all, all.size()) {}
  constexpr Choice(Values all, std::size_t different) : values(all), count(different) {}
};
/// A whole number from `min` to `max`.
struct Whole {
  std::int64_t min;
  std::int64_t max;
};
/// A Go duration (`60s`, `1m30s`) from `min` to `max`.
struct Duration {
  std::chrono::milliseconds min;
  std::chrono::milliseconds max;
};
/// A text of some form.
struct Form {
  bool (*valid)(std::string_view);
  std::string_view wanted;  ///< "must be `wanted`, is ..."
  std::string_view schema;  ///< As JSON.
};

/// T or const T: some visitors only read.
template <typename T, typename U>
concept Is = std::same_as<std::remove_const_t<T>, U>;

}  // namespace berth::config::keys
