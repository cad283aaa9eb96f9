#include "sim/trace/player.h"

#include "cluster/plan_claim.h"
#include "cluster/resources.h"
#include "sim/world/pods.h"

namespace berth::sim {
namespace {

constexpr Duration kGrace = 1'000;    ///< From a bound pod's deletion to its end.
constexpr Duration kCleanUp = 1'000;  ///< From a pod's end until it is gone.
/// Between the ends of two pods of one job, of which each has a kubelet of its own. If all ended in
/// the same millisecond, who gets their room would depend on whether watches take time.
constexpr Duration kBetweenPods = 100;

Duration Later(std::size_t index) { return kBetweenPods * static_cast<Duration>(index); }

std::string KeyOf(const kube::Pod& pod) { return pod.meta.ns + '/' + pod.meta.name; }

}  // namespace

Player::Player(Environment& env, const std::vector<RecordedJob>& jobs, Options options)
    : env_(env),
      jobs_(jobs),
      options_(options),
      outcomes_(jobs.size()),
      states_(jobs.size()),
      last_change_(env.now()) {
  env_.api.Subscribe(Kind::kPod, life_.alive(),
                     [this] { OnPod(env_.api.at(Kind::kPod, env_.api.end(Kind::kPod) - 1)); });
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    env_.timeline.After(jobs_[i].arrival, life_.Guard([this, i] { Arrive(i); }));
  }
}

void Player::Note(std::size_t job, JobEvent::Kind kind) {
  events_.push_back({.at = env_.now(), .job = job, .kind = kind});
}

void Player::Arrive(std::size_t job) {
  Note(job, JobEvent::Kind::kArrived);
  ++arrived_;
  last_change_ = env_.now();
  queue_.push_back(job);
  if (!options_.one_at_a_time || queue_.size() == 1) CreateNext();
}

/// Creates the job at the head of the queue. With `one_at_a_time` it stays there, so that later
/// ones wait for it.
void Player::CreateNext() {
  const std::size_t job = queue_.front();
  if (!options_.one_at_a_time) queue_.pop_front();
  for (std::size_t pod = 0; pod < jobs_[job].pods.size(); ++pod) Create(job, pod);
}

void Player::Create(std::size_t job, std::size_t pod) {
  kube::Pod object = jobs_[job].pods[pod];
  object.scheduler_name = options_.scheduler_name;
  if (options_.gated) object.scheduling_gates.emplace_back(cluster::kAdmissionGate);
  owners_[KeyOf(object)] = {job, pod};
  env_.api.CreatePod(std::move(object));
}

void Player::OnPod(const Change& change) {
  const kube::Pod& pod = *change.pod;
  const auto owner = owners_.find(KeyOf(pod));
  if (owner == owners_.end()) return;
  const auto [job, index] = owner->second;
  if (change.deleted) {
    bound_.erase(change.key);
    if (outcomes_[job].end >= 0) {
      owners_.erase(owner);
    } else {
      // Its controller creates a new one.
      env_.timeline.After(kGrace, life_.Guard([this, job = job, index = index] {
        if (outcomes_[job].end < 0) Create(job, index);
      }));
    }
    return;
  }
  if (pod.node_name.empty() || !Lives(pod)) return;
  auto [known, fresh] = bound_.emplace(change.key, true);
  if (fresh) {
    last_change_ = env_.now();
    if (++states_[job].bound == jobs_[job].pods.size()) Start(job);
  }
  if (pod.meta.deletion && known->second) {
    known->second = false;
    OnLost(job, index, RefOf(pod));
  }
}

/// A pod was evicted: the work done so far is lost, and the job restarts when it is complete again.
void Player::OnLost(std::size_t job, std::size_t index, const engine::PodRef& pod) {
  ++evictions_;
  env_.timeline.After(kGrace + Later(index), life_.Guard([this, pod] { env_.api.RemovePod(pod); }));
  if (outcomes_[job].end >= 0) return;  // it was about to end
  State& state = states_[job];
  if (state.bound == jobs_[job].pods.size()) {
    Note(job, JobEvent::Kind::kStopped);
    --running_;
    lost_ += static_cast<double>(jobs_[job].gpus() * cluster::kMilli) *
             static_cast<double>(env_.now() - outcomes_[job].start);
  }
  --state.bound;
  ++state.turn;
}

void Player::Start(std::size_t job) {
  Note(job, JobEvent::Kind::kStarted);
  ++running_;
  Outcome& outcome = outcomes_[job];
  outcome.start = env_.now();
  if (outcome.first_start < 0) outcome.first_start = outcome.start;
  const std::uint64_t turn = ++states_[job].turn;
  env_.timeline.After(jobs_[job].service, life_.Guard([this, job, turn] {
    if (states_[job].turn == turn) End(job);
  }));
  if (!options_.one_at_a_time || queue_.empty() || queue_.front() != job) return;
  queue_.pop_front();
  if (!queue_.empty()) env_.timeline.After(0, life_.Guard([this] { CreateNext(); }));
}

void Player::End(std::size_t job) {
  Note(job, JobEvent::Kind::kEnded);
  --running_;
  ++ended_;
  outcomes_[job].end = env_.now();
  last_change_ = env_.now();
  for (std::size_t i = 0; i < jobs_[job].pods.size(); ++i) {
    const kube::ObjectMeta& meta = jobs_[job].pods[i].meta;
    const engine::PodRef ref{.ns = meta.ns, .name = meta.name, .uid = {}};
    env_.timeline.After(Later(i), life_.Guard([this, ref] {
      env_.api.Patch(ref, [](kube::Pod& pod) {
        pod.phase = kube::PodPhase::kSucceeded;
        return true;
      });
    }));
    env_.timeline.After(Later(i) + kCleanUp, life_.Guard([this, ref] { env_.api.RemovePod(ref); }));
  }
}

}  // namespace berth::sim
