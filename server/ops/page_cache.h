// Pages that are built under the host's lock, with a least time between two builds, however often
// they are requested.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace berth::server {

/// Returns the page of a key again for `life`, unless it is empty: then it is built for each
/// caller. Thread-safe: a caller that asks for a page while it is being built gets that one.
/// Expired pages are dropped at the next request, so that the cache holds no more than was built
/// within one `life`.
class PageCache {
 public:
  using Clock = std::function<std::chrono::steady_clock::time_point()>;
  using Page = std::shared_ptr<const std::string>;

  /// A `life` of 0 keeps nothing.
  explicit PageCache(std::chrono::milliseconds life, Clock clock = std::chrono::steady_clock::now)
      : life_(life), clock_(std::move(clock)) {}

  /// The page under `key`, by `make` if it is not there. `make` may take the host's lock.
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
