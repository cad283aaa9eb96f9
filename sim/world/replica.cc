#include "sim/world/replica.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace berth::sim {
namespace {

constexpr const char* kNamespace = "berth-system";
constexpr Duration kPatch = 20;      ///< The longest that the label's patch takes to reach the API
                                     ///< server.
constexpr Duration kLookAgain = 20;  ///< Interval of checks while earlier watch events are on their
                                     ///< way.

}  // namespace

Replica::Replica(Environment& env, std::string identity, LeaseObject& lease,
                 std::function<void()> announced)
    : env_(env),
      lease_(lease),
      announced_(std::move(announced)),
      leadership_({.lease_ns = kNamespace,
                   .election = {.identity = identity},
                   .pod_ns = kNamespace,
                   .pod_name = identity}),
      host_(env, std::move(identity), [this] { return Left(); }),
      life_(&host_.freezer()) {
  pod_.meta.ns = kNamespace;
  pod_.meta.name = pod_.meta.uid = host_.instance();
  host_.on_synced = [this] { Advance(); };
  host_.on_forgotten = [this] {
    leadership_.Followed(local());
    Advance();
  };
}

/// The process's own steady clock: only differences are meaningful.
kube::TimePoint Replica::local() const {
  return kube::TimePoint(std::chrono::milliseconds(host_.now()));
}

Duration Replica::Left() const {
  return std::chrono::floor<std::chrono::milliseconds>(term_ - local()).count();
}

/// Runs what both threads of server/drivers/leadership.cc do.
void Replica::Advance() {
  const double random = static_cast<double>(env_.network.Between(0, 999)) / 1'000;
  leadership_.Advance(local(), host_.now(), random);
  Carry();
  if (leadership_.due() == kube::TimePoint::max()) return;
  const auto wait =
      std::chrono::ceil<std::chrono::milliseconds>(leadership_.due() - local()).count();
  const Duration takes = host_.clock().Takes(std::max<Duration>(wait, 1));
  env_.timeline.After(takes, life_.Guard([this, turn = ++turn_] {
    if (turn == turn_) Advance();
  }));
}

void Replica::Carry() {
  for (auto orders = leadership_.TakeOrders(); !orders.empty(); orders = leadership_.TakeOrders()) {
    for (const host::LeadershipOrder& order : orders) {
      std::visit([this](const auto& o) { Do(o); }, order);
    }
  }
}

