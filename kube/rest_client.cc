#include "kube/rest_client.h"

#include <arpa/inet.h>
#include <curl/curl.h>

#include <algorithm>

#include "kube/read_file.h"

namespace berth::kube {
namespace {

constexpr std::size_t kErrorBodyLimit = std::size_t{1} << 20;
constexpr std::size_t kMaxIdle = 64;
constexpr Duration kMaxPoll{1'000};

/// Deadlines of calls continue while the machine is suspended.
struct Clock {
  static TimePoint now() { return BootClock(); }
};

struct HeadersDeleter {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using Headers = std::unique_ptr<curl_slist, HeadersDeleter>;

void AddHeader(Headers& headers, const std::string& line) {
  if (curl_slist* grown = curl_slist_append(headers.get(), line.c_str())) {
    (void)headers.release();
    headers.reset(grown);
  }
}

TransportFailure FailureOf(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
      return TransportFailure::kConnect;
    case CURLE_OPERATION_TIMEDOUT:
      return TransportFailure::kTimeout;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_INVALIDCERTSTATUS:
      return TransportFailure::kTls;
    default:
      return TransportFailure::kReset;
  }
}

std::unexpected<TransportError> Fail(TransportFailure failure, bool maybe_sent,
                                     std::string message) {
  return std::unexpected(TransportError{failure, maybe_sent, std::move(message)});
}

const char* AbortText(TransportFailure failure) {
  switch (failure) {
    case TransportFailure::kCancelled:
      return "cancelled";
    case TransportFailure::kTimeout:
      return "timed out";
    case TransportFailure::kSilent:
      return "silent connection";
    case TransportFailure::kTooLarge:
      return "answer too large";
    case TransportFailure::kReceiver:
      return "stopped by the receiver";
    default:
      return "connection failed";
  }
}

/// host, host:port, [v6], [v6]:port of a URL's authority.
struct Authority {
  std::string host;  ///< With brackets.
  std::string port;
};

Authority SplitAuthority(std::string_view text, std::string_view default_port) {
  const auto bracket = text.rfind(']');
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos || (bracket != std::string_view::npos && colon < bracket)) {
    return {std::string(text), std::string(default_port)};
  }
  return {std::string(text.substr(0, colon)), std::string(text.substr(colon + 1))};
}

/// By its text: what a name resolves to is not looked at.
bool IsLoopback(const std::string& host) {
  if (host == "localhost" || host == "[::1]") return true;
  in_addr address{};
  return inet_pton(AF_INET, host.c_str(), &address) == 1 && (ntohl(address.s_addr) >> 24U) == 127U;
}

curl_blob Blob(const std::string& data) {
  // The configuration outlives every handle, so curl need not copy; it does not write either.
  return {const_cast<char*>(data.data()), data.size(), CURL_BLOB_NOCOPY};
}

void InitCurlOnce() {
  static const CURLcode code = curl_global_init(CURL_GLOBAL_DEFAULT);
  (void)code;
}

}  // namespace

/// A multi handle owns the connection cache and lets a stop token wake the poll at once, which a
/// plain easy handle cannot do.
struct RestClient::Slot {
  CURLM* multi = curl_multi_init();
  CURL* easy = curl_easy_init();
  Headers headers;
  Headers connect_to;

  CURLcode Run(Transfer& transfer);

  Slot() { curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, 1L); }
  ~Slot() {
    curl_easy_cleanup(easy);
    curl_multi_cleanup(multi);
  }
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;
};

/// One call while it runs.
struct RestClient::Transfer {
  const Request& request;
  const Receiver* receiver;  ///< Null: collect the body.
  Duration idle_timeout;     ///< 0: none.
  std::stop_token stop;
  std::size_t body_limit;
  TimePoint deadline;

  CURL* easy = nullptr;
  Response response{};
  TimePoint last_activity{};
  std::optional<TransportFailure> abort{};

  static std::size_t OnHeader(char*, std::size_t size, std::size_t count, void* self) {
    static_cast<Transfer*>(self)->last_activity = Clock::now();
    return size * count;
  }

  static std::size_t OnBody(char* data, std::size_t size, std::size_t count, void* self) {
    const std::size_t bytes = size * count;
    try {
      return static_cast<Transfer*>(self)->Take({data, bytes}) ? bytes : 0;
    } catch (...) {  // No exception may pass through curl's C frames.
      static_cast<Transfer*>(self)->abort = TransportFailure::kReceiver;
      return 0;
    }
  }

