#include "server/demo/http_extender.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "server/verbs/extender_client.h"

namespace berth::server {
namespace {

constexpr std::array<const char*, 4> kVerbs{"filter", "prioritize", "bind", "preempt"};
constexpr std::size_t kMaxFailures = 20;
/// kube-scheduler's httpTimeout, as Berth's own configuration sets it.
constexpr kube::Duration kHttpTimeout{30'000};

}  // namespace

HttpExtender::HttpExtender(sim::Environment& env, kube::RestClient& verbs, Post post)
    : env_(env), verbs_(verbs), post_(std::move(post)), bytes_(env) {
  for (std::size_t i = 0; i < kVerbs.size(); ++i) times_[i].verb = kVerbs[i];
}

void HttpExtender::Stop() {
  stop_.request_stop();
  workers_.clear();  // joins them
}

// --- Verbs ---------------------------------------------------------------------------------------

void HttpExtender::Filter(const kube::Pod& pod, const std::vector<std::string>& offered,
                          Done<sim::FilterReply> done) {
  const auto read = [this, offered](const std::string& body) {
    return bytes_.ReadFilter(body, offered);
  };
  Start(kFilter, sim::VerbBytes::Offer(pod, offered), read, std::move(done));
}

void HttpExtender::Prioritize(const kube::Pod& pod, const std::vector<std::string>& offered,
                              Done<std::map<std::string, std::int64_t>> done) {
  const auto read = [this](const std::string& body) { return bytes_.ReadPriorities(body); };
  Start(kPrioritize, sim::VerbBytes::Offer(pod, offered), read, std::move(done));
}

void HttpExtender::Bind(const engine::PodRef& pod, const std::string& node,
                        Done<std::string> done) {
  if (on_bind) on_bind(pod.uid);
  Start(kBind, sim::VerbBytes::BindRequest(pod, node), DecodeBindResult, std::move(done));
}

void HttpExtender::Preempt(const kube::Pod& pod, const engine::VictimMap& candidates,
                           Done<engine::VictimMap> done) {
  const auto read = [this](const std::string& body) { return bytes_.ReadVictims(body); };
  Start(kPreempt, sim::VerbBytes::PreemptRequest(pod, candidates), read, std::move(done));
}

// --- Calls ---------------------------------------------------------------------------------------

/// `read` makes a Result of the answer's body; what it finds wrong with it is in the environment.
template <typename Result, typename Read>
void HttpExtender::Start(Verb verb, std::string body, Read read, Done<Result> done) {
  auto answered = [this, verb, read = std::move(read),
                   done = std::move(done)](const Answer& answer) {
    if (!answer) return done(std::unexpected(answer.error()));
    const std::expected<Result, std::string> result = read(*answer);
    if (!env_.garbled.empty()) Failed(verb, std::exchange(env_.garbled, {}));
    done(result);
  };
  const std::scoped_lock lock(mutex_);
  calls_.push_back([this, verb, body = std::move(body), answered = std::move(answered)]() mutable {
    post_([answered = std::move(answered), answer = Ask(verb, std::move(body))] {
      answered(answer);
    });
  });
  if (idle_ < calls_.size()) workers_.emplace_back([this] { Work(); });
  called_.notify_one();
}

void HttpExtender::Work() {
  const std::stop_token stop = stop_.get_token();
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    called_.wait(lock, stop, [this] { return !calls_.empty(); });
    --idle_;
    if (stop.stop_requested()) return;
    const sim::Event call = std::move(calls_.front());
    calls_.pop_front();
    lock.unlock();
    call();
    lock.lock();
  }
}

/// Makes the call, and waits for its answer.
HttpExtender::Answer HttpExtender::Ask(Verb verb, std::string body) {
  const kube::Request request{.method = "POST",
                              .path = std::string("/") + kVerbs[verb],
                              .query = {},
                              .body = std::move(body),
                              .timeout = kHttpTimeout};
  const auto start = std::chrono::steady_clock::now();
  auto response = verbs_.Do(request, stop_.get_token());
  const auto took = std::chrono::steady_clock::now() - start;
  if (response && response->status == 200) {
    const std::scoped_lock lock(mutex_);
    times_[verb].micros.push_back(
        std::chrono::duration_cast<std::chrono::microseconds>(took).count());
    return std::move(response->body);
  }
  std::string why =
      response ? fmt::format("HTTP {}", response->status) : std::move(response.error().message);
  if (!stop_.stop_requested()) Failed(verb, why);
  return std::unexpected(std::move(why));
}

void HttpExtender::Failed(Verb verb, const std::string& why) {
  const std::scoped_lock lock(mutex_);
  if (failures_.size() < kMaxFailures)
    failures_.push_back(fmt::format("{}: {}", kVerbs[verb], why));
}

// --- Reads ---------------------------------------------------------------------------------------

std::array<VerbTimes, 4> HttpExtender::Times() const {
  const std::scoped_lock lock(mutex_);
  return times_;
}

std::vector<std::string> HttpExtender::Failures() const {
  const std::scoped_lock lock(mutex_);
  return failures_;
}

}  // namespace berth::server
