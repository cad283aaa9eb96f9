// simdjson's types for headers that only name them: reading the library's own header takes the
// compiler seconds.
#pragma once

namespace simdjson::dom {
class element;
class parser;
}  // namespace simdjson::dom