void Replica::Do(const host::AskLease& order) {
  const kube::LeaseRequest& request = order.request;
  const bool blocked = leadership_.on_duty() && env_.faults.Has(FaultKind::kLeaseBlocked);
  const bool slow = env_.faults.Has(FaultKind::kApiSlow);
  if (blocked) env_.faults.TookEffect(FaultKind::kLeaseBlocked);
  const Duration there = env_.network.Between(1, slow ? 4'000 : 5);
  const Duration back = env_.network.Between(1, slow ? 4'000 : 5);
  const Duration timeout = std::max<Duration>(1, request.timeout.count());
  const bool answered = !blocked && there + back < timeout;
  const auto hear = [this](const kube::LeaseAnswer& answer) {
    leadership_.Answered(answer, local());
    Advance();
  };
  if (!answered) {
    env_.timeline.After(timeout, life_.Guard([hear] { hear({.error = "timed out"}); }));
  }
  if (blocked && env_.network.Percent(50)) return;  // otherwise only the answer is lost
  env_.timeline.After(
      there, [&env = env_, &lease = lease_, request, back, answered, heard = life_.Guard(hear)] {
        const bool in_bytes = env.fidelity == Fidelity::kWire;
        const auto answer = in_bytes ? lease.ServeInBytes(request, env) : lease.Serve(request);
        if (answered) env.timeline.After(back, [heard, answer] { heard(answer); });
      });
}

void Replica::Do(const host::BeginTerm& order) {
  env_.log.Say("berth {}: won the Lease", host_.instance());
  term_ = order.until;
}

/// A term that has ended cannot be extended.
void Replica::Do(const host::ExtendTerm& order) {
  if (Left() <= 0) return leadership_.Lapsed(local());
  term_ = order.until;
}

void Replica::Do(const host::EndTerm&) {
  term_ = {};
  host_.CutOff();
}

/// Patches our own pod only. The watch delivers it after everything that was written before.
void Replica::Do(const host::PatchLabel& order) {
  const bool refused = env_.faults.Has(FaultKind::kApiError);
  const bool lost = env_.faults.Has(FaultKind::kApiAnswerLost);
  if (refused) env_.faults.TookEffect(FaultKind::kApiError);
  if (lost) env_.faults.TookEffect(FaultKind::kApiAnswerLost);
  env_.timeline.After(env_.network.Between(1, kPatch), life_.Guard([this, order, refused, lost] {
    if (!refused) Patch(nlohmann::json::parse(order.request.body)["metadata"]);
    std::expected<int, std::string> status = 200;
    if (refused || lost) status = std::unexpected("trouble");
    leadership_.Patched(status, local());
    Advance();
  }));
}

void Replica::Patch(const nlohmann::json& metadata) {
  for (const auto& [key, value] : metadata["labels"].items()) {
    if (value.is_null()) {
      pod_.meta.labels.erase(key);
    } else {
      pod_.meta.labels[key] = value;
    }
  }
  if (metadata.contains("annotations")) {
    for (const auto& [key, value] : metadata["annotations"].items()) {
      pod_.meta.annotations[key] = value;
    }
    announced_();
  }
  AwaitNews(env_.api.end(Kind::kPod), pod_);
}

void Replica::AwaitNews(std::size_t position, const kube::Pod& pod) {
  if (host_.stream(Kind::kPod).seen() >= position) {
    leadership_.See(pod, local());
    return Advance();
  }
  env_.timeline.After(kLookAgain, life_.Guard([this, position, pod] { AwaitNews(position, pod); }));
}

// --- An orderly end ------------------------------------------------------------------------------

void Replica::Leave(std::function<void()> gone) {
  env_.log.Say("berth {}: is told to end", host_.instance());
  gone_ = std::move(gone);
  leadership_.Leave();
  term_ = {};  // nothing more is sent
  host_.Stop();
  AwaitEndOfWrites(env_.now() + host::kWritePatience.count());
}

void Replica::AwaitEndOfWrites(TimePoint until) {
  if (host_.WritesEnded()) {
    if (host_.UnknownSince(leadership_.LatestEffect().count())) return TakeLabelsOff();
    leadership_.Release(local());
    Advance();
    return AwaitRelease(env_.now() + host::kReleasePatience.count());
  }
  if (env_.now() >= until) {
    host_.CutOff();
    return TakeLabelsOff();
  }
  env_.timeline.After(kLookAgain, life_.Guard([this, until] { AwaitEndOfWrites(until); }));
}

void Replica::AwaitRelease(TimePoint until) {
  if (leadership_.released() || env_.now() >= until) return TakeLabelsOff();
  env_.timeline.After(kLookAgain, life_.Guard([this, until] { AwaitRelease(until); }));
}

void Replica::TakeLabelsOff() {
  for (const host::PatchLabel& patch : leadership_.LabelsLeft()) Do(patch);
  env_.timeline.After(kPatch, life_.Guard([this] { gone_(); }));
}

/// The writes were cut off when that term ended.
void Replica::Do(const host::AwaitWrites&) { leadership_.WritesEnded(local()); }

void Replica::Do(const host::Lead&) {
  host_.Lead();
  leadership_.Led(local());
}

void Replica::Do(const host::Follow&) {
  env_.log.Say("berth {}: leads no more", host_.instance());
  if (host_.Resign()) leadership_.Followed(local());
}

}  // namespace berth::sim
