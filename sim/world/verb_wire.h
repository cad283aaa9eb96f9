// The connections between kube-scheduler and Berth: every call has httpTimeout, can be late, can
// break before or after it was carried out, and breaks when either process ends. At fidelity `wire`
// what goes over them are bytes.
#pragma once

#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "sim/world/berth_host.h"
#include "sim/world/verb_bytes.h"

namespace berth::sim {

class VerbWire {
 public:
  template <typename Result>
  using Done = std::function<void(const std::expected<Result, std::string>&)>;

  VerbWire(Environment& env, Duration http_timeout)
      : env_(env), timeout_(http_timeout), bytes_(env) {}

  /// New connections go to `host` from now on. Those to the former one, if it lives, are used on
  /// for a while: it answers that it does not lead.
  void Listen(BerthHost* host);
  /// Its process ended: nobody listens there, and the calls that it has break.
  void Gone(const BerthHost* host);
  /// kube-scheduler ends: nobody waits for an answer any more.
  void HangUp() { open_.clear(); }

  void Filter(const kube::Pod& pod, const std::vector<std::string>& offered,
              Done<FilterReply> done);
  /// Filter for a placement that never happens.
  void TryFilter(const kube::Pod& pod, const std::vector<std::string>& offered,
                 Done<FilterReply> done) {
    ++trials_;
    Filter(pod, offered, std::move(done));
  }
  void Prioritize(const kube::Pod& pod, const std::vector<std::string>& offered,
                  Done<std::map<std::string, std::int64_t>> done);
  /// Empty text: bound.
  void Bind(const engine::PodRef& pod, const std::string& node, Done<std::string> done);
  void Preempt(const kube::Pod& pod, const engine::VictimMap& candidates,
               Done<engine::VictimMap> done);

  std::size_t open() const { return open_.size(); }
  std::uint64_t filters() const { return filters_; }
  /// Of the filters: those for placements that never happen.
  std::uint64_t trials() const { return trials_; }

 private:
  using Token = std::shared_ptr<const bool>;
  struct Open {
    Token connection;
    const BerthHost* host;  ///< Null: on its way.
    std::function<void(const std::string& error)> fail;
  };

  template <typename Result>
  using Carry = std::function<void(BerthHost& host, std::weak_ptr<const bool> connection,
                                   std::function<void(const std::optional<Result>&)>)>;
  /// `carry` runs when the call arrives; it gives its answer to the function it is handed.
  template <typename Result>
  void Call(Carry<Result> carry, Done<Result> done);
  /// The same in bytes; `read` makes a Result of the answer's.
  template <typename Result, typename Read>
  void CallInBytes(Carry<std::string> serve, Read read, Done<Result> done);
  bool in_bytes() const { return env_.fidelity == Fidelity::kWire; }
  BerthHost* Endpoint();
  Duration Delay();
  void Fail(std::uint64_t id, const std::string& error);

  Environment& env_;
  const Duration timeout_;
  VerbBytes bytes_;
  BerthHost* host_ = nullptr;
  BerthHost* former_ = nullptr;
  TimePoint former_until_ = 0;
  std::uint64_t next_ = 0;
  std::uint64_t filters_ = 0;
  std::uint64_t trials_ = 0;
  std::map<std::uint64_t, Open> open_;
};

}  // namespace berth::sim
