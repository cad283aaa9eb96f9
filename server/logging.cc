#include "server/logging.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <spdlog/async.h>
#include <spdlog/async_logger.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "kube/terminal.h"
#include "server/verbs/wire.h"

namespace berth::server {
namespace {

constexpr std::size_t kQueuedEntries = 8192;
/// Longer values are cut: some come from outside.
constexpr std::size_t kMaxValueBytes = 4096;

/// Hands each line to a function.
class FunctionSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit FunctionSink(std::function<void(std::string_view)> take) : take_(std::move(take)) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    take_({line.data(), line.size()});
  }
  void flush_() override {}

  std::function<void(std::string_view)> take_;
};

/// Counts how often the entries so far were written: spdlog's logger only asks for it, and the
/// thread that writes gets there later.
class FlushCount final : public spdlog::sinks::sink {
 public:
  explicit FlushCount(spdlog::sink_ptr to) : to_(std::move(to)) {}

  void log(const spdlog::details::log_msg& message) override { to_->log(message); }
  void flush() override {
    to_->flush();
    const std::lock_guard lock(mutex_);
    ++count_;
    counted_.notify_all();
  }
  void set_pattern(const std::string& pattern) override { to_->set_pattern(pattern); }
  void set_formatter(std::unique_ptr<spdlog::formatter> formatter) override {
    to_->set_formatter(std::move(formatter));
  }

  std::uint64_t count() {
    const std::lock_guard lock(mutex_);
    return count_;
  }
  /// Returns after a while even if it is not reached: requests are dropped with other entries when
  /// too many of them wait.
  void WaitFor(std::uint64_t count) {
    constexpr std::chrono::seconds kMost{2};
    std::unique_lock lock(mutex_);
    counted_.wait_for(lock, kMost, [&] { return count_ >= count; });
  }

 private:
  spdlog::sink_ptr to_;
  std::mutex mutex_;
  std::condition_variable counted_;
  std::uint64_t count_ = 0;
};

std::string_view SeverityName(Severity severity) {
  switch (severity) {
    case Severity::kError:
      return "error";
    case Severity::kWarning:
      return "warning";
    case Severity::kInfo:
      return "info";
  }
  return "info";
}

spdlog::level::level_enum SpdlogLevel(Severity severity) {
  switch (severity) {
    case Severity::kError:
      return spdlog::level::err;
    case Severity::kWarning:
      return spdlog::level::warn;
    case Severity::kInfo:
      return spdlog::level::info;
  }
  return spdlog::level::info;
}

std::string Timestamp() {
  const auto now =
      std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now());
  const auto micros = now.time_since_epoch().count() % 1'000'000;
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:06}Z",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(now)), micros);
}

/// Appends a JSON string, shortened at the end if it is too long.
void AppendText(std::string& out, std::string_view value) {
  if (value.size() <= kMaxValueBytes) return AppendJsonString(out, value);
  auto end = kMaxValueBytes;
  while (end > 0 && (static_cast<unsigned char>(value[end]) & 0xC0U) == 0x80U) --end;
  AppendJsonString(out, fmt::format("{}... ({} bytes)", value.substr(0, end), value.size()));
}

void AppendNumber(std::string& out, double value) {
  if (std::isfinite(value)) {
    fmt::format_to(std::back_inserter(out), "{}", value);
  } else {
    AppendJsonString(out, fmt::format("{}", value));
  }
}

struct AppendJsonValue {
  std::string& out;
  void operator()(std::string_view value) const { AppendText(out, value); }
  void operator()(bool value) const { out += value ? "true" : "false"; }
  void operator()(std::int64_t value) const { out += std::to_string(value); }
  void operator()(double value) const { AppendNumber(out, value); }
};

/// As JSON, but without quotes for words that need none.
struct AppendTextValue {
  std::string& out;
  void operator()(std::string_view value) const {
    const bool word =
        !value.empty() && value.size() <= kMaxValueBytes && std::ranges::all_of(value, [](char c) {
          return c > ' ' && c < 0x7F && c != '"' && c != '=' && c != '\\';
        });
    word ? void(out += value) : AppendText(out, value);
  }
  void operator()(auto value) const { AppendJsonValue{out}(value); }
};

std::string JsonLine(Severity severity, std::string_view message, LogFields fields) {
  std::string line = R"({"ts":")" + Timestamp() + R"(","level":")";
  line += SeverityName(severity);
  line += R"(","msg":)";
  AppendJsonString(line, message);
  for (const auto& field : fields) {
    line += ',';
    AppendJsonString(line, field.key);
    line += ':';
    std::visit(AppendJsonValue{line}, field.value);
  }
  line += '}';
  return line;
}

std::string TextLine(Severity severity, std::string_view message, LogFields fields) {
  std::string line = Timestamp();
  line += ' ';
  line += SeverityName(severity);
  line += ' ';
  AppendJsonString(line, message);
  for (const auto& field : fields) {
    line += ' ';
    line += field.key;
    line += '=';
    std::visit(AppendTextValue{line}, field.value);
  }
  return line;
}

}  // namespace

struct Logger::State {
  explicit State(spdlog::sink_ptr to)
      : sink(std::make_shared<FlushCount>(std::move(to))),
        pool(std::make_shared<spdlog::details::thread_pool>(kQueuedEntries, 1)),
        logger(std::make_shared<spdlog::async_logger>(
            "berth", sink, pool, spdlog::async_overflow_policy::overrun_oldest)) {
    logger->set_pattern("%v");
  }

  std::shared_ptr<FlushCount> sink;
  std::mutex flushing;  ///< One at a time, so that each knows its own.

  std::shared_ptr<spdlog::details::thread_pool> pool;
  std::shared_ptr<spdlog::async_logger> logger;
};

Logger::Logger(LogFormat format, int verbosity, std::function<void(std::string_view)> sink)
    : format_(format), verbosity_(verbosity) {
  spdlog::sink_ptr target;
  if (sink) {
    target = std::make_shared<FunctionSink>(std::move(sink));
  } else {
    target = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  }
  state_ = std::make_unique<State>(std::move(target));
}

Logger::~Logger() = default;

void Logger::Log(Severity severity, std::string_view message, LogFields fields) {
  const auto line =
      kube::Printable(format_ == LogFormat::kJson ? JsonLine(severity, message, fields)
                                                  : TextLine(severity, message, fields));
  state_->logger->log(SpdlogLevel(severity), spdlog::string_view_t(line.data(), line.size()));
}

void Logger::Flush() {
  const std::lock_guard lock(state_->flushing);
  const std::uint64_t before = state_->sink->count();
  state_->logger->flush();
  state_->sink->WaitFor(before + 1);
}

}  // namespace berth::server
