// One connection as httplib reads and writes it, message by message. Internal to http_server.cc.
#pragma once

#include <httplib.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "server/http/body_buffer.h"
#include "server/http/connection.h"

namespace berth::server {

inline bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, {}, [](unsigned char c) { return std::tolower(c); },
      [](unsigned char c) { return std::tolower(c); });
}

/// The socket as httplib sees it: reads come from the head, which is complete before httplib
/// starts; what httplib writes is held back until the end of the answer, so that it is sent in one
/// piece.
class MessageStream final : public httplib::Stream {
 public:
  MessageStream(Connection& connection, BodyBuffer& body) : connection_(connection), body_(body) {}

  enum class Head : std::uint8_t { kComplete, kClosed, kIncomplete, kTooLarge };

  /// Reads until the head is complete. kClosed: nothing came.
  Head ReadHead(Deadline deadline) {
    std::size_t searched = 0;
    for (;;) {
      const std::string_view in(in_);
      if (const auto end = in.find("\r\n\r\n", searched); end != in.npos) {
        if (end + 4 > kMaxHeadBytes) return Head::kTooLarge;
        head_end_ = end + 4;
        HideRange();
        return Head::kComplete;
      }
      if (in_.size() > kMaxHeadBytes) return Head::kTooLarge;
      searched = in_.size() < 3 ? 0 : in_.size() - 3;
      if (!FillHead(deadline)) return in_.empty() ? Head::kClosed : Head::kIncomplete;
    }
  }

  /// Reads a body of `length` bytes into the body buffer.
  BodyBuffer::Status ReadBody(std::size_t length, Deadline deadline) {
    if (!Flush(deadline))
      return BodyBuffer::Status::kIncomplete;  // The client may wait for a
                                               // `100`.
    const auto begun = std::string_view(in_).substr(pos_, length);
    pos_ += begun.size();
    return body_.Fill(begun, length, [&](char* data, std::size_t size) {
      return connection_.Read(data, size, deadline);
    });
  }

  bool Flush(Deadline deadline) {
    const bool sent = connection_.Write(out_, {}, deadline);
    out_.clear();
    return sent;
  }

  void set_write_deadline(Deadline deadline) { write_deadline_ = deadline; }

  /// Forgets the request that was read; bytes of the next one stay.
  void NextMessage() {
    in_.erase(0, pos_);
    pos_ = head_end_ = 0;
  }

  bool HasInput() const { return !in_.empty(); }

  bool is_readable() const override { return pos_ < head_end_; }
  bool is_writable() const override { return true; }
  ssize_t read(char* data, std::size_t size) override {
    const auto taken = std::min(size, head_end_ - pos_);
    std::memcpy(data, in_.data() + pos_, taken);
    pos_ += taken;
    return static_cast<ssize_t>(taken);
  }
  ssize_t write(const char* data, std::size_t size) override {
    if (size < kSmallWrite) {
      out_.append(data, size);
    } else {
      if (!connection_.Write(out_, {data, size}, write_deadline_)) return -1;
      out_.clear();
    }
    return static_cast<ssize_t>(size);
  }
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return INVALID_SOCKET; }

 private:
  static constexpr std::size_t kMaxHeadBytes = 32 * 1024;
  static constexpr std::size_t kSmallWrite = 16 * 1024;

  /// The library matches a Range header with a regular expression that recurses for each byte.
  void HideRange() {
    constexpr std::string_view kName = "\nrange";
    const std::string_view head(in_.data(), head_end_);
    for (std::size_t at = 0; (at = head.find('\n', at)) != head.npos; ++at) {
      if (EqualsIgnoringCase(head.substr(at, kName.size()), kName)) in_[at + 1] = 'x';
    }
  }

  bool FillHead(Deadline deadline) {
    std::array<char, 8192> chunk;
    const auto got = connection_.Read(chunk.data(), chunk.size(), deadline);
    in_.append(chunk.data(), got);
    return got != 0;
  }

  Connection& connection_;
  BodyBuffer& body_;
  std::string in_;  ///< The head, and the bytes that came with it.
  std::size_t pos_ = 0;
  std::size_t head_end_ = 0;
  std::string out_;
  Deadline write_deadline_ = Deadline::max();
};

}  // namespace berth::server
