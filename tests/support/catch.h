// Catch2 v3 or v2, whichever is installed: the only place that knows the difference.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif
