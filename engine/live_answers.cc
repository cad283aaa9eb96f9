#include "engine/live_answers.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace berth::engine {
namespace {

constexpr std::size_t kMost = 4096;
constexpr TimePoint kKeptFor = 15'000;

}  // namespace

void LiveAnswers::Note(std::string_view uid, std::vector<std::string> nodes, TimePoint now) {
  if (answers_.size() >= kMost) answers_.clear();
  answers_[std::string(uid)] = {.nodes = std::move(nodes), .expires = now + kKeptFor};
}

const std::string* LiveAnswers::First(std::string_view uid) const {
  const auto it = answers_.find(std::string(uid));
  return it == answers_.end() || it->second.nodes.empty() ? nullptr : &it->second.nodes.front();
}

bool LiveAnswers::Take(std::string_view uid, std::string_view node, TimePoint now) {
  const auto it = answers_.find(std::string(uid));
  if (it == answers_.end()) return false;
  const Answer answer = std::move(it->second);
  answers_.erase(it);
  return answer.expires >= now && std::ranges::find(answer.nodes, node) != answer.nodes.end();
}

void LiveAnswers::Forget(std::string_view uid) { answers_.erase(std::string(uid)); }

void LiveAnswers::ForgetExpired(TimePoint now) {
  std::erase_if(answers_, [now](const auto& entry) { return entry.second.expires < now; });
}

}  // namespace berth::engine
