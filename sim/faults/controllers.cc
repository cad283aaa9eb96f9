#include "sim/faults/controllers.h"

#include <algorithm>

#include "kube/selector.h"

namespace berth::sim {
namespace {

std::string NameOf(const kube::Pod& pod) { return pod.meta.ns + '/' + pod.meta.name; }

}  // namespace

Controllers::Controllers(Environment& env, const std::vector<Job>& jobs,
                         const std::vector<Budget>& budgets)
    : env_(env), budgets_(budgets) {
  for (const Budget& budget : budgets_) env_.api.PutBudget(MakeBudget(budget));
  env_.api.Subscribe(Kind::kPod, life_.alive(),
                     [this] { OnPod(env_.api.at(Kind::kPod, env_.api.end(Kind::kPod) - 1)); });
  env_.api.Subscribe(Kind::kNode, life_.alive(),
                     [this] { OnNode(env_.api.at(Kind::kNode, env_.api.end(Kind::kNode) - 1)); });
  if (std::ranges::find(jobs, kOtherScheduler, &Job::scheduler) != jobs.end()) {
    other_ = std::make_unique<OtherScheduler>(env_);
  }
  for (const Job& job : jobs) {
    for (auto& [kind, object] : MakeJobs(job)) {
      by_uid_.emplace(object.meta.uid, &job);
      env_.api.PutJob(kind, std::move(object));
    }
  }
  env_.api.on_job = [this](const kube::Job& object) { OnJob(object); };
  for (const Job& job : jobs) {
    for (int i = 0; i < job.size; ++i) {
      Later(job.at - env_.now() + i * job.stagger, [this, &job, i] { Create(job, i); });
    }
  }
}

void Controllers::Later(Duration delay, std::function<void()> action) {
  ++due_;
  env_.timeline.After(delay, [this, action = std::move(action)] {
    --due_;
    action();
  });
}

bool Controllers::IsSuspended(const Job& job) const {
  const auto& objects = env_.api.jobs(job.is_set ? kube::JobKind::kJobSet : kube::JobKind::kJob);
  const auto object = objects.find(job.ns + '/' + job.name);
  return object != objects.end() && object->second.suspended;
}

/// The controller sees it after a while, as it is then: deletes the pods of what is suspended,
/// and creates those that are missing of what is not.
void Controllers::OnJob(const kube::Job& object) {
  const auto found = by_uid_.find(object.meta.uid);
  if (found == by_uid_.end()) return;
  const Job* job = found->second;
  Later(env_.ties.Between(5, 3'000), [this, job] {
    const bool suspended = IsSuspended(*job);
    for (int i = 0; i < job->size; ++i) {
      const std::string name = NameOf(MakeMember(*job, i));
      const auto pod = env_.api.pods().find(name);
      if (!suspended) {
        if (pod == env_.api.pods().end() && members_.contains(name) && !finished_.contains(name)) {
          Create(*job, i);
        }
      } else if (pod != env_.api.pods().end() && !finished_.contains(name)) {
        env_.api.DeletePod(RefOf(*pod->second));
      }
    }
  });
}

void Controllers::Create(const Job& job, int index) {
  kube::Pod pod = MakeMember(job, index);
  members_[NameOf(pod)] = {&job, index};
  if (IsSuspended(job)) return;  // it is created when the Job is resumed
  env_.api.CreatePod(std::move(pod));
}

void Controllers::OnPod(const Change& change) {
  const kube::Pod& pod = *change.pod;
  const auto member = members_.find(NameOf(pod));
  if (member == members_.end()) return;
  const auto [job, index] = member->second;
  const engine::PodRef ref = RefOf(pod);
  if (!job->app.empty()) {
    Later(env_.ties.Between(1, 100), [this, app = job->app] { CountDisruptions(app); });
  }
  if (change.deleted) {
    if (job->replaces && !finished_.contains(NameOf(pod))) {
      Later(env_.ties.Between(200, 3'000),
            [this, job = job, index = index] { Create(*job, index); });
    }
    return;
  }
  const bool ended =
      pod.phase == kube::PodPhase::kSucceeded || pod.phase == kube::PodPhase::kFailed;
  if (ended) {
    const bool succeeded = pod.phase == kube::PodPhase::kSucceeded;
    const bool news = succeeded && finished_.insert(NameOf(pod)).second;
    if (succeeded && job->gang && job->replaces) {
      // The pods of a Job that have succeeded stay until it is complete.
      if (!news) return;
      if (++done_[job] == job->size) RemoveMembers(*job);
      HasSucceeded(kube::JobKind::kJob, job->ns + '/' + JobNameOf(*job, index));
      if (job->is_set) HasSucceeded(kube::JobKind::kJobSet, job->ns + '/' + job->name);
      return;
    }
    if (seen_ending_.insert(pod.meta.uid).second) {
      Later(env_.ties.Between(500, 5'000), [this, ref] { env_.api.RemovePod(ref); });
    }
    return;
  }
  if (pod.meta.deletion && seen_ending_.insert(pod.meta.uid).second) {
    const Duration takes =
        job->ends_in > 0 && !pod.node_name.empty() ? job->ends_in : env_.ties.Between(50, 4'000);
    Later(takes, [this, ref] { env_.api.RemovePod(ref); });
  }
  if (!pod.node_name.empty() && seen_bound_.insert(pod.meta.uid).second) {
    Later(env_.ties.Between(20, 500), [this, ref, lasts = job->lasts] { Run(ref, lasts); });
  }
}

/// One of its pods has.
void Controllers::HasSucceeded(kube::JobKind kind, const std::string& key) {
  kube::Job object = env_.api.jobs(kind).at(key);
  --object.most_pods;
  object.finished = object.most_pods == 0;
  env_.api.PutJob(kind, std::move(object));
}

void Controllers::RemoveMembers(const Job& job) {
  for (const auto& [key, pod] : env_.api.pods()) {
    const auto member = members_.find(NameOf(*pod));
    if (member == members_.end() || member->second.first != &job) continue;
    Later(env_.ties.Between(500, 5'000), [this, ref = RefOf(*pod)] { env_.api.RemovePod(ref); });
  }
}

/// The kubelet rejects a pod if its node has too few devices: two schedulers may each have counted
/// on the same ones.
bool Controllers::Crowded(const kube::Pod& pod) const {
  if (other_ == nullptr) return false;
  std::int64_t used = AmountOf(pod.spec->requests, kGpu);
  if (used == 0) return false;
  for (const auto& [key, mate] : env_.api.pods()) {
    if (mate->node_name != pod.node_name || mate->phase != kube::PodPhase::kRunning) continue;
    used += AmountOf(mate->spec->requests, kGpu);
  }
  return used > AmountOf(env_.api.nodes().at(pod.node_name)->allocatable, kGpu);
}

void Controllers::Run(const engine::PodRef& ref, Duration lasts) {
  const kube::Pod* pod = env_.api.FindPod(ref.uid);
  if (pod == nullptr || pod->meta.deletion) return;
  if (env_.faults.Has(FaultKind::kKubeletReject) && env_.ties.Percent(40)) {
    env_.faults.TookEffect(FaultKind::kKubeletReject);
    return SetPhase(ref, kube::PodPhase::kFailed, "UnexpectedAdmissionError");
  }
  if (!env_.api.nodes().contains(pod->node_name)) {
    // Try again later: the node may come back, or the garbage collector deletes the pod.
    return Later(3'000, [this, ref, lasts] { Run(ref, lasts); });
  }
  if (Crowded(*pod)) return SetPhase(ref, kube::PodPhase::kFailed, "OutOfnvidia.com/gpu");
  SetPhase(ref, kube::PodPhase::kRunning, "");
  Later(lasts, [this, ref] { SetPhase(ref, kube::PodPhase::kSucceeded, ""); });
}

/// The disruption controller: permits as many evictions as there are healthy pods beyond
/// `minAvailable`.
void Controllers::CountDisruptions(const std::string& app) {
  for (const Budget& budget : budgets_) {
    if (budget.app != app) continue;
    kube::PodDisruptionBudget fresh = MakeBudget(budget);
    const auto healthy = std::ranges::count_if(env_.api.pods(), [&](const auto& entry) {
      const kube::Pod& pod = *entry.second;
      return kube::Matches(fresh.selector, pod.meta.labels) &&
             pod.phase == kube::PodPhase::kRunning && !pod.meta.deletion;
    });
    fresh.disruptions_allowed =
        static_cast<std::int32_t>(std::max<std::int64_t>(0, healthy - budget.min_available));
    const auto& known = env_.api.budgets().at(fresh.meta.uid);
    if (known->disruptions_allowed != fresh.disruptions_allowed) env_.api.PutBudget(fresh);
  }
}

void Controllers::SetPhase(const engine::PodRef& ref, kube::PodPhase phase,
                           const std::string& reason) {
  env_.api.Patch(ref, [&](kube::Pod& pod) {
    pod.phase = phase;
    pod.status_reason = reason;
    return true;
  });
}

/// Pods of a deleted node are deleted after a while.
void Controllers::OnNode(const Change& change) {
  if (!change.deleted) return;
  Later(env_.ties.Between(2'000, 15'000), [this, node = change.key] {
    if (env_.api.nodes().contains(node)) return;
    std::vector<engine::PodRef> lost;
    for (const auto& [key, pod] : env_.api.pods()) {
      if (pod->node_name == node) lost.push_back(RefOf(*pod));
    }
    for (const engine::PodRef& ref : lost) env_.api.RemovePod(ref);
  });
}

}  // namespace berth::sim
