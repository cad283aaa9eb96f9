#include "sim/trace/claims.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "sim/checker/usage.h"
#include "sim/world/pods.h"

namespace berth::sim {
namespace {

/// A queue on the path of others, and the GPUs that jobs of all of them have. In thousandths.
struct Account {
  std::optional<std::int64_t> quota{};
  std::int64_t held = 0;     ///< Of jobs that run.
  std::int64_t claimed = 0;  ///< Of those that wait and have a claim.
};

/// The accounts on the path of a queue, the queue itself first.
class Accounts {
 public:
  explicit Accounts(const config::PolicyConfiguration& policy) : policy_(policy) {}

  const std::vector<Account*>& On(const std::string& queue) {
    const auto [path, fresh] = paths_.try_emplace(queue);
    if (!fresh) return path->second;
    for (const std::string& name : PathOf(queue, policy_)) {
      const auto [account, first] = accounts_.try_emplace(name);
      const auto found = std::ranges::find(policy_.queues, name, &config::Queue::name);
      if (first && found != policy_.queues.end() && found->quota.contains(kGpu)) {
        account->second.quota = AmountOf(found->quota, kGpu);
      }
      path->second.push_back(&account->second);
    }
    return path->second;
  }

  void ForgetClaims() {
    for (auto& [name, account] : accounts_) account.claimed = 0;
  }

 private:
  const config::PolicyConfiguration& policy_;
  std::map<std::string, Account> accounts_;
  std::map<std::string, std::vector<Account*>> paths_;
};

class Claims {
 public:
  Claims(std::span<const ClaimingJob> jobs, const config::PolicyConfiguration& policy)
      : accounts_(policy), states_(jobs.size()) {
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      State& state = states_[i];
      state.path = accounts_.On(jobs[i].queue);
      state.milli = jobs[i].gpus * cluster::kMilli;
      state.order = {-std::int64_t{jobs[i].priority}, i};
      state.promised = std::ranges::any_of(
          state.path, [](const Account* account) { return account->quota.has_value(); });
    }
  }

  void On(const JobEvent& event) {
    PassTime(event.at);
    State& state = states_[event.job];
    switch (event.kind) {
      case JobEvent::Kind::kArrived:
        waiting_.insert(state.order);
        break;
      case JobEvent::Kind::kStarted:
        waiting_.erase(state.order);
        End(event.job, /*met=*/true);
        Hold(state, 1);
        break;
      case JobEvent::Kind::kStopped:
        waiting_.insert(state.order);
        [[fallthrough]];
      case JobEvent::Kind::kEnded:
        Hold(state, -1);
        break;
    }
    LookWhoClaims();
  }

  std::vector<Claim> Take() {
    for (const auto& [priority, job] : waiting_) End(job, /*met=*/false);
    return std::move(claims_);
  }

 private:
  using Order = std::pair<std::int64_t, std::size_t>;
  struct State {
    std::vector<Account*> path;
    std::int64_t milli = 0;
    Order order;
    bool promised = false;
    bool claims = false;               ///< Now.
    std::optional<Duration> waited{};  ///< None: it has had no claim since it began to wait.
  };

  void PassTime(TimePoint now) {
    for (const auto& [priority, job] : waiting_) {
      if (states_[job].claims) *states_[job].waited += now - now_;
    }
    now_ = now;
  }

  void End(std::size_t job, bool met) {
    State& state = states_[job];
    if (state.waited) claims_.push_back({.job = job, .waited = *state.waited, .met = met});
    state.waited.reset();
    state.claims = false;
  }

  static void Hold(const State& state, std::int64_t sign) {
    for (Account* account : state.path) account->held += sign * state.milli;
  }

  void LookWhoClaims() {
    accounts_.ForgetClaims();
    for (const auto& [priority, job] : waiting_) {
      State& state = states_[job];
      state.claims = state.promised && std::ranges::all_of(state.path, [&](const Account* a) {
                       return !a->quota || a->held + a->claimed + state.milli <= *a->quota;
                     });
      if (!state.claims) continue;
      for (Account* account : state.path) account->claimed += state.milli;
      if (!state.waited) state.waited = 0;
    }
  }

  Accounts accounts_;
  std::vector<State> states_;
  std::set<Order> waiting_;
  TimePoint now_ = 0;
  std::vector<Claim> claims_;
};

}  // namespace

std::vector<Claim> ClaimsWithinQuota(std::span<const ClaimingJob> jobs,
                                     std::span<const JobEvent> events,
                                     const config::PolicyConfiguration& policy) {
  Claims claims(jobs, policy);
  for (const JobEvent& event : events) claims.On(event);
  return claims.Take();
}

}  // namespace berth::sim
