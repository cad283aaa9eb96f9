// Answers that are kept for some time.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <string>
#include <unordered_map>
#include <utility>

namespace berth::server {

/// Holds at most `most` values, each for `life`; if it is full, the oldest is dropped. Not
/// thread-safe.
template <typename Value>
class ExpiringCache {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  ExpiringCache(std::size_t most, std::chrono::milliseconds life) : most_(most), life_(life) {}

  /// nullptr: there is no value, or it has expired. Valid until the next call.
  const Value* Find(const std::string& key, TimePoint now) {
    Forget(now);
    const auto it = values_.find(key);
    return it == values_.end() ? nullptr : &it->second;
  }

  /// An existing key keeps its value and its age.
  void Put(const std::string& key, Value value, TimePoint now) {
    Forget(now);
    if (!values_.emplace(key, std::move(value)).second) return;
    order_.emplace_back(now + life_, key);
    if (order_.size() > most_) Drop();
  }

  std::size_t size() const { return values_.size(); }

 private:
  void Forget(TimePoint now) {
    while (!order_.empty() && order_.front().first <= now) Drop();
  }
  void Drop() {
    values_.erase(order_.front().second);
    order_.pop_front();
  }

  const std::size_t most_;
  const std::chrono::milliseconds life_;
  std::unordered_map<std::string, Value> values_;
  std::deque<std::pair<TimePoint, std::string>> order_;  ///< By expiry time.
};

}  // namespace berth::server
