// The connections between kube-scheduler and Berth. Every call is subject to httpTimeout, can be
// late, can break before or after it was carried out, and breaks when either process ends. At
// fidelity `wire` calls and answers are bytes.
#pragma once

#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "sim/world/host_driver.h"
#include "sim/world/verb_bytes.h"

namespace berth::sim {

/// The connections of kube-scheduler to the processes of Berth.
class VerbWire final : public Extender {
 public:
  VerbWire(Environment& env, Duration http_timeout)
      : env_(env), timeout_(http_timeout), bytes_(env) {}

  /// New connections go to `host` from now on. Connections to the former leader, if it lives, stay
  /// in use for a while; it answers that it does not lead.
  void Listen(HostDriver* host);
  /// Its process has ended: the calls that it was serving break, and it accepts no more.
  void Gone(const HostDriver* host);
  /// kube-scheduler ends: no caller waits for an answer any more.
  void HangUp() { open_.clear(); }

  void Filter(const kube::Pod& pod, const std::vector<std::string>& offered,
              Done<FilterReply> done) override;
  void TryFilter(const kube::Pod& pod, const std::vector<std::string>& offered,
                 Done<FilterReply> done) override {
    ++trials_;
    Filter(pod, offered, std::move(done));
  }
  void Prioritize(const kube::Pod& pod, const std::vector<std::string>& offered,
                  Done<std::map<std::string, std::int64_t>> done) override;
  void Bind(const engine::PodRef& pod, const std::string& node, Done<std::string> done) override;
  void Preempt(const kube::Pod& pod, const engine::VictimMap& candidates,
               Done<engine::VictimMap> done) override;

  std::size_t open() const { return open_.size(); }
  std::uint64_t filters() const { return filters_; }
  /// Filter calls for placements that never happen.
  std::uint64_t trials() const { return trials_; }

 private:
  using Token = std::shared_ptr<const bool>;
  struct Open {
    Token connection;
    const HostDriver* host;  ///< Null: the call has not arrived yet.
    std::function<void(const std::string& error)> fail;
  };

  template <typename Result>
  using Carry = std::function<void(HostDriver& host, std::weak_ptr<const bool> connection,
                                   std::function<void(const std::optional<Result>&)>)>;
  /// `carry` runs when the call arrives; it passes its answer to the function that it gets.
  template <typename Result>
  void Call(Carry<Result> carry, Done<Result> done);
  /// The same in bytes; `read` decodes the answer into a Result.
  template <typename Result, typename Read>
  void CallInBytes(Carry<std::string> serve, Read read, Done<Result> done);
  bool in_bytes() const { return env_.fidelity == Fidelity::kWire; }
  HostDriver* Endpoint();
  Duration Delay();
  void Fail(std::uint64_t id, const std::string& error);

  Environment& env_;
  const Duration timeout_;
  VerbBytes bytes_;
  HostDriver* host_ = nullptr;
  HostDriver* former_ = nullptr;
  TimePoint former_until_ = 0;
  std::uint64_t next_ = 0;
  std::uint64_t filters_ = 0;
  std::uint64_t trials_ = 0;
  std::map<std::uint64_t, Open> open_;
};

}  // namespace berth::sim
