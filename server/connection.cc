#include "server/connection.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace berth::server {
namespace {

using std::chrono::steady_clock;

/// How often the certificate files are looked at.
constexpr std::chrono::seconds kLookInterval{5};

int MillisUntil(Deadline deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1 << 30));
}

std::string TlsError(std::string what) {
  std::array<char, 256> text{};
  if (const auto code = ERR_get_error(); code != 0) {
    ERR_error_string_n(code, text.data(), text.size());
    what.append(": ").append(text.data());
  }
  ERR_clear_error();
  return what;
}

std::expected<std::shared_ptr<SSL_CTX>, std::string> ReadContext(const TlsOptions& options) {
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE |
                                      SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                      SSL_MODE_RELEASE_BUFFERS);
  if (SSL_CTX_use_certificate_chain_file(context.get(), options.cert_file.c_str()) != 1) {
    return std::unexpected(TlsError("cannot use the TLS certificate " + options.cert_file));
  }
  if (SSL_CTX_use_PrivateKey_file(context.get(), options.key_file.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(context.get()) != 1) {
    return std::unexpected(TlsError("cannot use the TLS key " + options.key_file));
  }
  if (!options.client_ca_file.empty()) {
    const auto* file = options.client_ca_file.c_str();
    if (SSL_CTX_load_verify_locations(context.get(), file, nullptr) != 1) {
      return std::unexpected(TlsError("cannot use the client CA " + options.client_ca_file));
    }
    SSL_CTX_set_client_CA_list(context.get(), SSL_load_client_CA_file(file));
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    constexpr std::array<unsigned char, 5> kSession{'b', 'e', 'r', 't', 'h'};
    SSL_CTX_set_session_id_context(context.get(), kSession.data(), kSession.size());
  }
  return context;
}

std::string CommonName(X509* certificate) {
  std::array<char, 256> name{};
  const int length = X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName,
                                               name.data(), static_cast<int>(name.size()));
  return length > 0 ? std::string(name.data(), static_cast<std::size_t>(length)) : std::string();
}

bool Allowed(X509* certificate, const std::string& common_name,
             const std::vector<std::string>& names) {
  return names.empty() || std::ranges::any_of(names, [&](const std::string& name) {
           return name == common_name || X509_check_host(certificate, name.data(), name.size(),
                                                         X509_CHECK_FLAG_NEVER_CHECK_SUBJECT |
                                                             X509_CHECK_FLAG_NO_WILDCARDS,
                                                         nullptr) == 1;
         });
}

}  // namespace

std::expected<std::unique_ptr<TlsContext>, std::string> TlsContext::Load(TlsOptions options) {
  std::unique_ptr<TlsContext> tls(new TlsContext(std::move(options)));
  tls->stamp_ = tls->Stamp();
  auto context = ReadContext(tls->options_);
  if (!context) return std::unexpected(context.error());
  tls->context_ = *std::move(context);
  return tls;
}

std::string TlsContext::Stamp() const {
  std::string stamp;
  for (const auto* file : {&options_.cert_file, &options_.key_file, &options_.client_ca_file}) {
    struct stat status {};
    if (!file->empty() && stat(file->c_str(), &status) == 0) {
      stamp += std::to_string(status.st_mtim.tv_sec) + "." +
               std::to_string(status.st_mtim.tv_nsec) + "/" + std::to_string(status.st_ino);
    }
    stamp += ';';
  }
  return stamp;
}

std::shared_ptr<SSL_CTX> TlsContext::Current() {
  const std::lock_guard lock(mutex_);
  if (const auto now = steady_clock::now(); now >= next_look_) {
    next_look_ = now + kLookInterval;
    // The stamp is kept also when the files do not load: a rotation seen half-way changes again.
    if (auto stamp = Stamp(); stamp != stamp_) {
      stamp_ = std::move(stamp);
      if (auto context = ReadContext(options_)) context_ = *std::move(context);
    }
  }
  return context_;
}

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
  ERR_clear_error();  // The queue is per thread, and would blame a later call.
  if (error == SSL_ERROR_WANT_READ) return Wait(POLLIN, deadline);
  if (error == SSL_ERROR_WANT_WRITE) return Wait(POLLOUT, deadline);
  return false;
}

bool Connection::Handshake(TlsContext& tls, Deadline deadline) {
  const auto context = tls.Current();
  ssl_.reset(SSL_new(context.get()));
  if (ssl_ == nullptr || SSL_set_fd(ssl_.get(), fd_) != 1) return false;
  for (;;) {
    const int result = SSL_accept(ssl_.get());
    if (result == 1) break;
    if (!WaitForTls(result, deadline)) return false;
  }
  const std::unique_ptr<X509, void (*)(X509*)> certificate(SSL_get1_peer_certificate(ssl_.get()),
                                                           [](X509* x509) { X509_free(x509); });
  if (certificate == nullptr) return tls.options().client_ca_file.empty();
  peer_name_ = CommonName(certificate.get());
  return Allowed(certificate.get(), peer_name_, tls.options().client_allowed_names);
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
  std::array<char, 16 * 1024> discarded;
  for (;;) {
    const auto result = recv(fd_, discarded.data(), discarded.size(), 0);
    if (result == 0 || steady_clock::now() >= deadline) return;
    if (result > 0 || errno == EINTR) continue;
    if ((errno != EAGAIN && errno != EWOULDBLOCK) || !Wait(POLLIN, deadline)) return;
  }
}

void Connection::Shutdown() { shutdown(fd_, SHUT_RDWR); }

}  // namespace berth::server
