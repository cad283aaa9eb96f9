// Opens a listening TCP socket.
#pragma once

#include <cstdint>
#include <expected>
#include <string>

namespace berth::server {

/// The caller closes `fd`.
struct Listener {
  int fd = -1;
  std::uint16_t port = 0;
};

/// Port 0: any. An empty address: all of them, IPv4 and IPv6. Fails if the port is taken.
std::expected<Listener, std::string> OpenListener(const std::string& address, std::uint16_t port);

}  // namespace berth::server