  bool Take(std::string_view bytes) {
    last_activity = Clock::now();
    long status = 0;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    const bool ok = status >= 200 && status < 300;
    if (receiver != nullptr && ok) {
      const bool more = (*receiver)(bytes);
      last_activity = Clock::now();  // The receiver may have blocked.
      if (more) return true;
      abort = TransportFailure::kReceiver;
      return false;
    }
    if (response.body.size() + bytes.size() > (ok ? body_limit : kErrorBodyLimit)) {
      abort = TransportFailure::kTooLarge;
      return false;
    }
    response.body.append(bytes);
    return true;
  }
};

RestClient::RestClient(ClientConfig config, RestClientOptions options)
    : config_(std::move(config)), options_(std::move(options)) {}

RestClient::~RestClient() = default;

std::expected<std::unique_ptr<RestClient>, std::string> RestClient::Create(
    ClientConfig config, RestClientOptions options) {
  if (config.exec) {
    return std::unexpected(
        "the kubeconfig's user has an exec plug-in, which a service does not run: give it a token, "
        "a tokenFile or a client certificate (for instance a service account's)");
  }
  InitCurlOnce();
  std::unique_ptr<RestClient> client(new RestClient(std::move(config), std::move(options)));
  const ClientConfig& c = client->config_;
  const bool tls = c.server.starts_with("https://");
  if (!tls && !c.server.starts_with("http://")) {
    return std::unexpected("the API server's address must start with https:// or http://");
  }
  const std::size_t start = tls ? 8 : 7;
  const std::size_t slash = std::min(c.server.find('/', start), c.server.size());
  const Authority authority =
      SplitAuthority(std::string_view(c.server).substr(start, slash - start), tls ? "443" : "80");
  if (authority.host.empty()) return std::unexpected("the API server's address has no host");
  client->loopback_ = IsLoopback(authority.host);
  const bool secrets = !c.token.empty() || !c.token_file.empty();
  if (!tls && secrets && !client->loopback_) {
    return std::unexpected("refusing to send credentials over plain HTTP to " + authority.host);
  }
  client->base_url_ = c.server;
  if (tls && !c.tls_server_name.empty()) {
    client->base_url_ =
        "https://" + c.tls_server_name + ":" + authority.port + c.server.substr(slash);
    client->connect_to_ =
        c.tls_server_name + ":" + authority.port + ":" + authority.host + ":" + authority.port;
    client->host_header_ = authority.host + ":" + authority.port;
  }
  return client;
}

std::string RestClient::Token(bool force) {
  std::lock_guard lock(token_mutex_);
  const TimePoint now = Clock::now();
  if (config_.token_file.empty()) return config_.token;
  if (force || token_read_ == TimePoint{} || now - token_read_ >= options_.token_refresh) {
    token_read_ = now;
    if (auto text = ReadFile(config_.token_file, kMaxTokenBytes)) {
      // Otherwise keep the old one: it may still be valid.
      std::string fresh = std::move(*text);
      fresh.erase(fresh.find_last_not_of(" \t\r\n") + 1);
      if (!fresh.empty()) token_ = std::move(fresh);
    }
    if (token_.empty()) token_ = config_.token;
  }
  return token_;
}

std::string RestClient::Url(const Request& request) const {
  std::string url = base_url_ + request.path;
  char separator = '?';
  for (const auto& [key, value] : request.query) {
    url.push_back(separator);
    url.append(EscapeSegment(key)).append("=").append(EscapeSegment(value));
    separator = '&';
  }
  return url;
}

