#include "server/leadership.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <random>

#include "server/host.h"

namespace berth::server {
namespace {

using kube::Duration;
using std::chrono::seconds;

constexpr Duration kLongestPause{1'000};
constexpr Duration kPatchTimeout{2'000};
constexpr Duration kTendingPause{1'000};
/// How long a write that is under way is waited for before the Lease is given away.
constexpr Duration kWritePatience{3'000};
constexpr Duration kReleasePatience{6'000};

/// So many refusals of the label, a second apart, outlast what an earlier leader may have under
/// way.
std::int64_t Refusals(const kube::ElectionOptions& election) {
  return (election.lease_duration - election.renew_deadline) / kLongestPause + 1;
}

double Random() {
  thread_local std::mt19937_64 generator(std::random_device{}());
  return std::uniform_real_distribution<double>(0.0, 1.0)(generator);
}

}  // namespace

Leadership::Leadership(LeadershipOptions options, kube::RestClient& client, Tenure& tenure,
                       Logger& logger, Duties duties)
    : options_(std::move(options)),
      client_(client),
      tenure_(tenure),
      logger_(logger),
      duties_(std::move(duties)),
      election_(options_.election),
      label_(options_.pod_ns, options_.pod_name) {
  tenure_.Close();
}

Leadership::~Leadership() {
  serve_.request_stop();
  campaign_.request_stop();
  const Lock lock(mutex_);
  call_.request_stop();
}

void Leadership::Start() {
  const Lock lock(mutex_);
  if (over_) return;
  serve_ = std::jthread([this](const std::stop_token& stop) { Serve(stop); });
  campaign_ = std::jthread([this](const std::stop_token& stop) { Campaign(stop); });
}

bool Leadership::Pause(Lock& lock, const std::stop_token& stop, Duration most) {
  most = std::clamp(most, Duration(0), kLongestPause);
  changed_.wait_for(lock, stop, most,
                    [woken = false]() mutable { return std::exchange(woken, true); });
  return !stop.stop_requested();
}

// --- The Lease -----------------------------------------------------------------------------------

void Leadership::Campaign(const std::stop_token& stop) {
  Lock lock(mutex_);
  while (!stop.stop_requested()) {
    const kube::TimePoint now = BootClock();
    Settle();
    // A new term begins only when the last one's duties are laid down.
    const bool may_ask = (term_ || !office_ || election_.releasing()) && Fit();
    if (may_ask) {
      if (const auto request = election_.Next(now, SystemClock(), Random())) {
        Ask(lock, *request);
        continue;
      }
    }
    const auto due = may_ask ? election_.due() : kube::TimePoint::max();
    Pause(lock, stop,
          due == kube::TimePoint::max() ? kLongestPause : std::chrono::ceil<Duration>(due - now));
  }
}

/// What is released is released whatever state we are in.
bool Leadership::Fit() {
  const bool fit = election_.releasing() || !duties_.fit || duties_.fit();
  if (std::exchange(fit_, fit) != fit) {
    logger_.Log(fit ? Severity::kInfo : Severity::kError,
                fit ? "fit to lead again" : "not fit to lead: the Lease is not renewed",
                {{"identity", options_.election.identity}, {"leading", leading_}});
  }
  return fit;
}

void Leadership::Ask(Lock& lock, const kube::LeaseRequest& request) {
  const kube::Request call = LeaseCall(request, options_.lease_ns, options_.lease_name);
  const std::stop_token cut = call_.get_token();
  lock.unlock();
  auto answer = LeaseAnswerOf(request, client_.Do(call, cut));
  lock.lock();
  election_.Answer(std::move(answer), BootClock());
  Settle();
  Report();
}

/// Makes the tenure what the election says. One that has lapsed is not taken up again: a new term
/// begins, once the office is free. Once it is laid down for good, what is under way ends by
/// itself.
void Leadership::Settle() {
  if (over_) {
    if (election_.released()) changed_.notify_all();
    return;
  }
  const bool leads = election_.Leads(BootClock());
  if (term_ && (!leads || !tenure_.Extend(election_.leading_until()))) {
    term_ = false;
    tenure_.End();
    changed_.notify_all();
  }
  if (!term_ && leads && !office_) {
    term_ = true;
    tenure_.Begin(election_.leading_until());
    changed_.notify_all();
  }
}

void Leadership::Report() {
  const auto& lease = election_.observed();
  const std::string holder = lease ? lease->record.holder : std::string();
  if (std::exchange(reported_holder_, holder) != holder) {
    logger_.Log(Severity::kInfo, "leader changed",
                {{"holder", holder},
                 {"self", holder == options_.election.identity},
                 {"transitions", lease ? lease->record.transitions : 0}});
  }
  if (std::exchange(reported_error_, election_.error()) != election_.error() &&
      !election_.error().empty()) {
    logger_.Log(
        Severity::kWarning, "the Lease could not be read or written",
        {{"lease", options_.lease_ns + "/" + options_.lease_name}, {"error", election_.error()}});
  }
}

// --- The office ----------------------------------------------------------------------------------

void Leadership::Serve(const std::stop_token& stop) {
  Lock lock(mutex_);
  while (!stop.stop_requested()) {
    if (!office_ && term_ && tenure_.Holds()) {
      office_ = true;
      if (TakeOffice(lock, stop)) continue;
    }
    if (office_ && !tenure_.Holds() && !stop.stop_requested()) {
      leading_ = false;
      tenure_.End();  // What is under way is cut off.
      logger_.Log(Severity::kWarning,
                  "not the leader any more: standing binds fail, plans are dropped",
                  {{"identity", options_.election.identity}});
      lock.unlock();
      duties_.follow();
      lock.lock();
      office_ = false;
      changed_.notify_all();
    }
    TendLabel(lock);
    Pause(lock, stop, office_ ? std::min(tenure_.Left(), kLongestPause) : kLongestPause);
  }
}

/// From winning the Lease to deciding. False: the term ended meanwhile, or we were stopped.
bool Leadership::TakeOffice(Lock& lock, const std::stop_token& stop) {
  const kube::TimePoint begin = BootClock();
  ++offices_;
  TendLabel(lock);  // First off those who still have it: a leader that was frozen, say.
  if (label_.enabled() && !AnnounceOnPod(lock, stop)) return false;
  lock.unlock();
  bool idle = false;
  // As long as the term is renewed: who stopped waiting would keep the Lease and never decide.
  while (!idle && tenure_.Holds() && !stop.stop_requested()) idle = tenure_.Idle(kLongestPause);
  if (idle && tenure_.Holds() && !stop.stop_requested()) duties_.lead();
  lock.lock();
  if (!idle || !tenure_.Holds() || stop.stop_requested()) return false;
  leading_ = true;
  const auto took = std::chrono::duration_cast<Duration>(BootClock() - begin);
  logger_.Log(Severity::kInfo, "leading",
              {{"identity", options_.election.identity}, {"dur_ms", took.count()}});
  return true;
}

/// Puts the label on our pod, and waits until the informer shows that: it has then seen all that an
/// earlier leader wrote to pods.
bool Leadership::AnnounceOnPod(Lock& lock, const std::stop_token& stop) {
  const std::string word = fmt::format("{}.{}", options_.election.identity, offices_);
  const kube::Request patch = label_.TakeOver(word);
  bool sent = false;
  int refused = 0;
  while (!label_.Shows(word)) {
    if (!sent) {
      lock.unlock();
      const auto status = Send(patch);
      lock.lock();
      sent = status.has_value();
      if (status && *status >= 400) {
        sent = false;  // An API server that has just started refuses what it will allow.
        if (++refused < Refusals(options_.election)) {
          if (!tenure_.Holds() || !Pause(lock, stop, kLongestPause)) return false;
          continue;
        }
        // A wrong name, or no right to it: no reason to leave the cluster without a leader. What
        // the last one sent has arrived and come back by now, as far as time can say.
        logger_.Log(Severity::kError, "the leader's label could not be put on our pod",
                    {{"pod", options_.pod_ns + "/" + options_.pod_name}, {"status", *status}});
        return true;
      }
    }
    if (label_.Shows(word)) break;
    logger_.V(1, "waiting for the informer to show what earlier leaders wrote",
              {{"pod", options_.pod_ns + "/" + options_.pod_name}});
    if (!tenure_.Holds() || !Pause(lock, stop, kLongestPause)) return false;
  }
  return true;
}

void Leadership::TendLabel(Lock& lock) {
  const kube::TimePoint now = BootClock();
  if (!label_.enabled() || now < next_tending_) return;
  for (const LeaderLabel::Patch& patch : label_.Wrong(office_)) {
    next_tending_ = now + kTendingPause;  // Before that the informer may not show what we did.
    lock.unlock();
    const auto status = Send(LeaderLabel::Call(patch));
    logger_.Log(Severity::kInfo, patch.set ? "leader's label put on" : "leader's label taken off",
                {{"pod", patch.pod.ns + "/" + patch.pod.name},
                 {"status", status.value_or(0)},
                 {"error", status ? std::string() : status.error()}});
    lock.lock();
  }
}

/// The HTTP status of an answer that settles it; an error where it is worth another try.
std::expected<int, std::string> Leadership::Send(const kube::Request& patch) {
  kube::Request request = patch;
  request.timeout = kPatchTimeout;
  const auto response = client_.Do(request, {});
  if (!response) return std::unexpected(response.error().message);
  if (response->status == 409 || response->status == 429 || response->status >= 500) {
    return std::unexpected("HTTP " + std::to_string(response->status));
  }
  return response->status;
}

void Leadership::See(const kube::Pod& pod) {
  if (pod.meta.ns != options_.pod_ns) return;
  const Lock lock(mutex_);
  if (label_.See(pod)) election_.Poke(BootClock());
  changed_.notify_all();
}

void Leadership::SeeDeleted(const std::string& uid) {
  const Lock lock(mutex_);
  if (!label_.SeeDeleted(uid)) return;
  election_.Poke(BootClock());
  changed_.notify_all();
}

// --- An orderly end ------------------------------------------------------------------------------

void Leadership::LeaveOffice() {
  {
    const Lock lock(mutex_);
    over_ =
        true;  // First: from here on nobody else opens the tenure, or cuts off what is under way.
  }
  tenure_.Close();
  serve_.request_stop();
  if (serve_.joinable()) serve_.join();
}

void Leadership::Release() {
  if (!tenure_.Idle(kWritePatience)) {
    tenure_.End();
    logger_.Log(Severity::kWarning, "a write is still under way: the Lease is left to expire");
  } else if (campaign_.joinable()) {
    Lock lock(mutex_);
    const auto& lease = election_.observed();
    const bool ours = lease && lease->record.holder == options_.election.identity;
    call_.request_stop();  // A renewal has no point any more.
    call_ = std::stop_source();
    election_.Release(BootClock());
    changed_.notify_all();
    changed_.wait_for(lock, kReleasePatience, [this] { return election_.released(); });
    if (ours) {
      logger_.Log(Severity::kInfo, "Lease released",
                  {{"identity", options_.election.identity}, {"done", election_.released()}});
    }
  }
  campaign_.request_stop();
  {
    const Lock lock(mutex_);
    call_.request_stop();
  }
  if (campaign_.joinable()) campaign_.join();
  Lock lock(mutex_);
  for (const LeaderLabel::Patch& patch : label_.Wrong(/*leading=*/false)) {
    lock.unlock();
    if (const auto status = Send(LeaderLabel::Call(patch)); !status) {
      logger_.Log(Severity::kWarning, "leader's label left on: the next leader takes it off",
                  {{"pod", patch.pod.ns + "/" + patch.pod.name}, {"error", status.error()}});
    }
    lock.lock();
  }
}

std::string Leadership::StatusJson() const {
  const Lock lock(mutex_);
  const auto& lease = election_.observed();
  return nlohmann::json{{"lease", options_.lease_ns + "/" + options_.lease_name},
                        {"identity", options_.election.identity},
                        {"leading", leading_ && tenure_.Holds()},
                        {"holder", lease ? lease->record.holder : std::string()},
                        {"transitions", lease ? lease->record.transitions : 0},
                        {"leftMs", std::max<std::int64_t>(0, tenure_.Left().count())},
                        {"error", election_.error()}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace berth::server
