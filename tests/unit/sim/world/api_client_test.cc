// Orders come to the same as values and as bytes, and end as they do in the service.
#include "sim/world/api_client.h"

#include <vector>

#include "tests/support/builders.h"
#include "tests/support/catch.h"

namespace berth::sim {
namespace {

using testing::MakePod;

struct ClientTest {
  explicit ClientTest(Fidelity fidelity, std::function<Duration()> left = {})
      : env(1, 1'000'000, 50, fidelity), client(env, freezer, std::move(left)) {
    pod = RefOf(*env.api.CreatePod(MakePod("p").Gated().Build()).pod);
    bound = RefOf(*env.api.CreatePod(MakePod("b").Build()).pod);
    env.api.Bind(bound, "n1", {});
    kube::Job job;
    job.meta.name = "j";
    job.meta.ns = "default";
    job.meta.uid = "uid-j";
    job.meta.labels[std::string(kube::kJobSetLabel)] = "s";
    env.api.PutJob(kube::JobKind::kJob, job);
    env.api.SetMissing("default", gone, true);
  }
  host::Result CarryOut(const host::ApiOrder& order, bool wanted = true) {
    std::optional<host::Result> result;
    client.CarryOut(
        order, [wanted] { return wanted; }, [&](const host::Result& r) { result = r; });
    while (!result) env.timeline.Step();
    CHECK(env.garbled == "");
    return *result;
  }
  kube::JobRef Job() const {
    const kube::ObjectMeta& meta = env.api.jobs(kube::JobKind::kJob).at("default/j").meta;
    return {.ns = meta.ns,
            .name = meta.name,
            .uid = meta.uid,
            .resource_version = meta.resource_version};
  }

  Environment env;
  Freezer freezer{env.timeline};
  ApiClient client;
  engine::PodRef pod;
  engine::PodRef bound;
  const kube::NeededObject gone{.kind = kube::NeededKind::kVolumeClaim, .name = "gone"};
};

struct Row {
  host::ApiOrder order;
  WriteOutcome outcome;
};

/// Orders that follow upon each other.
std::vector<Row> RowsOf(const ClientTest& t) {
  using enum WriteOutcome;
  engine::PodRef other = t.pod;
  other.uid = "another";
  engine::PodRef bad = t.pod;
  bad.name = "..";
  const kube::JobRef job = t.Job();
  return {{host::Nominate{.pod = t.pod, .node = "n1", .annotation = "v1"}, kDone},
          {host::Nominate{.pod = other, .node = "n2"}, kConflict},
          {host::RemoveGate{.pod = t.pod}, kDone},
          {host::RemoveGate{.pod = bad}, kRefused},
          {host::MarkVictim{.pod = t.pod, .mark = "x", .sets_condition = true}, kDone},
          {host::MarkVictim{.pod = t.bound, .mark = "x"}, kDone},
          {host::FindObject{.ns = "default", .object = t.gone}, kNotFound},
          {host::FindObject{.ns = "default", .object = {.name = "data"}}, kDone},
          {host::FindObject{.ns = "default", .object = {.name = ".."}}, kNotFound},
          {host::ReadJobs{.ns = "default", .name = "j"}, kDone},
          {host::ReadJobs{.ns = "default", .of_set = "s"}, kDone},
          {host::ReadJobs{.ns = "default", .of_set = "a/b"}, kRefused},
          {host::SuspendJob{.job = job}, kDone},
          {host::SuspendJob{.job = job}, kConflict},  // it has changed since it was read
          {host::ReadJobs{}, kDone},
          {host::PostBinding{.pod = t.pod, .node = "n1", .annotations = {{"berth.dev/plan", "v2"}}},
           kDone},
          {host::PostBinding{.pod = t.bound, .node = "n1"}, kDone},  // it is there already
          {host::PostBinding{.pod = t.bound, .node = "n2"}, kConflict},
          {host::Evict{.pod = t.bound, .dry_run = true}, kDone},
          {host::Evict{.pod = t.bound, .by_delete = true}, kDone}};
}

TEST_CASE("every order comes to the same as a value and in bytes", "[unit][sim]") {
  for (const Fidelity fidelity : {Fidelity::kScheduler, Fidelity::kWire}) {
    ClientTest t(fidelity);
    int row = 0;
    for (const auto& [order, outcome] : RowsOf(t)) {
      INFO(Name(fidelity) << ", row " << row++);
      CHECK(t.CarryOut(order).outcome == outcome);
    }
    const kube::Pod read = *t.CarryOut(host::ReadPod{.pod = t.pod}).pod;
    CHECK(read.node_name == "n1");
    CHECK(read.scheduling_gates.empty());
    CHECK(read.meta.annotations ==
          kube::StringMap{{"berth.dev/evicted-for", "x"}, {"berth.dev/plan", "v2"}});
    CHECK(t.CarryOut(host::ReadJobs{.ns = "default", .of_set = "s"}).jobs.jobs.at(0).suspended);
    CHECK(t.env.api.FindPod(t.bound.uid)->meta.deletion);
  }
}

TEST_CASE("writes are made while they are wanted, reads in any case", "[unit][sim]") {
  ClientTest t(Fidelity::kScheduler);
  CHECK(t.CarryOut(host::RemoveGate{.pod = t.pod}, /*wanted=*/false).outcome ==
        WriteOutcome::kRefused);
  CHECK_FALSE(t.env.api.FindPod(t.pod.uid)->scheduling_gates.empty());
  CHECK(t.CarryOut(host::ReadPod{.pod = t.pod}, /*wanted=*/false).outcome == WriteOutcome::kDone);
}

}  // namespace
}  // namespace berth::sim
