#include "server/http/tls_context.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <ctime>

namespace berth::server {
namespace {

std::string CommonName(X509* certificate) {
  std::array<char, 256> name{};
  const int length = X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName,
                                               name.data(), static_cast<int>(name.size()));
  return length > 0 ? std::string(name.data(), static_cast<std::size_t>(length)) : std::string();
}

bool HasName(X509* certificate, const std::string& common_name, const std::string& name) {
  return name == common_name ||
         X509_check_host(certificate, name.data(), name.size(),
                         X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_WILDCARDS,
                         nullptr) == 1;
}

/// Seconds since the epoch; 0: not a time.
std::int64_t Seconds(const ASN1_TIME* time) {
  std::tm parts{};
  return ASN1_TIME_to_tm(time, &parts) == 1 ? timegm(&parts) : 0;
}

std::string Utc(std::int64_t seconds) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(seconds)));
}

std::int64_t Now() { return std::time(nullptr); }

std::shared_ptr<SSL_CTX> NewContext() {
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE |
                                      SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                      SSL_MODE_RELEASE_BUFFERS);
  // No session is resumed: each handshake checks the client's certificate again. Clients keep their
  // connections instead (Go's do not even ask for sessions).
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_TICKET);
  SSL_CTX_set_num_tickets(context.get(), 0);
  return context;
}

}  // namespace

std::string TlsError(std::string what) {
  std::array<char, 256> text{};
  if (const auto code = ERR_get_error(); code != 0) {
    ERR_error_string_n(code, text.data(), text.size());
    what.append(": ").append(text.data());
  }
  ERR_clear_error();  // The queue is per thread, and its errors would be attributed to a later
                      // call.
  return what;
}

std::expected<TlsContext::Set, std::string> TlsContext::Read() const {
  auto context = NewContext();
  if (SSL_CTX_use_certificate_chain_file(context.get(), options_.cert_file.c_str()) != 1) {
    return std::unexpected(TlsError("cannot use the TLS certificate " + options_.cert_file));
  }
  if (SSL_CTX_use_PrivateKey_file(context.get(), options_.key_file.c_str(), SSL_FILETYPE_PEM) !=
          1 ||
      SSL_CTX_check_private_key(context.get()) != 1) {
    return std::unexpected(TlsError("cannot use the TLS key " + options_.key_file));
  }
  X509* const certificate = SSL_CTX_get0_certificate(context.get());
  const auto begin = Seconds(X509_get0_notBefore(certificate));
  const auto end = Seconds(X509_get0_notAfter(certificate));
  if (Now() < begin || Now() >= end) {
    return std::unexpected(fmt::format("the TLS certificate {} is valid from {} to {} only",
                                       options_.cert_file, Utc(begin), Utc(end)));
  }
  if (!options_.client_ca_file.empty()) {
    const auto* file = options_.client_ca_file.c_str();
    if (SSL_CTX_load_verify_locations(context.get(), file, nullptr) != 1) {
      return std::unexpected(TlsError("cannot use the client CA " + options_.client_ca_file));
    }
    SSL_CTX_set_client_CA_list(context.get(), SSL_load_client_CA_file(file));
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  }
  return Set{.context = std::move(context), .subject = CommonName(certificate), .expiry = end};
}

std::expected<std::unique_ptr<TlsContext>, std::string> TlsContext::Load(TlsOptions options,
                                                                         OnReload on_reload) {
  std::unique_ptr<TlsContext> tls(new TlsContext(std::move(options), std::move(on_reload)));
  tls->stamp_ = tls->Stamp();
  auto set = tls->Read();
  if (!set) return std::unexpected(set.error());
  tls->current_ = *std::move(set);
  tls->Report({});
  tls->watcher_ =
      std::jthread([self = tls.get()](const std::stop_token& stop) { self->Watch(stop); });
  return tls;
}

TlsContext::~TlsContext() = default;

void TlsContext::Watch(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, stop, options_.look_interval, [] { return false; });
    }
    if (!stop.stop_requested()) Look();
  }
}

/// A set that was refused, or that is in force and has expired, is read again each time: a rotation
/// seen half-way is complete a moment later, and files that could not be read may be readable then.
void TlsContext::Look() {
  const auto stamp = Stamp();
  if (stamp == stamp_ && error_.empty() && Now() < current_.expiry) return;
  stamp_ = stamp;
  auto set = Read();
  if (!set) {
    if (set.error() != error_) Report(set.error());
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    current_ = *std::move(set);
  }
  Report({});
}

void TlsContext::Report(std::string error) {
  error_ = std::move(error);
  if (on_reload_) {
    on_reload_({.error = error_, .subject = current_.subject, .expiry = current_.expiry});
  }
}

std::string TlsContext::Stamp() const {
  std::string stamp;
  for (const auto* file : {&options_.cert_file, &options_.key_file, &options_.client_ca_file}) {
    struct stat status {};
    if (!file->empty() && stat(file->c_str(), &status) == 0) {
      stamp += fmt::format("{}.{}/{}/{}", status.st_mtim.tv_sec, status.st_mtim.tv_nsec,
                           status.st_ino, status.st_size);
    }
    stamp += ';';
  }
  return stamp;
}

std::shared_ptr<SSL_CTX> TlsContext::Current() const {
  const std::lock_guard lock(mutex_);
  return current_.context;
}

bool TlsContext::Admits(SSL* connection, std::string& name) const {
  const std::unique_ptr<X509, void (*)(X509*)> certificate(SSL_get1_peer_certificate(connection),
                                                           X509_free);
  if (certificate == nullptr) return options_.client_ca_file.empty();
  name = CommonName(certificate.get());
  return options_.client_allowed_names.empty() ||
         std::ranges::any_of(options_.client_allowed_names, [&](const std::string& allowed) {
           return HasName(certificate.get(), name, allowed);
         });
}

}  // namespace berth::server
