// Which Jobs and JobSets may be suspended in place of evictions of their pods.
#include <string>

#include "tests/support/catch.h"
#include "tests/unit/engine/evictions_world.h"

namespace berth::engine {
namespace {

using testing::GangWorld;
using testing::MakeBudget;
using testing::MakePod;

/// The pods of `low` have this controller.
void Control(EvictionsWorld& w, const char* api_version = "batch/v1", const char* kind = "Job") {
  for (const char* name : {"l0", "l1"}) {
    w.Change(name, [&](kube::Pod& pod) {
      pod.meta.labels["app"] = "low";
      pod.controller = {.api_version = api_version,
                        .kind = kind,
                        .name = "j",
                        .uid = "uid-j",
                        .controller = true};
    });
  }
}

const Lines kEvictions{"evict l0 for default/gang/g", "evict l1 for default/gang/g"};
const Lines kOrSuspend{"evict l0 for default/gang/g or suspend uid-j with 2",
                       "evict l1 for default/gang/g or suspend uid-j with 2"};

TEST_CASE("with an eviction goes the Job that could be suspended instead", "[unit][engine]") {
  EvictionsWorld w;
  Control(w);
  w.GatherHigh();
  CHECK(w.LogOf("try ") == Lines{"try l0 for default/gang/g", "try l1 for default/gang/g"});
  CHECK(w.LogOf("evict ") == kOrSuspend);
}

TEST_CASE("a Job is suspended with the pods that are left when one ends before", "[unit][engine]") {
  GangWorld w(3, {});
  for (int i = 0; i < 3; ++i) {
    w.Add(MakePod("l" + std::to_string(i))
              .Gpu(8)
              .Gang("low", 3)
              .OfJob("j")
              .On("n" + std::to_string(i)));
  }
  w.Tick();
  w.HoldEvictions();
  for (int i = 0; i < 3; ++i) w.Add(w.Member(i, 3, 3).Gated().Priority(10));
  w.Tick();
  w.Change("l2", [](kube::Pod& pod) { pod.phase = kube::PodPhase::kSucceeded; });
  w.Tick();
  w.CarryOutEvictions();  // the dry runs
  w.CarryOutEvictions();
  CHECK(w.LogOf("evict ") == Lines{"evict l0 for default/gang/g or suspend uid-j with 2",
                                   "evict l1 for default/gang/g or suspend uid-j with 2"});
}

TEST_CASE("with an eviction goes the JobSet of its Job", "[unit][engine]") {
  EvictionsWorld w;
  Control(w);
  for (const char* name : {"l0", "l1"}) {
    w.Change(name, [&](kube::Pod& pod) {
      pod.meta.labels["jobset.sigs.k8s.io/jobset-name"] = "s";
      pod.controller->uid = std::string("uid-of-job-of-") + name;
    });
  }
  w.GatherHigh();
  CHECK(w.LogOf("evict ") == Lines{"evict l0 for default/gang/g or suspend jobset/s with 2",
                                   "evict l1 for default/gang/g or suspend jobset/s with 2"});
}

TEST_CASE("other controllers are not suspended", "[unit][engine]") {
  EvictionsWorld w;
  SECTION("a job of another API group") { Control(w, "batch.volcano.sh/v1alpha1"); }
  SECTION("another kind") { Control(w, "batch/v1", "CronJob"); }
  w.GatherHigh();
  CHECK(w.LogOf("evict ") == kEvictions);
}

TEST_CASE("a Job whose pods a budget covers is suspended only where no budget counts",
          "[unit][engine]") {
  config::PolicyConfiguration policy;
  const bool by_delete = GENERATE(false, true);
  if (by_delete) policy.eviction.by = config::EvictBy::kDelete;
  EvictionsWorld w(2, policy);
  Control(w);
  w.engine().OnDisruptionBudget(MakeBudget("b", "app", "low", 2));
  w.GatherHigh();
  CHECK(w.LogOf("evict ") == (by_delete ? kOrSuspend : kEvictions));
}

TEST_CASE("a Job is not suspended for its surplus", "[unit][engine]") {
  GangWorld w(3);
  for (int i = 0; i < 3; ++i) {
    const std::string name = "e" + std::to_string(i);
    w.Add(MakePod(name).Gpu(8).Gang("low", 3).Min(2).OfJob("j").On("n" + std::to_string(i)));
  }
  w.Tick();
  w.Add(MakePod("high").Gpu(8).Gated().Priority(10));
  w.Tick();
  CHECK(w.LogOf("evict ") == Lines{"evict e2 for default/pod/high"});
}

}  // namespace
}  // namespace berth::engine
