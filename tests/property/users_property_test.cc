// What users have of a queue is kept as pods come, are planned, run, end and change, and as the
// policy changes. It must be what a count of all pods finds, and what a new process would find.
#include <rapidcheck.h>

#include <map>
#include <string>
#include <vector>

#include "cluster/store.h"
#include "tests/support/builders.h"
#include "tests/support/catch.h"
#include "tests/support/draw.h"

namespace berth::cluster {
namespace {

using config::FairWithin;
using testing::In;
using testing::MakeNode;
using testing::MakePod;
using testing::MakePolicy;
using testing::MakeQueue;

config::PolicyConfiguration SomePolicy() {
  auto policy = MakePolicy({MakeQueue("q0", {"*"}), MakeQueue("q1", {"*"})});
  for (config::Queue& queue : policy.queues) {
    queue.fair_within = static_cast<FairWithin>(In(0, 2));
    queue.max_jobs_per_user = In(0, 2);
  }
  return policy;
}

class Walk {
 public:
  Walk() : store_(SomePolicy()) { store_.UpsertNode(node_); }

  void Step() {
    const std::string name = "p" + std::to_string(In(0, 9));
    const PodInfo* pod = store_.FindPod("uid-" + name);
    switch (In(0, 7)) {
      case 0:
        store_.SetPolicy(SomePolicy());
        break;
      case 1:
        store_.DeletePod("uid-" + name);
        break;
      case 2:
        if (pod != nullptr && !pod->bound()) store_.Unreserve(*pod);
        break;
      case 3:
        Change(pod, [](kube::Pod& p) { p.node_name = "n"; });
        break;
      case 4:
        Change(pod, [](kube::Pod& p) {
          if (!p.node_name.empty()) p.meta.deletion = 2'000;
        });
        break;
      case 5:  // a label edit
        Change(pod, [](kube::Pod& p) {
          if (p.node_name.empty()) p.meta.labels["berth.dev/user"] = In(0, 1) == 0 ? "a" : "b";
        });
        break;
      case 6:
        Plan(pod);
        break;
      default:
        if (pod == nullptr) store_.UpsertPod(SomePod(name));
    }
    store_.Refresh();
  }

  std::string Kept() const {
    std::string text;
    for (const QueueId id : store_.queues()) {
      const QueueInfo& queue = store_.queue(id);
      text += queue.config.name;
      for (const auto& [name, share] : queue.shares) text += Line(name, share);
      for (const auto& [user, jobs] : queue.jobs) {
        for (const auto& [job, pods] : jobs) text += Line(user, job, pods);
      }
    }
    return text;
  }

  std::string Counted() const {
    std::string text;
    for (const QueueId id : store_.queues()) {
      const config::Queue& queue = store_.queue(id).config;
      std::map<std::string, Share> shares;
      std::map<std::pair<std::string, std::string>, int> jobs;
      for (const auto& [uid, pod] : store_.pods()) {
        if (pod.charge == Charge::kNone || pod.charged_queue != id) continue;
        Share& share =
            shares[queue.fair_within == FairWithin::kUser ? pod.user : pod.object.meta.ns];
        ++share.pods;
        for (const auto& [rid, amount] : pod.queue_charge) share.used.Add(rid, amount);
        if (pod.shape->asks_device) ++jobs[{pod.user, JobBy(pod.object)}];
      }
      if (queue.fair_within == FairWithin::kNone) shares.clear();
      if (queue.max_jobs_per_user == 0) jobs.clear();
      text += queue.name;
      for (const auto& [name, share] : shares) text += Line(name, share);
      for (const auto& [job, pods] : jobs) text += Line(job.first, job.second, pods);
    }
    return text;
  }

  std::string Ledger() const { return store_.LedgerString(); }
  /// That of a process that sees the objects, and knows what is planned.
  std::string Rebuilt() const {
    Store fresh(store_.policy());
    fresh.UpsertNode(node_);
    for (const auto& [uid, pod] : store_.pods()) fresh.UpsertPod(pod.object);
    fresh.Refresh();
    for (const auto& [uid, pod] : store_.pods()) {
      if (pod.bound() || pod.charge == Charge::kNone) continue;
      const PodInfo& mine = *fresh.FindPod(uid);
      fresh.SetTerms(mine, pod.fixed, mine.queue, mine.non_preemptible, pod.user);
      fresh.SetCharge(mine, fresh.FindNode("n"), pod.charge);
    }
    return fresh.LedgerString();
  }

 private:
  static std::string Line(const std::string& name, const Share& share) {
    return " " + name + "=" + std::to_string(share.pods) + "/" + std::to_string(share.used[kCpu]) +
           "/" + std::to_string(share.used[kUnknownResource + 1]);
  }
  static std::string Line(const std::string& user, const std::string& job, int pods) {
    return " " + user + ":" + job + "=" + std::to_string(pods);
  }
  static std::string JobBy(const kube::Pod& pod) {
    const auto gang = pod.meta.labels.find("berth.dev/gang");
    return pod.meta.ns +
           (gang == pod.meta.labels.end() ? "/pod/" + pod.meta.name : "/gang/" + gang->second);
  }

  kube::Pod SomePod(const std::string& name) {
    auto pod = MakePod(name).Created(++created_).Cpu("1");
    if (In(0, 3) > 0) pod.Gpu(In(1, 4));
    if (In(0, 2) > 0) pod.Label("berth.dev/user", In(0, 1) == 0 ? "a" : "b");
    const int gang = In(0, 3);
    if (gang > 1) return pod.Queue("q0");
    return pod.Queue("q" + std::to_string(gang)).Gang("g" + std::to_string(gang), 3);
  }
  void Plan(const PodInfo* pod) {
    const bool may = pod != nullptr && pod->workload != nullptr && !pod->bound() &&
                     pod->charge == Charge::kNone && pod->refusal.reason == ReasonId::kNone;
    if (may) store_.SetCharge(*pod, store_.FindNode("n"), Charge::kPlanned);
  }
  template <typename F>
  void Change(const PodInfo* pod, const F& change) {
    if (pod == nullptr) return;
    kube::Pod object = pod->object;
    change(object);
    store_.UpsertPod(object);
  }

  kube::Node node_ = MakeNode("n").Gpu(64);
  Store store_;
  kube::Millis created_ = 0;
};

TEST_CASE("what users have is kept as a count of all pods would find it", "[property][cluster]") {
  CHECK(rc::check([] {
    Walk walk;
    for (int step = In(1, 60); step > 0; --step) {
      walk.Step();
      RC_ASSERT(walk.Kept() == walk.Counted());
    }
    RC_ASSERT(walk.Ledger() == walk.Rebuilt());
  }));
}

}  // namespace
}  // namespace berth::cluster
