// Where a connection keeps a request body, and the bound on all request bodies together.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "server/verbs/wire.h"

namespace berth::server {

/// Room for request bodies, shared by all connections.
class BodyBudget {
 public:
  explicit BodyBudget(std::size_t limit) : limit_(limit) {}
  /// False: there is no room for so many bytes.
  bool Take(std::size_t bytes) {
    if (used_.fetch_add(bytes) + bytes <= limit_) return true;
    used_.fetch_sub(bytes);
    return false;
  }
  /// Gives back bytes that were taken.
  void Give(std::size_t bytes) { used_.fetch_sub(bytes); }

 private:
  const std::size_t limit_;
  std::atomic<std::size_t> used_{0};
};

/// A connection's body buffer. It grows as bytes arrive, never by what a header promises.
class BodyBuffer {
 public:
  explicit BodyBuffer(BodyBudget& budget) : budget_(budget) {}
  ~BodyBuffer() { Release(); }
  BodyBuffer(const BodyBuffer&) = delete;
  BodyBuffer& operator=(const BodyBuffer&) = delete;

  enum class Status : std::uint8_t { kComplete, kIncomplete, kNoRoom };

  /// Holds `begun` and what `read(data, size)` gives, until there are `length` bytes. `read`
  /// returns how many bytes it wrote, 0 for the end.
  template <typename Read>
  Status Fill(std::string_view begun, std::size_t length, Read read) {
    if (!Reserve(std::max(begun.size(), std::min(length, kFirst)), 0)) return Status::kNoRoom;
    std::ranges::copy(begun, data_.get());
    for (auto have = begun.size(); have < length;) {
      if (have == capacity_ && !Reserve(std::min(length, 2 * have), have)) return Status::kNoRoom;
      const auto got = read(data_.get() + have, std::min(length, capacity_) - have);
      if (got == 0) return Status::kIncomplete;
      have += got;
    }
    std::memset(data_.get() + length, 0, kBodyPadding);
    return Status::kComplete;
  }

  /// Gives all room back. The body is gone.
  void Release() {
    data_.reset();
    budget_.Give(std::exchange(capacity_, 0));
  }

  const char* data() const { return data_.get(); }
  std::size_t capacity() const { return capacity_; }

 private:
  static constexpr std::size_t kSmallest = 4096;
  static constexpr std::size_t kFirst = 256 * 1024;

  /// Makes room for `size` bytes and the padding, keeping the first `used`.
  bool Reserve(std::size_t size, std::size_t used) {
    size = std::max(size, kSmallest);
    if (size <= capacity_) return true;
    if (!budget_.Take(size - capacity_)) return false;
    auto data = std::make_unique_for_overwrite<char[]>(size + kBodyPadding);
    if (used != 0) std::memcpy(data.get(), data_.get(), used);
    data_ = std::move(data);
    capacity_ = size;
    return true;
  }

  BodyBudget& budget_;
  std::unique_ptr<char[]> data_;
  std::size_t capacity_ = 0;
};

}  // namespace berth::server
