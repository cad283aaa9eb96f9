// What the tests of config/ share: a policy around a fragment, and errors as people see them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/decode.h"

namespace berth::config::testing {

/// The two lines that every policy begins with: what follows stands on line 3.
inline const std::string kHeader =
    "apiVersion: berth.dev/v1alpha1\n"
    "kind: PolicyConfiguration\n";

/// What DecodePolicy says about a file `p`, line by line; empty: nothing.
inline std::vector<std::string> ErrorsOf(std::string_view yaml) {
  std::vector<std::string> lines;
  const auto policy = DecodePolicy(yaml, "p");
  if (policy) return lines;
  for (const Diagnostic& error : policy.error()) lines.push_back(error.ToString());
  return lines;
}

/// The policy that header and `body` make. REQUIRES: they have no errors.
inline PolicyConfiguration Decoded(std::string_view body) {
  return DecodePolicy(kHeader + std::string(body), "p").value();
}

/// A row of a table: this body, after the header, gets this one error.
struct Refusal {
  std::string_view body;
  std::string_view error;
};

}  // namespace berth::config::testing
