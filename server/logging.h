// Structured logs: one line per entry, as text or JSON, to stderr.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

namespace berth::server {

enum class LogFormat : std::uint8_t { kText, kJson };
enum class Severity : std::uint8_t { kError, kWarning, kInfo };

/// A key and a value of an entry. Use the existing keys where they fit: pod (NAMESPACE/NAME), uid,
/// node, gang, queue, reason, error, dur_ms.
struct LogField {
  using Value = std::variant<std::string_view, std::int64_t, double, bool>;

  LogField(std::string_view k, std::string_view v) : key(k), value(v) {}
  LogField(std::string_view k, const char* v) : key(k), value(std::string_view(v)) {}
  LogField(std::string_view k, const std::string& v) : key(k), value(std::string_view(v)) {}
  LogField(std::string_view k, bool v) : key(k), value(v) {}
  LogField(std::string_view k, std::integral auto v)
      : key(k), value(static_cast<std::int64_t>(v)) {}
  LogField(std::string_view k, double v) : key(k), value(v) {}

  std::string_view key;
  Value value;
};

using LogFields = std::initializer_list<LogField>;

/// Thread-safe. Entries are handed to a thread of the logger's own; when that falls behind, the
/// oldest are dropped, so that callers never wait. A value is cut at 4 KiB. The destructor writes
/// the remaining entries.
class Logger {
 public:
  /// `verbosity` as in Kubernetes: 0 for operators, 2 a line per decision, 5 everything that helps.
  /// `sink` gets whole lines, including the newline; empty: stderr.
  explicit Logger(LogFormat format, int verbosity = 0,
                  std::function<void(std::string_view)> sink = {});
  ~Logger();
  Logger(const Logger&) = delete;
  Logger& operator=(const Logger&) = delete;

  /// `message` is a constant; what varies goes into `fields`.
  void Log(Severity severity, std::string_view message, LogFields fields = {});

  /// Logs as info if the verbosity is at least `level`.
  void V(int level, std::string_view message, LogFields fields = {}) {
    if (Enabled(level)) Log(Severity::kInfo, message, fields);
  }
  bool Enabled(int level) const { return level <= verbosity_; }

  /// Has all entries so far written.
  void Flush();

 private:
  struct State;

  const LogFormat format_;
  const int verbosity_;
  std::unique_ptr<State> state_;
};

}  // namespace berth::server
