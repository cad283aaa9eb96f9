// Character classes that do not depend on the locale.
#pragma once

namespace berth::kube {

constexpr bool IsDigit(char c) { return c >= '0' && c <= '9'; }

}  // namespace berth::kube
