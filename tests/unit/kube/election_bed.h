// Candidates on one Lease, in virtual time.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kube/leader_election.h"
#include "tests/support/catch.h"

namespace berth::kube {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using AnswerKind = LeaseAnswer::Kind;
using RequestKind = LeaseRequest::Kind;

/// What becomes of a candidate's requests.
enum class Network {
  kFine,
  kDown,         ///< Refused at once, without effect.
  kLost,         ///< Swallowed: no effect, and the candidate waits for its own time-out.
  kAnswersLost,  ///< They take effect, and the candidate waits for its own time-out.
};

/// The API server's one Lease: at first one that was released.
class LeaseServer {
 public:
  LeaseServer() { Store(EncodeLease("sys", "berth", {.duration_seconds = 1}, nullptr)); }

  LeaseAnswer Serve(const LeaseRequest& request) {
    ++calls[request.kind];
    if (request.kind == RequestKind::kGet) return Show();
    if (request.kind == RequestKind::kCreate && object) return {.kind = AnswerKind::kConflict};
    if (request.kind == RequestKind::kUpdate) {
      if (!object) return {.kind = AnswerKind::kNotFound};
      if (request.base.resource_version != Version()) return {.kind = AnswerKind::kConflict};
    }
    Store(EncodeLease("sys", "berth", request.record,
                      request.kind == RequestKind::kUpdate ? &request.base : nullptr));
    return Show();
  }

  /// An edit by hand: a merge patch.
  void Edit(const char* patch) {
    auto json = nlohmann::json::parse(*object);
    json.merge_patch(nlohmann::json::parse(patch));
    Store(json.dump());
  }
  void Delete() { object.reset(); }
  std::string Holder() const { return object ? DecodeLease(*object)->record.holder : "none"; }
  int Transitions() const { return DecodeLease(*object)->record.transitions; }

  std::map<RequestKind, int> calls;

 private:
  std::string Version() const { return std::to_string(version); }
  void Store(const std::string& json) {
    ++version;
    auto stored = nlohmann::json::parse(json);
    stored["metadata"]["resourceVersion"] = Version();
    object = stored.dump();
  }
  LeaseAnswer Show() const {
    if (!object) return {.kind = AnswerKind::kNotFound};
    return LeaseAnswerOf({}, Response{.status = 200, .body = *object, .retry_after = {}});
  }

  std::optional<std::string> object;
  int version = 0;
};

/// Candidates on one Lease, in virtual time. After every step it is checked that no two lead.
class Election {
 public:
  struct Candidate {
    std::string name;
    LeaderElection election;
    Duration clock;   ///< How far its monotonic clock is from the others'.
    Millis wall = 0;  ///< How far its wall clock is.
    Network network = Network::kFine;
    bool stopped = false;   ///< SIGSTOP: it sends nothing and hears nothing.
    TimePoint answer_at{};  ///< When the answer under way is in.
    std::optional<LeaseAnswer> answer{};
  };

  Candidate& Add(const std::string& name, Duration clock = Duration(0), Millis wall = 0) {
    candidates_.push_back(
        std::make_unique<Candidate>(Candidate{.name = name,
                                              .election = LeaderElection({.identity = name}),
                                              .clock = clock,
                                              .wall = wall}));
    return *candidates_.back();
  }

  void Run(Duration time) {
    const TimePoint end = now_ + time;
    while (now_ < end) {
      now_ += milliseconds(50);
      for (auto& candidate : candidates_) Step(*candidate);
      CheckOneLeads();
    }
  }
  /// Runs until somebody leads, and returns for how long nobody did.
  Duration RunUntilLed() {
    const TimePoint begin = now_;
    while (Leader() == "nobody" && now_ - begin < seconds(120)) Run(milliseconds(50));
    return std::chrono::duration_cast<Duration>(now_ - begin);
  }

  bool Leads(const Candidate& c) const { return c.election.Leads(now_ + c.clock); }
  std::string Leader() const {
    for (const auto& candidate : candidates_) {
      if (Leads(*candidate)) return candidate->name;
    }
    return "nobody";
  }
  TimePoint now(const Candidate& c) const { return now_ + c.clock; }
  Duration elapsed() const { return std::chrono::duration_cast<Duration>(now_ - kStart); }
  void SetRandom(std::function<double()> random) { random_ = std::move(random); }

  LeaseServer server;

 private:
  static constexpr TimePoint kStart{hours(1000)};

  void Step(Candidate& c) {
    if (c.stopped) return;
    if (c.answer && now_ >= c.answer_at) c.election.Answer(*std::exchange(c.answer, {}), now(c));
    while (auto request = c.election.Next(now(c), c.wall + elapsed().count(), random_())) {
      const Duration timeout = request->timeout;
      REQUIRE(timeout.count() > 0);
      const LeaseAnswer none{.kind = AnswerKind::kFailed, .error = "timed out"};
      switch (c.network) {
        case Network::kFine:
          c.election.Answer(server.Serve(*request), now(c));
          continue;
        case Network::kDown:
          c.election.Answer(none, now(c));
          continue;
        case Network::kAnswersLost:
          server.Serve(*request);
          [[fallthrough]];
        case Network::kLost:
          c.answer = none;
          c.answer_at = now_ + timeout;
      }
    }
  }

  void CheckOneLeads() const {
    int leaders = 0;
    for (const auto& candidate : candidates_) leaders += Leads(*candidate) ? 1 : 0;
    REQUIRE(leaders <= 1);
  }

  std::vector<std::unique_ptr<Candidate>> candidates_;
  TimePoint now_ = kStart;
  std::function<double()> random_ = [] { return 0.5; };
};

}  // namespace berth::kube
