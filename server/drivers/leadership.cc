#include "server/drivers/leadership.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <variant>

#include "server/drivers/host_driver.h"

namespace berth::server {
namespace {

using kube::Duration;

constexpr Duration kLongestPause{1'000};
constexpr Duration kPatchTimeout{2'000};

}  // namespace

Leadership::Leadership(LeadershipOptions options, kube::RestClient& client, Tenure& tenure,
                       Logger& logger, Duties duties)
    : options_(std::move(options)),
      client_(client),
      tenure_(tenure),
      logger_(logger),
      duties_(std::move(duties)),
      leadership_(options_) {
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
  if (left_) return;
  serve_ = std::jthread([this](const std::stop_token& stop) { Serve(stop); });
  campaign_ = std::jthread([this](const std::stop_token& stop) { Campaign(stop); });
}

void Leadership::Pause(Lock& lock, const std::stop_token& stop, kube::TimePoint due) {
  const auto now = BootClock();
  const auto most =
      due > now + kLongestPause ? kLongestPause : std::chrono::ceil<Duration>(due - now);
  changed_.wait_for(lock, stop, std::max(most, Duration(0)),
                    [woken = false]() mutable { return std::exchange(woken, true); });
}

void Leadership::Sort() {
  bool any = false;
  for (auto orders = leadership_.TakeOrders(); !orders.empty(); orders = leadership_.TakeOrders()) {
    any = true;
    for (Order& order : orders) {
      if (auto* ask = std::get_if<host::AskLease>(&order)) {
        ask_ = std::move(ask->request);
      } else if (const auto* begin = std::get_if<host::BeginTerm>(&order)) {
        term_began_ = BootClock();
        tenure_.Begin(begin->until);
      } else if (const auto* extend = std::get_if<host::ExtendTerm>(&order)) {
        if (!tenure_.Extend(extend->until)) leadership_.Lapsed(BootClock());
      } else if (std::holds_alternative<host::EndTerm>(order)) {
        tenure_.End();  // What is under way is cut off.
      } else {
        orders_.push_back(std::move(order));
      }
    }
  }
  if (any) changed_.notify_all();
}

// --- The Lease's thread --------------------------------------------------------------------------

void Leadership::Campaign(const std::stop_token& stop) {
  Lock lock(mutex_);
  while (!stop.stop_requested()) {
    leadership_.SetFit(Fit());
    leadership_.Advance(BootClock(), SystemClock(), kube::RealRandom());
    Sort();
    if (const auto request = std::exchange(ask_, std::nullopt)) {
      Ask(lock, *request);
    } else {
      Pause(lock, stop, leadership_.due());
    }
  }
}

bool Leadership::Fit() {
  const bool fit = !duties_.fit || duties_.fit();
  if (std::exchange(fit_, fit) != fit) {
    logger_.Log(fit ? Severity::kInfo : Severity::kError,
                fit ? "healthy enough to lead again"
                    : "not healthy enough to lead: this replica does not renew the Lease",
                {{"identity", options_.election.identity}, {"leading", leadership_.leading()}});
  }
  return fit;
}

void Leadership::Ask(Lock& lock, const kube::LeaseRequest& request) {
  const kube::Request call = LeaseCall(request, options_.lease_ns, options_.lease_name);
  const std::stop_token cut = call_.get_token();
  lock.unlock();
  auto answer = LeaseAnswerOf(request, client_.Do(call, cut));
  lock.lock();
  leadership_.Answered(std::move(answer), BootClock());
  Sort();
  Report();
  if (leadership_.released()) changed_.notify_all();
}

void Leadership::Report() {
  const kube::LeaderElection& election = leadership_.election();
  const auto& lease = election.observed();
  const std::string holder = lease ? lease->record.holder : std::string();
  if (std::exchange(reported_holder_, holder) != holder) {
    logger_.Log(Severity::kInfo, "leader changed",
                {{"holder", holder},
                 {"self", holder == options_.election.identity},
                 {"transitions", lease ? lease->record.transitions : 0}});
  }
  if (std::exchange(reported_error_, election.error()) != election.error() &&
      !election.error().empty()) {
    logger_.Log(
        Severity::kWarning, "the Lease could not be read or written",
        {{"lease", options_.lease_ns + "/" + options_.lease_name}, {"error", election.error()}});
  }
}

// --- The other thread ----------------------------------------------------------------------------

void Leadership::Serve(const std::stop_token& stop) {
  Lock lock(mutex_);
  while (!stop.stop_requested()) {
    leadership_.Settle(BootClock());  // The Lease's thread may be in a call.
    Sort();
    if (orders_.empty()) {
      Pause(lock, stop, leadership_.settle_due());
      continue;
    }
    const Order order = std::move(orders_.front());
    orders_.pop_front();
    Obey(lock, order);
  }
}

void Leadership::Obey(Lock& lock, const Order& order) {
  if (const auto* patch = std::get_if<host::PatchLabel>(&order)) {
    Patch(lock, *patch);
  } else if (std::holds_alternative<host::AwaitWrites>(order)) {
    if (!leadership_.awaits_writes()) return;  // The term has ended meanwhile.
    lock.unlock();
    const bool ended = tenure_.Idle(kLongestPause);
    lock.lock();
    if (ended) {
      leadership_.WritesEnded(BootClock());
    } else {
      orders_.push_back(order);
    }
  } else if (std::holds_alternative<host::Lead>(order)) {
    lock.unlock();
    duties_.lead();
    lock.lock();
    const auto now = BootClock();
    leadership_.Led(now);
    if (!leadership_.leading()) return Sort();  // The term has ended meanwhile.
    const auto took = std::chrono::duration_cast<Duration>(now - term_began_);
    logger_.Log(Severity::kInfo, "leading",
                {{"identity", options_.election.identity}, {"dur_ms", took.count()}});
  } else if (std::holds_alternative<host::Follow>(order)) {
    logger_.Log(Severity::kWarning,
                "not the leader any more: parked bind calls fail, plans are dropped",
                {{"identity", options_.election.identity}});
    lock.unlock();
    duties_.follow();
    lock.lock();
    leadership_.Followed(BootClock());
  }
  Sort();
}

void Leadership::Patch(Lock& lock, const host::PatchLabel& order) {
  lock.unlock();
  const auto status = Send(order.request);
  logger_.Log(Severity::kInfo,
              order.set ? "leader label added to the pod" : "leader label removed from the pod",
              {{"pod", order.pod.ns + "/" + order.pod.name},
               {"status", status.value_or(0)},
               {"error", status ? std::string() : status.error()}});
  lock.lock();
  const bool had_error = !leadership_.label_error().empty();
  leadership_.Patched(status, BootClock());
  if (had_error || leadership_.label_error().empty()) return;
  logger_.Log(Severity::kError, "the leader label could not be added to this replica's pod",
              {{"pod", order.pod.ns + "/" + order.pod.name}, {"error", leadership_.label_error()}});
}

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
  leadership_.See(pod, BootClock());
  Sort();
  changed_.notify_all();  // The Lease may be free.
}

void Leadership::SeeDeleted(const std::string& uid) {
  const Lock lock(mutex_);
  if (!leadership_.SeeDeleted(uid, BootClock())) return;
  Sort();
  changed_.notify_all();
}

// --- Orderly shutdown
// -----------------------------------------------------------------------------

void Leadership::Leave() {
  {
    const Lock lock(mutex_);
    left_ = true;  // First, since from here on nothing opens the tenure, or cuts off what is under
                   // way.
    leadership_.Leave();
  }
  tenure_.Close();
  serve_.request_stop();
  if (serve_.joinable()) serve_.join();
}

void Leadership::ReleaseLease() {
  if (!tenure_.Idle(host::kWritePatience)) {
    tenure_.End();
    logger_.Log(Severity::kWarning, "a write is still under way: the Lease is left to expire");
  } else if (tenure_.UnknownSince(leadership_.LatestEffect())) {
    logger_.Log(Severity::kWarning, "a write has got no answer: the Lease is left to expire");
  } else if (campaign_.joinable()) {
    Lock lock(mutex_);
    const auto& lease = leadership_.election().observed();
    const bool ours = lease && lease->record.holder == options_.election.identity;
    call_.request_stop();  // A renewal has no point any more.
    call_ = std::stop_source();
    leadership_.Release(BootClock());
    changed_.notify_all();
    changed_.wait_for(lock, host::kReleasePatience, [this] { return leadership_.released(); });
    if (ours) {
      logger_.Log(Severity::kInfo, "Lease released",
                  {{"identity", options_.election.identity}, {"done", leadership_.released()}});
    }
  }
  campaign_.request_stop();
  {
    const Lock lock(mutex_);
    call_.request_stop();
  }
  if (campaign_.joinable()) campaign_.join();
  Lock lock(mutex_);
  for (const host::PatchLabel& patch : leadership_.LabelsLeft()) {
    lock.unlock();
    if (const auto status = Send(patch.request); !status) {
      logger_.Log(Severity::kWarning,
                  "leader label not removed from the pod: the next leader removes it",
                  {{"pod", patch.pod.ns + "/" + patch.pod.name}, {"error", status.error()}});
    }
    lock.lock();
  }
}

std::string Leadership::StatusJson() const {
  const Lock lock(mutex_);
  const kube::LeaderElection& election = leadership_.election();
  const auto& lease = election.observed();
  return nlohmann::json{{"lease", options_.lease_ns + "/" + options_.lease_name},
                        {"identity", options_.election.identity},
                        {"leading", leadership_.leading() && tenure_.Holds()},
                        {"holder", lease ? lease->record.holder : std::string()},
                        {"transitions", lease ? lease->record.transitions : 0},
                        {"leftMs", std::max<std::int64_t>(0, tenure_.Left().count())},
                        {"error", election.error()}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace berth::server
