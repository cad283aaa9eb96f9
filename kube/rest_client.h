// HTTP to one API server, on libcurl: calls, and streams for WATCH and LIST. Errors are values. An
// error says whether the server may have acted, because a bind whose outcome is unknown must stay
// charged.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kube/api_status.h"
#include "kube/backoff.h"
#include "kube/client_config.h"
#include "kube/http.h"
#include "kube/stream.h"

namespace berth::kube {

enum class TransportFailure : std::uint8_t {
  kCancelled,  ///< By the stop token.
  kConnect,    ///< No address, connection refused, no free connection.
  kTls,        ///< Certificates.
  kTimeout,    ///< The call's own timeout.
  kSilent,     ///< Nothing arrived for the idle timeout of a stream.
  kReset,      ///< The connection broke, or the answer was not HTTP.
  kTooLarge,   ///< A body or a line exceeded its limit.
  kReceiver,   ///< The receiver of a stream asked to stop.
};

/// No complete answer came.
struct TransportError {
  TransportFailure failure = TransportFailure::kReset;
  /// Bytes of the request were sent: the server may have acted on it. False: it certainly did not.
  bool maybe_sent = false;
  std::string message;
};

struct RestClientOptions {
  int max_calls = 64;  ///< Concurrent Do() calls; more wait. Streams do not count.
  std::size_t body_limit = std::size_t{64} << 20;  ///< Bytes, decompressed. Not for streams.
  std::size_t line_limit = std::size_t{8} << 20;   ///< Bytes of one line of a stream.
  Duration connect_timeout{5'000};
  Duration token_refresh{60'000};
  std::string user_agent = "berth";
  /// A second header in which to send the bearer token; empty: none.
  std::string second_token_header = {};
};

/// A client of one API server. Thread-safe: calls run on their callers' threads, each on its own
/// connection. Connections are kept and reused, the most recently used first.
class RestClient {
 public:
  /// Gets the next piece of a successful answer; false ends the stream. May block, which slows the
  /// server down by back pressure; that time does not count as silence.
  using Receiver = PieceFunction;

  /// Error: an impossible configuration, such as credentials over plain HTTP to another machine.
  static std::expected<std::unique_ptr<RestClient>, std::string> Create(
      ClientConfig config, RestClientOptions options = {});
  ~RestClient();
  RestClient(const RestClient&) = delete;
  RestClient& operator=(const RestClient&) = delete;

  /// One call. Any HTTP status is an answer. Libcurl may repeat a request by itself when a kept
  /// connection turns out to be dead before any answer: every write must be idempotent.
  std::expected<Response, TransportError> Do(const Request& request, std::stop_token stop);

  /// A call whose successful answer is delivered in pieces as it arrives. At its end the result is
  /// a Response without a body; an answer that is not 2xx is a Response with one (1 MiB at most).
  std::expected<Response, TransportError> StreamBytes(const Request& request,
                                                      const Receiver& receiver,
                                                      Duration idle_timeout, std::stop_token stop);

  /// StreamBytes by lines, without their line ends; empty lines are dropped.
  std::expected<Response, TransportError> Stream(const Request& request, const Receiver& on_line,
                                                 Duration idle_timeout, std::stop_token stop);

 private:
  struct Slot;
  struct Transfer;

  RestClient(ClientConfig config, RestClientOptions options);

  std::expected<Response, TransportError> Call(Transfer& transfer, bool is_stream);
  std::expected<Response, TransportError> Attempt(Slot& slot, Transfer& transfer,
                                                  const std::string& token);
  void Configure(Slot& slot, Transfer& transfer) const;
  void ConfigureHeaders(Slot& slot, const Request& request, const std::string& token) const;
  void ConfigureTls(Slot& slot) const;
  std::string Url(const Request& request) const;
  std::unique_ptr<Slot> Acquire(const Transfer& transfer, bool is_stream);
  void PutBack(std::unique_ptr<Slot> slot, bool is_stream);
  std::string Token(bool force);

  const ClientConfig config_;
  const RestClientOptions options_;
  std::string base_url_;    ///< The URL for curl; contains the TLS server name if there is one.
  std::string connect_to_;  ///< curl's name:port:host:port when the TLS server name differs.
  std::string host_header_;
  bool loopback_ = false;

  std::mutex pool_mutex_;
  std::condition_variable_any slot_freed_;
  std::vector<std::unique_ptr<Slot>> idle_;
  int calls_ = 0;  ///< Do() calls that hold a slot.

  std::mutex token_mutex_;
  std::string token_;
  TimePoint token_read_{};
};

}  // namespace berth::kube
