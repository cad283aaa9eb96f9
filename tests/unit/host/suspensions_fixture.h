// Jobs that are suspended in place of evictions: two pods of one Job, and what the API server
// answers.
#pragma once

#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "host/suspensions.h"
#include "tests/support/builders.h"
#include "tests/unit/host/order_text.h"

namespace berth::host {

inline constexpr const char* kLabel = "berth.dev/suspended";

/// A Job or JobSet that is changed, and whether it is suspended then.
struct Row {
  const char* why;
  std::function<void(kube::Job&)> change;
  bool suspended;
};

/// The Job `j` with the pods `a` and `b`, which end for the gang `g`.
struct SuspensionsTest {
  SuspensionsTest() {
    for (const char* name : {"a", "b"})
      store.UpsertPod(testing::MakePod(name).Gpu(1).OfJob("j").On("n1"));
  }
  static engine::EvictPod EvictionOf(const std::string& pod) {
    return {.pod = {.ns = "default", .name = pod, .uid = "uid-" + pod},
            .workload = "default/gang/g",
            .id = "p1",
            .job = engine::OwningJob{.name = "j", .uid = "uid-j", .pods = 2}};
  }
  void Begin() { suspensions.Begin({EvictionOf("a"), EvictionOf("b")}); }
  static kube::Job MakeJob() {
    kube::Job job;
    job.meta.name = "j";
    job.meta.ns = "default";
    job.meta.uid = "uid-j";
    job.meta.resource_version = "7";
    job.most_pods = 2;
    return job;
  }
  static void SetController(kube::Job& job, const char* kind) {
    job.controller.emplace();
    job.controller->kind = kind;
  }
  static kube::Job Ours() {
    kube::Job job = MakeJob();
    job.suspended = true;
    job.meta.labels[kLabel] = "true";
    return job;
  }
  /// The orders since the last call. Finish is about the first that has not ended.
  Texts Orders() {
    const auto orders = out.Take();
    for (const Order& order : orders) under_way.push_back(IdOf(order));
    return TextsOf(orders);
  }
  Suspensions::Ended Finish(const Result& result) {
    REQUIRE_FALSE(under_way.empty());
    const Id id = under_way.front();
    under_way.erase(under_way.begin());
    return suspensions.Finished(id, result, store, now);
  }
  Suspensions::Ended Finish(kube::WriteOutcome outcome, std::vector<kube::Job> jobs = {}) {
    return Finish({.outcome = outcome, .jobs = {.jobs = std::move(jobs), .next = {}}});
  }
  Suspensions::Ended Forbid() {
    return Finish({.outcome = kube::WriteOutcome::kRefused, .forbidden = true});
  }
  /// Both pods are marked, and the Job is about to be suspended.
  void Mark() {
    Begin();
    Orders();
    Finish(kube::WriteOutcome::kDone, {MakeJob()});
    Orders();
    Finish(kube::WriteOutcome::kDone);
    Finish(kube::WriteOutcome::kDone);
  }
  /// It is suspended, and its pods run still.
  void Suspend() {
    Mark();
    Orders();
    CHECK(Finish(kube::WriteOutcome::kDone).accepted.size() == 2);
    CHECK(Orders().empty());
  }
  void Gone(const std::string& pod) {
    store.DeletePod("uid-" + pod);
    suspensions.Observe(store, now);
  }
  void Pass(Duration time) {
    now += time;
    suspensions.Advance(store, now);
  }

  TimePoint now = 1'000'000;
  cluster::Store store{testing::MakePolicy()};
  Outbox out;
  Suspensions suspensions{out};
  std::vector<Id> under_way;
};

}  // namespace berth::host
