// The connections between kube-scheduler and Berth: every call has httpTimeout, can be late, can
// break before or after it was carried out, and breaks when either process ends.
#pragma once

#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "sim/world/berth_host.h"

namespace berth::sim {

class VerbWire {
 public:
  template <typename Result>
  using Done = std::function<void(const std::expected<Result, std::string>&)>;

  VerbWire(Environment& env, Duration http_timeout) : env_(env), timeout_(http_timeout) {}

  /// Berth listens; null: nobody does, and all open calls break.
  void Listen(BerthHost* host);
  /// kube-scheduler ends: nobody waits for an answer any more.
  void HangUp() { open_.clear(); }

  void Filter(const kube::Pod& pod, const std::vector<std::string>& offered,
              Done<FilterReply> done);
  void Prioritize(const std::string& uid, const std::vector<std::string>& offered,
                  Done<std::map<std::string, std::int64_t>> done);
  /// Empty text: bound.
  void Bind(const engine::PodRef& pod, const std::string& node, Done<std::string> done);
  void Preempt(const std::string& uid, const engine::VictimMap& candidates,
               Done<engine::VictimMap> done);

  std::size_t open() const { return open_.size(); }
  std::uint64_t filters() const { return filters_; }
  /// A bind call has reached Berth; the checker listens.
  std::function<void(const std::string& uid)> on_bind;

 private:
  using Token = std::shared_ptr<const bool>;
  struct Open {
    Token connection;
    std::function<void(const std::string& error)> fail;
  };

  /// `carry` runs when the call arrives; it gives its answer to the function it is handed.
  template <typename Result>
  void Call(std::function<void(std::weak_ptr<const bool> connection,
                               std::function<void(const std::optional<Result>&)>)>
                carry,
            Done<Result> done);
  Duration Delay();
  void Fail(std::uint64_t id, const std::string& error);

  Environment& env_;
  const Duration timeout_;
  BerthHost* host_ = nullptr;
  std::uint64_t next_ = 0;
  std::uint64_t filters_ = 0;
  std::map<std::uint64_t, Open> open_;
};

}  // namespace berth::sim
