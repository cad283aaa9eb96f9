// A bare socket, for tests that must send what no HTTP client would send.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tests/support/catch.h"

namespace berth::server::test {

inline constexpr std::chrono::seconds kPatience{20};

/// Waits for a condition that another thread makes true. False: it did not become true in time.
template <typename Condition>
bool Eventually(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    poll(nullptr, 0, 1);
  }
  return true;
}

struct RawResponse {
  int status = 0;
  std::string head;
  std::string body;
};

inline std::string Post(std::string_view path, std::string_view body,
                        std::string_view extra_headers = "") {
  return "POST " + std::string(path) +
         " HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
         std::string(extra_headers) + "\r\n" + std::string(body);
}

inline std::string Get(std::string_view path) {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: x\r\n\r\n";
}

class RawClient {
 public:
  /// `from`: the loopback address that it connects from; empty: any.
  explicit RawClient(std::uint16_t port, const std::string& from = "")
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    if (!from.empty() && inet_pton(AF_INET, from.c_str(), &address.sin_addr) == 1) {
      bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address);
    }
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval patience{.tv_sec = kPatience.count(), .tv_usec = 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    const int on = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    connected_ = connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  RawClient(RawClient&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), connected_(other.connected_) {}
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;
  ~RawClient() { Close(); }

  bool connected() const { return connected_; }

  void Close() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }

  /// False: the server does not accept more data.
  bool Send(std::string_view data) {
    while (!data.empty()) {
      const auto sent = send(fd_, data.data(), data.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      data.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  /// Reads one answer by its Content-Length. nullopt: the connection ended, or nothing arrived.
  std::optional<RawResponse> Read() {
    std::size_t end = 0;
    while ((end = in_.find("\r\n\r\n")) == in_.npos) {
      if (!Fill()) return std::nullopt;
    }
    RawResponse response;
    response.head = in_.substr(0, end + 4);
    in_.erase(0, end + 4);
    std::from_chars(response.head.data() + 9, response.head.data() + 12, response.status);
    std::size_t length = 0;
    if (const auto at = response.head.find("Content-Length: "); at != response.head.npos) {
      std::from_chars(response.head.data() + at + 16, response.head.data() + response.head.size(),
                      length);
    }
    while (in_.size() < length) {
      if (!Fill()) return std::nullopt;
    }
    response.body = in_.substr(0, length);
    in_.erase(0, length);
    return response;
  }

  std::optional<RawResponse> Call(std::string_view request) {
    Send(request);
    return Read();
  }

  /// Whether the server has closed the connection with nothing more to read.
  bool Closed() { return in_.empty() && !Fill() && in_.empty() && !timed_out_; }

 private:
  bool Fill() {
    char chunk[65536];
    const auto got = recv(fd_, chunk, sizeof chunk, 0);
    timed_out_ = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    if (got <= 0) return false;
    in_.append(chunk, static_cast<std::size_t>(got));
    return true;
  }

  int fd_;
  bool connected_ = false;
  bool timed_out_ = false;
  std::string in_;
};

}  // namespace berth::server::test
