#include "sim/world/verb_wire.h"

#include "server/verbs/extender_client.h"

namespace berth::sim {
namespace {

/// How long kube-scheduler keeps idle connections. It notices only at their next use that one is
/// dead.
constexpr Duration kKeptAlive = 20'000;

}  // namespace

void VerbWire::Listen(HostDriver* host) {
  if (host_ != nullptr && host != nullptr && host != host_) {
    former_ = host_;
    former_until_ = env_.now() + kKeptAlive;
  }
  host_ = host;
}

void VerbWire::Gone(const HostDriver* host) {
  if (former_ == host) former_ = nullptr;
  if (host_ == host) host_ = nullptr;
  std::vector<std::uint64_t> cut;
  for (const auto& [id, open] : open_) {
    if (open.host == host || (open.host == nullptr && host_ == nullptr)) cut.push_back(id);
  }
  for (const std::uint64_t id : cut) Fail(id, "connection reset by peer");
}

/// The process that a call reaches: connections to the former leader are kept alive for a while.
HostDriver* VerbWire::Endpoint() {
  const bool kept = former_ != nullptr && env_.now() < former_until_ && env_.network.Percent(50);
  return kept ? former_ : host_;
}

void VerbWire::Fail(std::uint64_t id, const std::string& error) {
  const auto it = open_.find(id);
  if (it == open_.end()) return;
  const auto fail = std::move(it->second.fail);
  open_.erase(it);
  fail(error);
}

Duration VerbWire::Delay() {
  if (!env_.faults.Has(FaultKind::kVerbSlow)) return env_.Latency(env_.network, 0, 1);
  env_.faults.TookEffect(FaultKind::kVerbSlow);
  return env_.network.Percent(20) ? env_.network.Between(1'000, 20'000)
                                  : env_.network.Between(1, 500);
}

template <typename Result>
void VerbWire::Call(Carry<Result> carry, Done<Result> done) {
  const std::uint64_t id = ++next_;
  const auto connection = std::make_shared<const bool>(true);
  open_[id] = {connection, nullptr,
               [done](const std::string& error) { done(std::unexpected(error)); }};
  env_.timeline.After(timeout_, [this, id] { Fail(id, "context deadline exceeded"); });
  const bool resets = env_.faults.Has(FaultKind::kVerbReset) && env_.network.Percent(50);
  if (resets) env_.faults.TookEffect(FaultKind::kVerbReset);
  const bool carried = !resets || env_.network.Percent(50);
  const auto answer = [this, id, done](const std::optional<Result>& result) {
    env_.timeline.After(Delay(), [this, id, done, result] {
      const auto it = open_.find(id);
      if (it == open_.end()) return;
      if (!result) return Fail(id, "HTTP 503");
      open_.erase(it);
      done(*result);
    });
  };
  env_.timeline.After(Delay(), [this, id, resets, carried, carry, answer,
                                alive = std::weak_ptr<const bool>(connection)] {
    if (alive.expired()) return;
    HostDriver* const host = Endpoint();
    if (host == nullptr) return Fail(id, "connection refused");
    open_.at(id).host = host;
    if (carried) {
      host->WhenAwake([host, alive, carry, answer] { carry(*host, alive, answer); });
    }
    if (resets) Fail(id, "EOF");
  });
}

template <typename Result, typename Read>
void VerbWire::CallInBytes(Carry<std::string> serve, Read read, Done<Result> done) {
  Call<std::string>(std::move(serve),
                    [read, done](const std::expected<std::string, std::string>& answer) {
                      if (!answer) return done(std::unexpected(answer.error()));
                      done(read(*answer));
                    });
}

void VerbWire::Filter(const kube::Pod& pod, const std::vector<std::string>& offered,
                      Done<FilterReply> done) {
  ++filters_;
  if (in_bytes()) {
    return CallInBytes<FilterReply>(
        [this, body = VerbBytes::Offer(pod, offered)](HostDriver& host, const auto&,
                                                      const auto& answer) {
          bytes_.ServeFilter(host, body, answer);
        },
        [this, offered](const std::string& body) { return bytes_.ReadFilter(body, offered); },
        std::move(done));
  }
  Call<FilterReply>(
      [this, pod, offered](HostDriver& host, const auto&, const auto& answer) {
        answer(host.Filter(RefOf(pod), {offered.begin(), offered.end()}, [&pod] { return &pod; }));
      },
      std::move(done));
}

void VerbWire::Prioritize(const kube::Pod& pod, const std::vector<std::string>& offered,
                          Done<std::map<std::string, std::int64_t>> done) {
  if (in_bytes()) {
    return CallInBytes<VerbBytes::Scores>(
        [this, body = VerbBytes::Offer(pod, offered)](HostDriver& host, const auto&,
                                                      const auto& answer) {
          bytes_.ServePrioritize(host, body, answer);
        },
        [this](const std::string& body) { return bytes_.ReadPriorities(body); }, std::move(done));
  }
  Call<std::map<std::string, std::int64_t>>(
      [this, uid = pod.meta.uid, offered](HostDriver& host, const auto&, const auto& answer) {
        answer(host.Prioritize(uid, {offered.begin(), offered.end()}));
      },
      std::move(done));
}

void VerbWire::Bind(const engine::PodRef& pod, const std::string& node, Done<std::string> done) {
  if (in_bytes()) {
    return CallInBytes<std::string>(
        [this, body = VerbBytes::BindRequest(pod, node)](HostDriver& host, const auto& connection,
                                                         const auto& answer) {
          bytes_.ServeBind(host, body, connection, answer);
        },
        server::DecodeBindResult, std::move(done));
  }
  Call<std::string>([pod, node](HostDriver& host, const auto& connection,
                                const auto& answer) { host.Bind(pod, node, connection, answer); },
                    std::move(done));
}

void VerbWire::Preempt(const kube::Pod& pod, const engine::VictimMap& candidates,
                       Done<engine::VictimMap> done) {
  if (in_bytes()) {
    return CallInBytes<engine::VictimMap>(
        [this, body = VerbBytes::PreemptRequest(pod, candidates)](HostDriver& host, const auto&,
                                                                  const auto& answer) {
          bytes_.ServePreempt(host, body, answer);
        },
        [this](const std::string& body) { return bytes_.ReadVictims(body); }, std::move(done));
  }
  Call<engine::VictimMap>(
      [this, uid = pod.meta.uid, candidates](HostDriver& host, const auto&, const auto& answer) {
        host.Preempt(uid, candidates, answer);
      },
      std::move(done));
}

}  // namespace berth::sim
