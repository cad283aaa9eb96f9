// Pages that are made under the engine's lock, at most once in a while, however often people ask.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace berth::server {

/// Gives the page of a key again for `life`, unless it is empty: then it is made for whoever
/// asks. Thread-safe: who asks for a page while it is made gets that one. What has expired is
/// forgotten at the next question, so that it holds no more than was made within one `life`.
class PageCache {
 public:
  using Clock = std::function<std::chrono::steady_clock::time_point()>;
  using Page = std::shared_ptr<const std::string>;

  /// A `life` of 0 keeps nothing.
  explicit PageCache(std::chrono::milliseconds life, Clock clock = std::chrono::steady_clock::now)
      : life_(life), clock_(std::move(clock)) {}

  Page Get(const std::string& key, const std::function<std::string()>& make);

 private:
  struct Entry {
    std::mutex making;
    Page page;  ///< Guarded by `making`.
  };
  struct Known {
    std::shared_ptr<Entry> entry;
    std::chrono::steady_clock::time_point asked;  ///< First; the page is no older.
  };

  const std::chrono::milliseconds life_;
  const Clock clock_;
  std::mutex mutex_;
  std::map<std::string, Known> known_;
};

}  // namespace berth::server
