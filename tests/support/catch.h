// Catch2 v3 or v2, whichever is installed: only this file depends on the difference.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
namespace berth::testing {
using Catch::Approx;
}
#else
#include <catch2/catch.hpp>
namespace berth::testing {
using Approx = Catch::Detail::Approx;
}
#endif
