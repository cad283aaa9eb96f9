#include "host/leadership.h"

#include <fmt/format.h>

#include <algorithm>

namespace berth::host {
namespace {

/// Pause between two attempts to put the label on our pod, and between two checks of all labels:
/// the informer may need this long to show our last write.
constexpr kube::Duration kLabelPause{1'000};

}  // namespace

Leadership::Leadership(LeadershipOptions options)
    : options_(std::move(options)),
      election_(options_.election),
      label_(options_.pod_ns, options_.pod_name) {}

kube::Duration Leadership::LatestEffect() const {
  return options_.election.lease_duration - options_.election.renew_deadline;
}

/// After this many refusals of the label, writes that an earlier leader had under way have ended.
std::int64_t Leadership::MostRefusals() const { return LatestEffect() / kLabelPause + 1; }

// --- The Lease -----------------------------------------------------------------------------------

void Leadership::Advance(kube::TimePoint now, kube::Millis wall, double random) {
  Settle(now);
  if (!MayAsk()) return;
  if (auto request = election_.Next(now, wall, random)) {
    orders_.emplace_back(AskLease{.request = std::move(*request)});
  }
}

/// A new term begins only after the duties of the last one have ended. A release is sent in any
/// state.
bool Leadership::MayAsk() const {
  if (election_.releasing()) return true;
  return fit_ && (term_ || stage_ == Stage::kFollows);
}

void Leadership::Answered(kube::LeaseAnswer answer, kube::TimePoint now) {
  election_.Answer(std::move(answer), now);
  Settle(now);
}

/// Updates the term from the election. A lapsed term is not resumed: a new term begins once we
/// follow.
void Leadership::Settle(kube::TimePoint now) {
  if (left_) return;
  const kube::TimePoint until = election_.leading_until();
  const bool lapsed = term_ && now >= *term_;
  if (term_ && (lapsed || !election_.Leads(now))) {
    EndIt();
  } else if (term_ && until != *term_) {
    term_ = until;
    orders_.emplace_back(ExtendTerm{until});
  }
  if (!term_ && election_.Leads(now) && stage_ == Stage::kFollows) {
    term_ = until;
    orders_.emplace_back(BeginTerm{until});
  }
  Proceed(now);
}

void Leadership::Lapsed(kube::TimePoint now) {
  if (term_) EndIt();
  Settle(now);
}

void Leadership::EndIt() {
  term_.reset();
  orders_.emplace_back(EndTerm{});
}

kube::TimePoint Leadership::due() const {
  return MayAsk() ? std::min(election_.due(), settle_due()) : settle_due();
}

kube::TimePoint Leadership::settle_due() const {
  kube::TimePoint due = kube::TimePoint::max();
  if (left_) return due;
  if (term_) due = *term_;
  if (stage_ == Stage::kAnnounces && !announced_ && !patching_) due = std::min(due, announce_at_);
  if (label_.enabled() && !patching_ && !label_.Wrong(on_duty()).empty())
    due = std::min(due, tend_at_);
  return due;
}

// --- From winning the Lease to deciding, and back ------------------------------------------------

/// Takes all steps that are possible now.
void Leadership::Proceed(kube::TimePoint now) {
  if (stage_ == Stage::kFollows && term_) {
    stage_ = Stage::kAnnounces;
    ++takeovers_;
    announced_ = false;
    announcing_ = false;  // A patch that is still under way is of the term before.
    refused_ = 0;
    announce_at_ = now;
    label_error_.clear();
  }
  const bool waits = stage_ == Stage::kAnnounces || stage_ == Stage::kAwaitsWrites;
  if (!term_ && (waits || stage_ == Stage::kLeading)) {
    stage_ = Stage::kEnds;
    orders_.emplace_back(Follow{});
  }
  TendLabels(now);
  if (stage_ == Stage::kAnnounces) Announce(now);
}

std::string Leadership::Token() const {
  return fmt::format("{}.{}", options_.election.identity, takeovers_);
}

/// A wrong pod name, or missing rights to set the label, must not leave the cluster without a
/// leader: after this many refusals, what the last leader sent has arrived and our watch has shown
/// it, as far as time can tell.
void Leadership::Announce(kube::TimePoint now) {
  const bool refused = refused_ >= MostRefusals();
  if (!label_.enabled() || refused || label_.Shows(Token())) {
    stage_ = Stage::kAwaitsWrites;
    orders_.emplace_back(AwaitWrites{});
    return;
  }
  if (announced_ || patching_ || now < announce_at_) return;
  announce_at_ = now + kLabelPause;
  announcing_ = true;
  patches_.push_back({.pod = {.ns = options_.pod_ns, .name = options_.pod_name, .uid = {}},
                      .set = true,
                      .request = label_.TakeOver(Token())});
  NextPatch();
}

void Leadership::WritesEnded(kube::TimePoint now) {
  Settle(now);
  if (stage_ != Stage::kAwaitsWrites) return;
  stage_ = Stage::kBegins;
  orders_.emplace_back(Lead{});
}

void Leadership::Led(kube::TimePoint now) {
  stage_ = Stage::kLeading;
  Settle(now);
}

void Leadership::Followed(kube::TimePoint now) {
  stage_ = Stage::kFollows;
  Settle(now);
}

// --- Labels --------------------------------------------------------------------------------------

/// Removes the label first from pods that must not have it, for example a leader that was frozen.
void Leadership::TendLabels(kube::TimePoint now) {
  if (left_ || !label_.enabled() || patching_ || now < tend_at_) return;
  for (PatchLabel& patch : PatchesFor(on_duty())) patches_.push_back(std::move(patch));
  if (patches_.empty()) return;
  tend_at_ = now + kLabelPause;
  NextPatch();
}

/// Orders the next patch, if there is one. REQUIRES: none is under way.
void Leadership::NextPatch() {
  if (patches_.empty()) return;
  patching_ = true;
  orders_.emplace_back(std::move(patches_.front()));
  patches_.pop_front();
}

void Leadership::Patched(std::expected<int, std::string> status, kube::TimePoint now) {
  patching_ = false;
  if (std::exchange(announcing_, false)) {
    announced_ = status && *status < 400;
    // An API server that has just started may refuse what it will allow later.
    if (status && !announced_ && ++refused_ >= MostRefusals()) {
      label_error_ = fmt::format("HTTP {}", *status);
    }
  }
  NextPatch();
  Settle(now);
}

void Leadership::See(const kube::Pod& pod, kube::TimePoint now) {
  if (pod.meta.ns != options_.pod_ns) return;
  if (label_.See(pod)) election_.Poke(now);
  Settle(now);
}

bool Leadership::SeeDeleted(std::string_view uid, kube::TimePoint now) {
  if (!label_.SeeDeleted(uid)) return false;
  election_.Poke(now);
  Settle(now);
  return true;
}

// --- An orderly end ------------------------------------------------------------------------------

void Leadership::Leave() {
  left_ = true;
  patches_.clear();
}

std::vector<PatchLabel> Leadership::PatchesFor(bool leading) const {
  std::vector<PatchLabel> patches;
  for (const LeaderLabel::Patch& patch : label_.Wrong(leading)) {
    patches.push_back({.pod = patch.pod, .set = patch.set, .request = LeaderLabel::Call(patch)});
  }
  return patches;
}

}  // namespace berth::host
