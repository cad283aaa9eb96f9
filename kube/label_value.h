// Which texts may be the value of a label.
#pragma once

#include <string_view>

namespace berth::kube {

/// What Kubernetes accepts as the value of a label; may be empty.
bool IsLabelValue(std::string_view text);

}  // namespace berth::kube
