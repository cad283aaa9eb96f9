// What outsiders can feed to Berth, as functions of bytes. Each may assert more than "does not
// crash": it aborts when a property is broken. libFuzzer drives them (./dev fuzz), and every test
// run replays their corpora (replay_test.cc).
#pragma once

#include <span>
#include <string_view>

namespace berth::fuzz {

struct Target {
  std::string_view name;  ///< Also the folder of its corpus.
  void (*run)(std::string_view input);
};

std::span<const Target> Targets();

}  // namespace berth::fuzz
