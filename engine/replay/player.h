// Makes recorded calls again, on an engine of its own.
#pragma once

#include <simdjson.h>

#include <expected>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace berth::replay {

class Player {
 public:
  /// Makes the call of one line that has an `input`. Returns the resulting decisions as lines of
  /// the log; an error says why this is not such a line.
  std::expected<std::vector<std::string>, std::string> Feed(simdjson::dom::element line);

 private:
  std::unique_ptr<engine::Engine> engine_;
};

}  // namespace berth::replay
