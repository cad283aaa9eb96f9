// Timestamps and durations in the text forms of Kubernetes. Reads no clock.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "kube/objects.h"

namespace berth::kube {

/// An RFC 3339 timestamp, as in metav1.Time and metav1.MicroTime: "2026-05-01T12:00:00Z",
/// "2026-05-01T12:00:00.123456+02:00". Digits below a millisecond are cut off.
std::optional<Millis> ParseTime(std::string_view text);

/// metav1.Time, to the second: "2026-05-01T12:00:00Z". Years outside 0000-9999 are clamped.
std::string FormatTime(Millis time);

/// metav1.MicroTime, with its six decimals: "2026-05-01T12:00:00.123000Z".
std::string FormatMicroTime(Millis time);

/// A Go duration: "2h30m", "1.5h", "300ms", "-1m", "0". Digits below a nanosecond are cut off; a
/// duration that does not fit (about 292 years) is refused.
std::optional<std::chrono::nanoseconds> ParseDuration(std::string_view text);

}  // namespace berth::kube
