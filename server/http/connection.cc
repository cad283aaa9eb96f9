#include "server/http/connection.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace berth::server {
namespace {

using std::chrono::steady_clock;

int MillisUntil(Deadline deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1 << 30));
}

}  // namespace

void Connection::SslFree::operator()(SSL* ssl) const { SSL_free(ssl); }

Connection::Connection(int fd) : fd_(fd) {}

Connection::~Connection() {
  if (ssl_ != nullptr && SSL_is_init_finished(ssl_.get())) SSL_shutdown(ssl_.get());
  ERR_clear_error();
  close(fd_);
}

bool Connection::Wait(short events, Deadline deadline) const {
  for (;;) {
    pollfd waiting{.fd = fd_, .events = events, .revents = 0};
    const int ready = poll(&waiting, 1, MillisUntil(deadline));
    if (ready >= 0) return ready == 1;
    if (errno != EINTR) return false;
  }
}

bool Connection::WaitForTls(int result, Deadline deadline) const {
  const int error = SSL_get_error(ssl_.get(), result);
  ERR_clear_error();  // The queue is per thread, and its errors would be attributed to a later
                      // call.
  if (error == SSL_ERROR_WANT_READ) return Wait(POLLIN, deadline);
  if (error == SSL_ERROR_WANT_WRITE) return Wait(POLLOUT, deadline);
  return false;
}

std::expected<void, std::string> Connection::Handshake(const TlsContext& tls, Deadline deadline) {
  const auto context = tls.Current();
  ssl_.reset(SSL_new(context.get()));
  if (ssl_ == nullptr || SSL_set_fd(ssl_.get(), fd_) != 1) {
    return std::unexpected(TlsError("no TLS connection"));
  }
  for (;;) {
    const int result = SSL_accept(ssl_.get());
    if (result == 1) break;
    const int error = SSL_get_error(ssl_.get(), result);
    if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) {
      const auto verdict = SSL_get_verify_result(ssl_.get());
      return std::unexpected(TlsError(verdict == X509_V_OK
                                          ? std::string("the handshake failed")
                                          : std::string("the client's certificate is refused (") +
                                                X509_verify_cert_error_string(verdict) + ")"));
    }
    ERR_clear_error();
    if (!Wait(error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT, deadline)) {
      return std::unexpected("the handshake was not finished in time");
    }
  }
  if (tls.Admits(ssl_.get(), peer_name_)) return {};
  return std::unexpected("the client's certificate has none of the allowed names, but CN \"" +
                         peer_name_ + "\"");
}

bool Connection::IsCurrent(const TlsContext* tls) const {
  return tls == nullptr || SSL_get_SSL_CTX(ssl_.get()) == tls->Current().get();
}

bool Connection::WaitReadable(Deadline deadline) {
  if (ssl_ != nullptr && SSL_pending(ssl_.get()) > 0) return true;
  return Wait(POLLIN, deadline);
}

std::size_t Connection::Read(char* data, std::size_t size, Deadline deadline) {
  for (;;) {
    if (ssl_ != nullptr) {
      const int result = SSL_read(ssl_.get(), data, static_cast<int>(std::min(size, 1UL << 30U)));
      if (result > 0) return static_cast<std::size_t>(result);
      if (!WaitForTls(result, deadline)) return 0;
      continue;
    }
    const auto result = recv(fd_, data, size, 0);
    if (result >= 0) return static_cast<std::size_t>(result);
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return 0;
    if (!Wait(POLLIN, deadline)) return 0;
  }
}

bool Connection::Write(std::string_view head, std::string_view body, Deadline deadline) {
  if (ssl_ == nullptr) return WritePlain(head, body, deadline);
  return WriteTls(head, deadline) && WriteTls(body, deadline);
}

bool Connection::WritePlain(std::string_view head, std::string_view body, Deadline deadline) {
  while (!head.empty() || !body.empty()) {
    std::array<iovec, 2> parts{iovec{const_cast<char*>(head.data()), head.size()},
                               iovec{const_cast<char*>(body.data()), body.size()}};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const auto result = sendmsg(fd_, &message, MSG_NOSIGNAL);
    if (result < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK) return false;
      if (!Wait(POLLOUT, deadline)) return false;
      continue;
    }
    const auto sent = static_cast<std::size_t>(result);
    const auto from_head = std::min(sent, head.size());
    head.remove_prefix(from_head);
    body.remove_prefix(sent - from_head);
  }
  return true;
}

bool Connection::WriteTls(std::string_view data, Deadline deadline) {
  while (!data.empty()) {
    const int result =
        SSL_write(ssl_.get(), data.data(), static_cast<int>(std::min(data.size(), 1UL << 30U)));
    if (result > 0) {
      data.remove_prefix(static_cast<std::size_t>(result));
    } else if (!WaitForTls(result, deadline)) {
      return false;
    }
  }
  return true;
}

bool Connection::PeerGone() const {
  pollfd look{.fd = fd_, .events = POLLRDHUP, .revents = 0};
  return poll(&look, 1, 0) == 1 && (look.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

void Connection::LingeringClose(Deadline deadline) {
  if (ssl_ != nullptr) SSL_shutdown(ssl_.get());
  ERR_clear_error();
  shutdown(fd_, SHUT_WR);
  std::array<char, 16'384> discarded;
  for (;;) {
    const auto result = recv(fd_, discarded.data(), discarded.size(), 0);
    if (result == 0 || steady_clock::now() >= deadline) return;
    if (result > 0 || errno == EINTR) continue;
    if ((errno != EAGAIN && errno != EWOULDBLOCK) || !Wait(POLLIN, deadline)) return;
  }
}

void Connection::Shutdown() { shutdown(fd_, SHUT_RDWR); }

}  // namespace berth::server
