// An HTTP/1.1 server on loopback that answers from a script and can misbehave: resets, silence,
// truncated bodies. It uses plain sockets, because a reset needs the descriptor, and because the
// thread sanitizer cannot see into an uninstrumented HTTP library.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace berth::testing {

/// A request as it came in. Header names are in lower case, query values decoded.
struct FakeRequest {
  std::string method;
  std::string path;
  std::map<std::string, std::string> query;
  std::map<std::string, std::string> headers;
  std::string body;
};

/// What happens after the last byte of a reply.
enum class FakeEnd {
  kKeepAlive,  ///< The answer is complete and the connection stays open.
  kClose,      ///< The connection is closed, which truncates a chunked body.
  kReset,      ///< TCP reset.
  kHold,       ///< Nothing, until the client disconnects or the server is destroyed.
};

struct FakeReply {
  int status = 200;  ///< 0: no byte is sent before `end`.
  std::map<std::string, std::string> headers;
  std::vector<std::string> chunks;  ///< The body, one HTTP chunk each.
  FakeEnd end = FakeEnd::kKeepAlive;

  /// A complete JSON answer.
  static FakeReply Json(std::string body, int status = 200);
  /// An error answer with a metav1.Status.
  static FakeReply Status(int status, const std::string& reason, const std::string& message = "");
  /// A watch stream: a line end is added to each event.
  static FakeReply Watch(std::vector<std::string> events, FakeEnd end = FakeEnd::kHold);
  /// No answer at all.
  static FakeReply Nothing(FakeEnd end);

  FakeReply&& With(std::string name, std::string value) &&;
};

/// Answers each request with the next reply of the script; requests beyond its end get no answer.
/// With a handler, the handler answers instead. Thread-safe.
class FakeApiServer {
 public:
  using Handler = std::function<FakeReply(const FakeRequest&)>;

  FakeApiServer();
  ~FakeApiServer();
  FakeApiServer(const FakeApiServer&) = delete;
  FakeApiServer& operator=(const FakeApiServer&) = delete;

  /// `http://127.0.0.1:port`
  std::string Url() const;

  void Script(std::vector<FakeReply> replies);
  void Handle(Handler handler);

  /// Waits for the n-th request and returns the first n or more; fewer after a time-out (10 s).
  std::vector<FakeRequest> WaitForRequests(std::size_t n);
  std::vector<FakeRequest> Requests() const;
  /// Connections accepted so far.
  int Connections() const;

 private:
  void Accept();
  void Serve(int fd);
  FakeReply Next(const FakeRequest& request);

  int listener_ = -1;
  int port_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<FakeReply> script_;
  Handler handler_;
  std::vector<FakeRequest> requests_;
  std::vector<int> open_;
  std::vector<std::thread> serving_;
  int connections_ = 0;
  bool stopping_ = false;
  std::thread accepting_;
};

}  // namespace berth::testing
