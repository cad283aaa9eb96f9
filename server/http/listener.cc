#include "server/http/listener.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace berth::server {
namespace {

/// Each bind of a burst opens a connection: the HTTP library's backlog of 5 lost most of 300.
constexpr int kBacklog = 4096;

std::string SystemError(std::string what) { return what + ": " + std::strerror(errno); }

std::uint16_t PortOf(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

/// SO_REUSEPORT stays off: with it a second server on the same port would start, and take half of
/// the calls.
std::expected<Listener, std::string> Open(const addrinfo& address, const std::string& name) {
  const int fd = socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return std::unexpected(SystemError("cannot open a socket for " + name));
  const int on = 1;
  const int off = 0;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address.ai_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (bind(fd, address.ai_addr, address.ai_addrlen) != 0 || listen(fd, kBacklog) != 0) {
    auto error = SystemError("cannot listen on " + name);
    close(fd);
    return std::unexpected(std::move(error));
  }
  return Listener{.fd = fd, .port = PortOf(fd)};
}

std::expected<Listener, std::string> OpenFamily(const std::string& address, std::uint16_t port,
                                                int family) {
  const auto host = address.find(':') == address.npos ? address : "[" + address + "]";
  const auto service = std::to_string(port);
  const auto name = host + ":" + service;
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE;
  hints.ai_family = family;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const char* const node = address.empty() ? nullptr : address.c_str();
  if (const int error = getaddrinfo(node, service.c_str(), &hints, &found); error != 0) {
    return std::unexpected("cannot listen on " + name + ": " + gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, freeaddrinfo);
  return Open(*addresses, name);
}

}  // namespace

std::expected<Listener, std::string> OpenListener(const std::string& address, std::uint16_t port) {
  if (!address.empty()) return OpenFamily(address, port, AF_UNSPEC);
  // An IPv6 socket accepts IPv4, too; where the kernel has no IPv6, use IPv4 only.
  auto both = OpenFamily(address, port, AF_INET6);
  return both ? both : OpenFamily(address, port, AF_INET);
}

}  // namespace berth::server
