// One program per target: FUZZ_TARGET names it.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto run = std::ranges::find(berth::fuzz::Targets(), std::string_view(FUZZ_TARGET),
                                            &berth::fuzz::Target::name)
                              ->run;
  run({reinterpret_cast<const char*>(data), size});
  return 0;
}
