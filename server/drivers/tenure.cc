#include "server/drivers/tenure.h"

#include <algorithm>
#include <utility>

namespace berth::server {

kube::Duration Tenure::Left() const {
  const kube::TimePoint until{kube::TimePoint::duration(until_.load())};
  if (until == kube::TimePoint::max()) return kube::Duration::max();
  return std::max(kube::Duration(0), std::chrono::floor<kube::Duration>(until - clock_()));
}

Tenure::Permit::Permit(Permit&& other) noexcept
    : timeout(other.timeout),
      stop(std::move(other.stop)),
      tenure_(std::exchange(other.tenure_, nullptr)) {}

Tenure::Permit::~Permit() {
  if (tenure_ == nullptr) return;
  const std::scoped_lock lock(tenure_->mutex_);
  if (--tenure_->permits_ == 0) tenure_->idle_.notify_all();
}

std::optional<Tenure::Permit> Tenure::Enter(kube::Duration most) {
  const std::scoped_lock lock(mutex_);
  const kube::Duration left = Left();
  if (left.count() <= 0) return std::nullopt;
  ++permits_;
  return Permit(*this, std::min(most, left), stop_.get_token());
}

void Tenure::NoteUnknown() {
  const std::scoped_lock lock(mutex_);
  unknown_at_ = clock_();
}

bool Tenure::UnknownSince(kube::Duration ago) const {
  const std::scoped_lock lock(mutex_);
  return unknown_at_ && clock_() < *unknown_at_ + ago;
}

void Tenure::Begin(kube::TimePoint until) {
  const std::scoped_lock lock(mutex_);
  stop_ = std::stop_source();
  until_ = until.time_since_epoch().count();
}

bool Tenure::Extend(kube::TimePoint until) {
  const std::scoped_lock lock(mutex_);
  if (!Holds()) return false;
  until_ = until.time_since_epoch().count();
  return true;
}

void Tenure::Close() {
  const std::scoped_lock lock(mutex_);
  until_ = 0;
}

void Tenure::End() {
  std::stop_source stop;
  {
    const std::scoped_lock lock(mutex_);
    until_ = 0;
    stop = stop_;
  }
  stop.request_stop();
}

bool Tenure::Idle(kube::Duration patience) {
  std::unique_lock lock(mutex_);
  return idle_.wait_for(lock, patience, [this] { return permits_ == 0; });
}

}  // namespace berth::server