void RestClient::ConfigureTls(Slot& slot) const {
  CURL* easy = slot.easy;
  curl_easy_setopt(easy, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  if (config_.insecure_skip_verify) {
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
  }
  const bool has_ca = !config_.ca_data.empty() || !config_.ca_file.empty();
  if (has_ca) {
    // Debian's curl also trusts /etc/ssl/certs by default: only the cluster's own authority counts.
    curl_easy_setopt(easy, CURLOPT_CAPATH, nullptr);
    curl_easy_setopt(easy, CURLOPT_CA_CACHE_TIMEOUT, 60L);  // The mounted CA rotates.
  }
  if (!config_.ca_data.empty()) {
    curl_blob blob = Blob(config_.ca_data);
    curl_easy_setopt(easy, CURLOPT_CAINFO_BLOB, &blob);
  } else if (has_ca) {
    curl_easy_setopt(easy, CURLOPT_CAINFO, config_.ca_file.c_str());
  }
  if (!config_.client_cert_data.empty()) {
    curl_blob blob = Blob(config_.client_cert_data);
    curl_easy_setopt(easy, CURLOPT_SSLCERT_BLOB, &blob);
  } else if (!config_.client_cert_file.empty()) {
    curl_easy_setopt(easy, CURLOPT_SSLCERT, config_.client_cert_file.c_str());
  }
  if (!config_.client_key_data.empty()) {
    curl_blob blob = Blob(config_.client_key_data);
    curl_easy_setopt(easy, CURLOPT_SSLKEY_BLOB, &blob);
  } else if (!config_.client_key_file.empty()) {
    curl_easy_setopt(easy, CURLOPT_SSLKEY, config_.client_key_file.c_str());
  }
}

void RestClient::Configure(Slot& slot, Transfer& transfer) const {
  CURL* easy = slot.easy;
  const Request& request = transfer.request;
  curl_easy_setopt(easy, CURLOPT_URL, Url(request).c_str());
  curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
  curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, 30L);
  curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, 15L);
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
                   static_cast<long>(options_.connect_timeout.count()));
  curl_easy_setopt(easy, CURLOPT_USERAGENT, options_.user_agent.c_str());
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, Transfer::OnHeader);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, Transfer::OnBody);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &transfer);
  // The server compresses answers over 128 KiB, never a watch.
  curl_easy_setopt(easy, CURLOPT_ACCEPT_ENCODING, "gzip");
  if (!config_.proxy_url.empty()) {
    curl_easy_setopt(easy, CURLOPT_PROXY, config_.proxy_url.c_str());
  } else if (loopback_) {
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
  }
  if (!request.body.empty()) {
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request.body.data());
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(request.body.size()));
  }
  curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  ConfigureTls(slot);
}

void RestClient::ConfigureHeaders(Slot& slot, const Request& request,
                                  const std::string& token) const {
  slot.headers.reset();
  AddHeader(slot.headers, "Accept: " + request.accept);
  AddHeader(slot.headers, "Expect:");  // Avoids a 100-continue round trip.
  if (!request.body.empty()) AddHeader(slot.headers, "Content-Type: " + request.content_type);
  if (!token.empty()) {
    AddHeader(slot.headers, "Authorization: Bearer " + token);
    if (const std::string& second = options_.second_token_header; !second.empty()) {
      AddHeader(slot.headers, second + ": Bearer " + token);
    }
  }
  if (!host_header_.empty()) AddHeader(slot.headers, "Host: " + host_header_);
  curl_easy_setopt(slot.easy, CURLOPT_HTTPHEADER, slot.headers.get());
  slot.connect_to.reset();
  if (!connect_to_.empty()) AddHeader(slot.connect_to, connect_to_);
  curl_easy_setopt(slot.easy, CURLOPT_CONNECT_TO, slot.connect_to.get());
}

/// Drives the transfer until curl is done with it, and returns curl's code, or until `abort` is
/// set.
CURLcode RestClient::Slot::Run(Transfer& transfer) {
  std::stop_callback wake(transfer.stop, [this] { curl_multi_wakeup(multi); });
  while (!transfer.abort) {
    // A process that was frozen while it connected must not send a request that is too late now.
    long sent = 0;
    curl_easy_getinfo(easy, CURLINFO_REQUEST_SIZE, &sent);
    if (sent == 0 && Clock::now() >= transfer.deadline) {
      transfer.abort = TransportFailure::kTimeout;
      break;
    }
    int running = 0;
    if (curl_multi_perform(multi, &running) != CURLM_OK) return CURLE_RECV_ERROR;
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi, &left)) {
      if (message->msg == CURLMSG_DONE) return message->data.result;
    }
    const TimePoint now = Clock::now();
    TimePoint until = std::min(now + kMaxPoll, transfer.deadline);
    if (transfer.idle_timeout.count() > 0) {
      until = std::min(until, transfer.last_activity + transfer.idle_timeout);
    }
    if (transfer.stop.stop_requested()) {
      transfer.abort = TransportFailure::kCancelled;
    } else if (now >= transfer.deadline) {
      transfer.abort = TransportFailure::kTimeout;
    } else if (until <= now) {
      transfer.abort = TransportFailure::kSilent;
    } else {
      const auto wait = std::chrono::ceil<Duration>(until - now);
      curl_multi_poll(multi, nullptr, 0, static_cast<int>(wait.count()), nullptr);
    }
  }
  return CURLE_ABORTED_BY_CALLBACK;
}

