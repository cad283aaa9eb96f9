// What rapidcheck draws for a property.
#pragma once

#include <rapidcheck.h>

namespace berth::testing {

/// One of from..upto. Only inside of rc::check.
inline int In(int from, int upto) { return *rc::gen::inRange(from, upto + 1); }

}  // namespace berth::testing
