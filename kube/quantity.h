// Kubernetes quantities ("100m", "1.5", "2Gi", "1e3") as exact int64 amounts. No floating point.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

namespace berth::kube {

/// Longer texts are refused unread. The API server's canonical form needs about 20 characters.
inline constexpr std::size_t kMaxQuantityLength = 64;

enum class QuantityError : std::uint8_t {
  kEmpty,
  kTooLong,
  kNotANumber,     ///< No digits before the suffix.
  kUnknownSuffix,  ///< Anything after the number that is neither a suffix nor an exponent.
  kNegative,       ///< From ParseFor only: an amount of a resource cannot be negative.
};

/// For people, without the offending text: "not a quantity (unknown suffix)".
std::string_view Message(QuantityError error);

/// The quantity in thousandths. A remainder is rounded away from zero (for positive quantities this
/// is apimachinery's MilliValue()), and a value that does not fit saturates at +-INT64_MAX (there
/// it wraps).
///
/// The grammar is the documented one of apimachinery, which requires at least one digit; its parser
/// also accepts "+", "." and "Ki" as zero, this one does not.
std::expected<std::int64_t, QuantityError> ParseMilli(std::string_view text);

/// The quantity in whole units, rounded and saturated in the same way (Value()).
std::expected<std::int64_t, QuantityError> ParseWhole(std::string_view text);

/// Whether ResourceList holds this resource in thousandths (`cpu` and every name with a `/`)
/// rather than in whole units.
bool InThousandths(std::string_view resource_name);

/// The amount of a resource in the canonical unit of ResourceList. Never negative.
std::expected<std::int64_t, QuantityError> ParseFor(std::string_view resource_name,
                                                    std::string_view text);

/// The inverse of ParseFor, in the form people write: "1500m" cpu, "2Gi" memory, "8" GPUs.
std::string Format(std::string_view resource_name, std::int64_t amount);

}  // namespace berth::kube
