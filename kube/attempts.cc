#include "kube/attempts.h"

#include <algorithm>

namespace berth::kube {

std::optional<Duration> Attempts::Next(TimePoint now) {
  const auto left = std::chrono::floor<Duration>(deadline_ - now);
  if (left.count() <= 0 || made_ == kMaxAttempts) return std::nullopt;
  ++made_;
  return std::min(left, kAttemptTimeout);
}

std::optional<Duration> Attempts::Pause(TimePoint now, double random, Duration retry_after) {
  const Duration wait = std::max(wait_.Next(random), retry_after);
  if (now + wait >= deadline_) return std::nullopt;
  return wait;
}

std::optional<WriteOutcome> Attempts::Answered(int status, std::string_view message) {
  if (status >= 200 && status < 300) return WriteOutcome::kDone;
  if (status == 404) return WriteOutcome::kNotFound;
  if (status == 409) return WriteOutcome::kConflict;
  if (status == 429 || status >= 500) {
    // 429 is an answer before any work was done; a 5xx may come after it.
    maybe_done_ |= status != 429;
    return std::nullopt;
  }
  if (patches_ && IsOtherUid(status, message)) return WriteOutcome::kConflict;
  // Refused now, but an earlier attempt may have succeeded.
  return GivenUp();
}

WriteOutcome Attempts::GivenUp() const {
  return maybe_done_ && !is_read_ ? WriteOutcome::kUnknown : WriteOutcome::kRefused;
}

}  // namespace berth::kube
