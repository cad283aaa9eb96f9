#include "server/decision_log.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace berth::server {

std::string ToJson(const engine::Decision& decision, std::int64_t now_ms) {
  nlohmann::ordered_json line{{"v", 1},
                              {"time_ms", now_ms},
                              {"kind", decision.kind},
                              {"workload", decision.workload},
                              {"queue", decision.queue},
                              {"generation", decision.generation}};
  if (!decision.plan.empty()) line["plan"] = decision.plan;
  if (!decision.placed.empty()) {
    auto& placed = line["placed"] = nlohmann::ordered_json::object();
    for (const auto& [pod, node] : decision.placed) placed[pod] = node;
  }
  if (decision.verdict.reason != cluster::ReasonId::kNone) {
    line["reason"] = cluster::Token(decision.verdict.reason);
    line["want"] = decision.verdict.want;
    line["have"] = decision.verdict.have;
  }
  if (!decision.verdict.subject.empty()) line["subject"] = decision.verdict.subject;
  if (decision.candidates > 0) line["candidates"] = decision.candidates;
  if (!decision.chosen.empty()) line["chosen"] = decision.chosen;
  if (!decision.runner_up.empty()) {
    line["next_best_node"] = decision.runner_up;
    line["next_best"] = decision.next_best;
  }
  if (decision.ran_ms >= 0) line["ran_ms"] = decision.ran_ms;
  if (decision.waited_ms >= 0) line["waited_ms"] = decision.waited_ms;
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

DecisionLog::DecisionLog(std::string path, std::size_t max_bytes)
    : path_(std::move(path)), max_bytes_(max_bytes) {
  if (!path_.empty()) Open();
}

DecisionLog::~DecisionLog() = default;

void DecisionLog::Open() {
  if (path_ == "-") {
    file_.reset(stdout);
    return;
  }
  file_.reset(std::fopen(path_.c_str(), "a"));
  if (file_ == nullptr) {
    error_ = path_ + ": " + std::strerror(errno);
    return;
  }
  std::error_code code;
  const auto size = std::filesystem::file_size(path_, code);
  written_ = code ? 0 : size;
}

void DecisionLog::Write(const engine::Decision& decision, std::int64_t now_ms) {
  if (path_.empty()) return;
  const std::string line = ToJson(decision, now_ms) + '\n';
  const std::scoped_lock lock(mutex_);
  if (path_ != "-" && written_ + line.size() > max_bytes_) {
    file_.reset();
    std::error_code ignored;
    std::filesystem::rename(path_, path_ + ".1", ignored);
    written_ = 0;
    Open();
  }
  if (file_ == nullptr || std::fwrite(line.data(), 1, line.size(), file_.get()) != line.size()) {
    ++lost_;
    return;
  }
  std::fflush(file_.get());
  written_ += line.size();
}

std::size_t DecisionLog::lost() const {
  const std::scoped_lock lock(mutex_);
  return lost_;
}

}  // namespace berth::server
