#include "kube/label_value.h"

#include <algorithm>

#include "kube/ascii.h"

namespace berth::kube {

bool IsLabelValue(std::string_view text) {
  constexpr std::size_t kMaxValue = 63;
  return text.empty() || (text.size() <= kMaxValue && IsAlnum(text.front()) &&
                          IsAlnum(text.back()) && std::ranges::all_of(text, [](char c) {
                            return IsAlnum(c) || c == '-' || c == '_' || c == '.';
                          }));
}

}  // namespace berth::kube
