// Store, continued: what users have of a queue, in devices and in jobs. Kept for the queues that
// share by user or namespace, or cap a user's jobs.
#include <utility>

#include "cluster/store.h"
#include "cluster/users.h"

namespace berth::cluster {

/// What the pod holds is charged to `user` from now on.
void Store::ChargeUser(PodInfo& pod, std::string user) {
  if (pod.user == user) return;
  const bool holds = pod.charge != Charge::kNone;
  if (holds) ChargeQueue(pod, -1);
  pod.user = std::move(user);
  if (holds) ChargeQueue(pod, 1);
}

/// Before the pod is charged as `next`. When it comes to run, its Binding says which user is
/// charged, as it says for which queue.
void Store::FixUser(PodInfo& pod, Charge next) {
  const bool comes_to_run =
      next == Charge::kBound && pod.charge != Charge::kNone && pod.charge != Charge::kBound;
  if (!pod.user.empty() && !comes_to_run) return;
  if (pod.bound()) return ChargeUser(pod, UserOfBound(pod.object));
  const bool member = pod.workload != nullptr && pod.workload->gang;
  ChargeUser(pod, member ? pod.workload->user : UserOf(pod.object));
}

/// What is taken off is what was added, although the policy may have changed in between.
void Store::CountShare(PodInfo& pod, int sign) {
  QueueInfo& info = queues_[static_cast<std::size_t>(pod.charged_queue)];
  if (sign > 0) pod.shared_within = info.config.fair_within;
  const std::string sharer(SharerOf(pod.shared_within, pod.user, pod.object.meta.ns));
  if (sign < 0) pod.shared_within = config::FairWithin::kNone;
  if (sharer.empty()) return;
  Share& share = info.shares[sharer];
  for (const auto& [id, amount] : pod.queue_charge) share.used.Add(id, sign * amount);
  if ((share.pods += sign) == 0) info.shares.erase(sharer);
  if (share_news_.all) return;
  if (share_news_.changed.size() < kMaxShareNews) {
    share_news_.changed.emplace(pod.charged_queue, sharer);
  } else {
    share_news_ = {.all = true};
  }
}

/// As CountShare. Only pods that ask for devices count: a launcher that runs ahead of its gang is
/// no job that was started.
void Store::CountJob(PodInfo& pod, int sign) {
  QueueInfo& info = queues_[static_cast<std::size_t>(pod.charged_queue)];
  if (sign > 0) {
    pod.job_counted = info.config.max_jobs_per_user > 0 && pod.shape->asks_device;
    if (!pod.job_counted) return;
    pod.job = JobOf(pod);
    ++info.jobs[pod.user][pod.job];
  } else if (std::exchange(pod.job_counted, false)) {
    auto& jobs = info.jobs.at(pod.user);
    if (--jobs.at(pod.job) == 0) jobs.erase(pod.job);
    if (jobs.empty()) info.jobs.erase(pod.user);
  }
  // Maybe not that of the pod, which may have changed its gang since.
  NoteDemand(FindWorkload(pod.job));
}

}  // namespace berth::cluster
