#include "tests/support/fake_api_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <optional>

namespace berth::testing {
namespace {

constexpr std::chrono::seconds kWait{10};

std::string Decode(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      out.push_back(
          static_cast<char>(std::strtol(std::string(text.substr(i + 1, 2)).c_str(), nullptr, 16)));
      i += 2;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

void ParseTarget(std::string_view target, FakeRequest& request) {
  const auto question = std::min(target.find('?'), target.size());
  request.path = std::string(target.substr(0, question));
  std::string_view rest = target.substr(std::min(question + 1, target.size()));
  while (!rest.empty()) {
    const auto end = std::min(rest.find('&'), rest.size());
    const std::string_view pair = rest.substr(0, end);
    const auto equals = std::min(pair.find('='), pair.size());
    request.query[Decode(pair.substr(0, equals))] =
        Decode(pair.substr(std::min(equals + 1, pair.size())));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

void ParseHead(std::string_view head, FakeRequest& request) {
  std::size_t line_end = head.find("\r\n");
  const std::string_view first = head.substr(0, line_end);
  const auto space = first.find(' ');
  request.method = std::string(first.substr(0, space));
  ParseTarget(first.substr(space + 1, first.rfind(' ') - space - 1), request);
  while (line_end != head.npos) {
    head.remove_prefix(line_end + 2);
    line_end = head.find("\r\n");
    const std::string_view line = head.substr(0, line_end);
    const auto colon = line.find(": ");
    if (colon == line.npos) continue;
    std::string name(line.substr(0, colon));
    std::ranges::transform(name, name.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    request.headers[name] = std::string(line.substr(colon + 2));
  }
}

/// Reads one request; `buffer` keeps the bytes after it. Empty: the client has disconnected.
std::optional<FakeRequest> Read(int fd, std::string& buffer) {
  const auto fill = [&] {
    char bytes[16384];
    const ssize_t n = ::recv(fd, bytes, sizeof bytes, 0);
    if (n > 0) buffer.append(bytes, static_cast<std::size_t>(n));
    return n > 0;
  };
  std::size_t end = 0;
  while ((end = buffer.find("\r\n\r\n")) == buffer.npos) {
    if (!fill()) return std::nullopt;
  }
  FakeRequest request;
  ParseHead(std::string_view(buffer).substr(0, end), request);
  std::size_t length = 0;
  if (const auto at = request.headers.find("content-length"); at != request.headers.end()) {
    length = std::strtoul(at->second.c_str(), nullptr, 10);
  }
  while (buffer.size() < end + 4 + length) {
    if (!fill()) return std::nullopt;
  }
  request.body = buffer.substr(end + 4, length);
  buffer.erase(0, end + 4 + length);
  return request;
}

void Send(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

void SendReply(int fd, const FakeReply& reply) {
  if (reply.status == 0) return;
  std::string head = "HTTP/1.1 " + std::to_string(reply.status) +
                     " X\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n";
  for (const auto& [name, value] : reply.headers) head += name + ": " + value + "\r\n";
  Send(fd, head + "\r\n");
  for (const std::string& chunk : reply.chunks) {
    char size[32];
    std::snprintf(size, sizeof size, "%zx\r\n", chunk.size());
    Send(fd, size + chunk + "\r\n");
  }
  if (reply.end == FakeEnd::kKeepAlive) Send(fd, "0\r\n\r\n");
}

}  // namespace

FakeReply FakeReply::Json(std::string body, int status) {
  FakeReply reply;
  reply.status = status;
  reply.chunks.push_back(std::move(body));
  return reply;
}

FakeReply FakeReply::Status(int status, const std::string& reason, const std::string& message) {
  return Json(R"({"kind":"Status","apiVersion":"v1","status":"Failure","code":)" +
                  std::to_string(status) + R"(,"reason":")" + reason + R"(","message":")" +
                  message + R"("})",
              status);
}

FakeReply FakeReply::Watch(std::vector<std::string> events, FakeEnd end) {
  FakeReply reply;
  for (std::string& event : events) reply.chunks.push_back(std::move(event) + "\n");
  reply.end = end;
  return reply;
}

FakeReply FakeReply::Nothing(FakeEnd end) {
  FakeReply reply;
  reply.status = 0;
  reply.end = end;
  return reply;
}

FakeReply&& FakeReply::With(std::string name, std::string value) && {
  headers[std::move(name)] = std::move(value);
  return std::move(*this);
}

FakeApiServer::FakeApiServer() {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* plain = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener_, plain, size) != 0 || ::listen(listener_, 512) != 0 ||
      ::getsockname(listener_, plain, &size) != 0) {
    std::abort();  // Without loopback, no test of this kind is meaningful.
  }
  port_ = ntohs(address.sin_port);
  accepting_ = std::thread([this] { Accept(); });
}

FakeApiServer::~FakeApiServer() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    for (const int fd : open_) ::shutdown(fd, SHUT_RDWR);
  }
  ::shutdown(listener_, SHUT_RDWR);
  accepting_.join();
  for (std::thread& thread : serving_) thread.join();
  ::close(listener_);
}

std::string FakeApiServer::Url() const { return "http://127.0.0.1:" + std::to_string(port_); }

void FakeApiServer::Script(std::vector<FakeReply> replies) {
  std::lock_guard lock(mutex_);
  for (FakeReply& reply : replies) script_.push_back(std::move(reply));
}

void FakeApiServer::Handle(Handler handler) {
  std::lock_guard lock(mutex_);
  handler_ = std::move(handler);
}

std::vector<FakeRequest> FakeApiServer::WaitForRequests(std::size_t n) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kWait, [&] { return requests_.size() >= n; });
  return requests_;
}

std::vector<FakeRequest> FakeApiServer::Requests() const {
  std::lock_guard lock(mutex_);
  return requests_;
}

int FakeApiServer::Connections() const {
  std::lock_guard lock(mutex_);
  return connections_;
}

void FakeApiServer::Accept() {
  while (true) {
    const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return;
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    std::lock_guard lock(mutex_);
    if (stopping_) {
      ::close(fd);
      return;
    }
    ++connections_;
    open_.push_back(fd);
    serving_.emplace_back([this, fd] { Serve(fd); });
  }
}

FakeReply FakeApiServer::Next(const FakeRequest& request) {
  Handler handler;
  FakeReply reply = FakeReply::Nothing(FakeEnd::kHold);
  {
    std::lock_guard lock(mutex_);
    if (!script_.empty()) {
      reply = std::move(script_.front());
      script_.pop_front();
    } else {
      handler = handler_;
    }
    requests_.push_back(request);
  }
  changed_.notify_all();
  return handler ? handler(request) : reply;
}

void FakeApiServer::Serve(int fd) {
  std::string buffer;
  FakeEnd end = FakeEnd::kKeepAlive;
  while (end == FakeEnd::kKeepAlive) {
    const auto request = Read(fd, buffer);
    if (!request) break;
    const FakeReply reply = Next(*request);
    SendReply(fd, reply);
    end = reply.end;
  }
  if (end == FakeEnd::kHold) {
    char ignored[256];
    while (::recv(fd, ignored, sizeof ignored, 0) > 0) {
    }
  }
  if (end == FakeEnd::kReset) {
    const linger now{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  }
  std::lock_guard lock(mutex_);
  std::erase(open_, fd);
  ::close(fd);
}

}  // namespace berth::testing