std::expected<Response, TransportError> RestClient::Attempt(Slot& slot, Transfer& transfer,
                                                            const std::string& token) {
  CURL* easy = slot.easy;
  curl_easy_reset(easy);
  transfer.easy = easy;
  transfer.response = {};
  transfer.abort.reset();
  transfer.last_activity = Clock::now();
  Configure(slot, transfer);
  ConfigureHeaders(slot, transfer.request, token);

  curl_multi_add_handle(slot.multi, easy);
  const CURLcode code = slot.Run(transfer);
  long status = 0;
  long sent = 0;
  curl_off_t retry_after = 0;
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
  curl_easy_getinfo(easy, CURLINFO_REQUEST_SIZE, &sent);
  curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &retry_after);
  curl_multi_remove_handle(slot.multi, easy);  // Closes the connection unless the call was done.

  if (transfer.abort) return Fail(*transfer.abort, sent > 0, AbortText(*transfer.abort));
  if (code != CURLE_OK) return Fail(FailureOf(code), sent > 0, curl_easy_strerror(code));
  transfer.response.status = static_cast<int>(status);
  if (retry_after > 0) transfer.response.retry_after = std::chrono::seconds(retry_after);
  return std::move(transfer.response);
}

std::unique_ptr<RestClient::Slot> RestClient::Acquire(const Transfer& transfer, bool is_stream) {
  std::unique_lock lock(pool_mutex_);
  if (!is_stream) {
    const auto free = [this] { return calls_ < options_.max_calls; };
    if (!slot_freed_.wait_for(lock, transfer.stop, transfer.deadline - Clock::now(), free)) {
      return nullptr;
    }
    ++calls_;
  }
  if (idle_.empty()) {
    lock.unlock();
    return std::make_unique<Slot>();
  }
  std::unique_ptr<Slot> slot = std::move(idle_.back());
  idle_.pop_back();
  return slot;
}

void RestClient::PutBack(std::unique_ptr<Slot> slot, bool is_stream) {
  {
    std::lock_guard lock(pool_mutex_);
    if (!is_stream) --calls_;
    if (idle_.size() < kMaxIdle) idle_.push_back(std::move(slot));
  }
  slot_freed_.notify_one();
}

std::expected<Response, TransportError> RestClient::Call(Transfer& transfer, bool is_stream) {
  const TimePoint start = Clock::now();
  // A far deadline instead of the clock's maximum: adding to it must not overflow.
  const Duration limit = transfer.request.timeout.count() > 0 ? transfer.request.timeout
                                                              : std::chrono::hours(24 * 365);
  transfer.deadline =
      std::min(start + limit, transfer.request.not_after.value_or(TimePoint::max()));
  std::unique_ptr<Slot> slot = Acquire(transfer, is_stream);
  if (slot == nullptr) {
    const bool stopped = transfer.stop.stop_requested();
    return Fail(stopped ? TransportFailure::kCancelled : TransportFailure::kTimeout, false,
                stopped ? "cancelled" : "no free connection");
  }
  const std::string token = Token(false);
  auto result = Attempt(*slot, transfer, token);
  if (result && result->status == 401 && !config_.token_file.empty()) {
    const std::string fresh = Token(true);
    if (fresh != token) result = Attempt(*slot, transfer, fresh);
  }
  PutBack(std::move(slot), is_stream);
  return result;
}

std::expected<Response, TransportError> RestClient::Do(const Request& request,
                                                       std::stop_token stop) {
  Transfer transfer{.request = request,
                    .receiver = nullptr,
                    .idle_timeout = Duration(0),
                    .stop = std::move(stop),
                    .body_limit = options_.body_limit,
                    .deadline = {}};
  return Call(transfer, false);
}

std::expected<Response, TransportError> RestClient::StreamBytes(const Request& request,
                                                                const Receiver& receiver,
                                                                Duration idle_timeout,
                                                                std::stop_token stop) {
  Transfer transfer{.request = request,
                    .receiver = &receiver,
                    .idle_timeout = idle_timeout,
                    .stop = std::move(stop),
                    .body_limit = options_.body_limit,
                    .deadline = {}};
  return Call(transfer, true);
}

std::expected<Response, TransportError> RestClient::Stream(const Request& request,
                                                           const Receiver& on_line,
                                                           Duration idle_timeout,
                                                           std::stop_token stop) {
  LineSplitter lines(options_.line_limit, on_line);
  SplitResult last = SplitResult::kContinue;
  const Receiver feed = [&](std::string_view bytes) {
    last = lines.Feed(bytes);
    return last == SplitResult::kContinue;
  };
  auto result = StreamBytes(request, feed, idle_timeout, std::move(stop));
  if (result && result->Ok()) last = lines.Finish();
  if (last == SplitResult::kTooLong) {
    return Fail(TransportFailure::kTooLarge, true, "line too long");
  }
  if (last == SplitResult::kStopped) {
    return Fail(TransportFailure::kReceiver, true, "stopped by the receiver");
  }
  return result;
}

}  // namespace berth::kube
