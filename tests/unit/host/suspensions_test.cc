#include "host/suspensions.h"

#include "tests/unit/host/suspensions_fixture.h"

namespace berth::host {
namespace {

using kube::WriteOutcome;
using testing::MakePod;

TEST_CASE_METHOD(SuspensionsTest, "a Job whose pods are all evicted is suspended until they end",
                 "[unit]") {
  Begin();
  CHECK(Orders() == Texts{"read job j"});
  Finish(WriteOutcome::kDone, {MakeJob()});
  CHECK(Orders() ==
        Texts{"mark a default/gang/g with a condition", "mark b default/gang/g with a condition"});
  Finish(WriteOutcome::kDone);
  CHECK(Orders().empty());
  Finish(WriteOutcome::kDone);
  CHECK(Orders() == Texts{"suspend j at 7"});
  const auto ended = Finish(WriteOutcome::kDone);
  CHECK(ended.accepted.size() == 2);
  CHECK(ended.one_by_one.empty());
  CHECK_FALSE(suspensions.Takes(EvictionOf("a"), now));
  Gone("a");
  CHECK(Orders().empty());
  Gone("b");
  CHECK(Orders() == Texts{"read job j"});
  kube::Job later = Ours();
  later.meta.resource_version = "9";
  Finish(WriteOutcome::kDone, {later});
  CHECK(Orders() == Texts{"resume j at 9"});
  Finish(WriteOutcome::kDone);
  CHECK(suspensions.empty());
  CHECK(suspensions.Takes(EvictionOf("a"), now));
}

TEST_CASE_METHOD(SuspensionsTest, "pods of a Job that cannot be suspended are evicted one by one",
                 "[unit]") {
  const std::vector<Row> rows{
      {"as many pods as may run end", [](kube::Job&) {}, true},
      {"one more could run", [](kube::Job& job) { job.most_pods = 3; }, false},
      {"another Job has its name", [](kube::Job& job) { job.meta.uid = "other"; }, false},
      {"it is suspended already", [](kube::Job& job) { job.suspended = true; }, false},
      {"it is complete", [](kube::Job& job) { job.finished = true; }, false},
      {"it ends", [](kube::Job& job) { job.meta.deletion = 1; }, false},
      {"another controller runs it",
       [](kube::Job& job) { job.managed_by = "kueue.x-k8s.io/multikueue"; }, false},
      {"Kubernetes runs it",
       [](kube::Job& job) { job.managed_by = "kubernetes.io/job-controller"; }, true},
      {"Kueue would resume it",
       [](kube::Job& job) { job.meta.labels["kueue.x-k8s.io/queue-name"] = "q"; }, false},
      {"a JobSet would resume it",
       [](kube::Job& job) { SuspensionsTest::SetController(job, "JobSet"); }, false},
      {"a CronJob does not", [](kube::Job& job) { SuspensionsTest::SetController(job, "CronJob"); },
       true},
  };
  for (const Row& row : rows) {
    INFO(row.why);
    Begin();
    Orders();
    kube::Job job = MakeJob();
    row.change(job);
    const auto ended = Finish(WriteOutcome::kDone, {job});
    CHECK(ended.one_by_one.size() == (row.suspended ? 0U : 2U));
    CHECK(ended.accepted.empty());
    CHECK(Orders().size() == (row.suspended ? 2U : 0U));
    CHECK(suspensions.empty() != row.suspended);
    suspensions.Clear();
    under_way.clear();
  }
}

TEST_CASE_METHOD(SuspensionsTest, "a pod that has just succeeded is waited for to be counted",
                 "[unit][bug]") {
  // Pods a, b and c are one gang, of which c has succeeded. The status of the Job does not say so.
  for (const char* name : {"a", "b", "c"}) {
    store.DeletePod(std::string("uid-") + name);
    auto pod = MakePod(name).Gpu(1).OfJob("j").Gang("low", 3).Claim("p0", "n1", "default").On("n1");
    if (name == std::string("c")) {
      store.UpsertPod(pod);
      store.RefreshWorkloads();
      pod.Phase(kube::PodPhase::kSucceeded);
    }
    store.UpsertPod(pod);
  }
  store.RefreshWorkloads();
  Begin();
  Orders();
  kube::Job late = MakeJob();
  late.most_pods = 3;
  CHECK(Finish(WriteOutcome::kDone, {late}).one_by_one.empty());
  CHECK(Orders().empty());
  SECTION("until it is") {
    Pass(1'000);
    CHECK(Orders() == Texts{"read job j"});
    Finish(WriteOutcome::kDone, {MakeJob()});
    CHECK(Orders().size() == 2);  // both are marked
  }
  SECTION("not for ever") {
    for (int i = 0; i < 2; ++i) {
      Pass(1'000);
      CHECK(Orders() == Texts{"read job j"});
      CHECK(Finish(WriteOutcome::kDone, {late}).one_by_one.empty());
    }
    Pass(1'000);
    Orders();
    CHECK(Finish(WriteOutcome::kDone, {late}).one_by_one.size() == 2);
  }
}

TEST_CASE_METHOD(SuspensionsTest, "without the right to read Jobs none is suspended for a while",
                 "[unit]") {
  Begin();
  Orders();
  CHECK(Finish(WriteOutcome::kRefused).one_by_one.size() == 2);
  CHECK(suspensions.Takes(EvictionOf("a"), now));  // only the network failed
  Begin();
  Orders();
  CHECK(Forbid().one_by_one.size() == 2);
  CHECK_FALSE(suspensions.Takes(EvictionOf("a"), now + 299'999));
  CHECK(suspensions.Takes(EvictionOf("a"), now + 300'000));
}

TEST_CASE_METHOD(SuspensionsTest, "a Job that has changed since is read again, three times",
                 "[unit]") {
  Mark();
  for (int attempt = 1; attempt <= 3; ++attempt) {
    CHECK(Orders() == Texts{"suspend j at 7"});
    Finish(WriteOutcome::kConflict);
    CHECK(Orders() == Texts{"read job j"});
    if (attempt < 3) Finish(WriteOutcome::kDone, {MakeJob()});
  }
  CHECK(Finish(WriteOutcome::kDone, {MakeJob()}).one_by_one.size() == 2);
  CHECK(suspensions.empty());
}

TEST_CASE_METHOD(SuspensionsTest, "a conflict may be with a write of our own whose answer was lost",
                 "[unit][bug]") {
  Mark();
  Orders();
  Finish(WriteOutcome::kConflict);
  Orders();
  SECTION("the Job says so") { CHECK(Finish(WriteOutcome::kDone, {Ours()}).accepted.size() == 2); }
  SECTION("the Job says so, and is complete by now") {
    kube::Job job = Ours();
    job.finished = true;
    CHECK(Finish(WriteOutcome::kDone, {job}).accepted.size() == 2);
  }
  SECTION("nobody says so: the pods are evicted, and the Job is not lost sight of") {
    CHECK(Finish(WriteOutcome::kRefused).one_by_one.size() == 2);
  }
  Gone("a");
  Gone("b");
  CHECK(Orders() == Texts{"read job j"});
}

TEST_CASE_METHOD(SuspensionsTest,
                 "a Job whose pods have ended meanwhile is not suspended: it may have others",
                 "[unit][bug]") {
  Begin();
  Orders();
  Finish(WriteOutcome::kDone, {MakeJob()});
  Orders();
  store.DeletePod("uid-a");
  store.UpsertPod(MakePod("b").Gpu(1).OfJob("j").On("n1").Terminating());
  Finish(WriteOutcome::kNotFound);
  CHECK(Finish(WriteOutcome::kDone).accepted.size() == 2);
  CHECK(Orders().empty());
  CHECK(suspensions.empty());
}

TEST_CASE_METHOD(SuspensionsTest, "nor is it at the second try", "[unit][bug]") {
  Mark();
  Orders();
  const bool unsure = GENERATE(false, true);
  Finish(unsure ? WriteOutcome::kUnknown : WriteOutcome::kConflict);
  Orders();
  for (const char* name : {"a", "b"}) store.DeletePod(std::string("uid-") + name);
  CHECK(Finish(WriteOutcome::kDone, {MakeJob()}).accepted.size() == 2);
  CHECK(Orders() == (unsure ? Texts{"read job j"} : Texts{}));  // it may be suspended yet
  CHECK(suspensions.empty() != unsure);
}

TEST_CASE_METHOD(SuspensionsTest, "a pod that cannot be marked keeps its Job from being suspended",
                 "[unit]") {
  Begin();
  Orders();
  Finish(WriteOutcome::kDone, {MakeJob()});
  Orders();
  SECTION("it is gone already") {
    Finish(WriteOutcome::kNotFound);
    Finish(WriteOutcome::kDone);
    CHECK(Orders() == Texts{"suspend j at 7"});
  }
  SECTION("it is there") {
    CHECK(Finish(WriteOutcome::kRefused).one_by_one.empty());  // the other one is under way
    CHECK(Finish(WriteOutcome::kDone).one_by_one.size() == 2);
    CHECK(Orders().empty());
  }
}

TEST_CASE_METHOD(SuspensionsTest, "what may have been suspended is looked at before it is resumed",
                 "[unit]") {
  Mark();
  Orders();
  Finish(WriteOutcome::kUnknown);
  CHECK(Orders() == Texts{"read job j"});
  CHECK(Finish(WriteOutcome::kUnknown).one_by_one.size() == 2);
  Gone("a");
  Gone("b");
  CHECK(Orders() == Texts{"read job j"});
  SECTION("it was not, or somebody else has taken it over") {
    Finish(WriteOutcome::kDone, {MakeJob()});
    CHECK(Orders().empty());
    CHECK(suspensions.empty());
  }
  SECTION("it was deleted") {
    Finish(WriteOutcome::kNotFound);
    CHECK(Orders().empty());
    CHECK(suspensions.empty());
  }
  SECTION("it was") {
    Finish(WriteOutcome::kDone, {Ours()});
    CHECK(Orders() == Texts{"resume j at 7"});
  }
}

TEST_CASE_METHOD(SuspensionsTest, "what was not suspended is tried again, and kept in sight",
                 "[unit]") {
  Mark();
  for (int attempt = 1; attempt <= 3; ++attempt) {
    CHECK(Orders() == Texts{"suspend j at 7"});
    Finish(WriteOutcome::kUnknown);  // a webhook does not answer, say
    CHECK(Orders() == Texts{"read job j"});
    if (attempt < 3) Finish(WriteOutcome::kDone, {MakeJob()});
  }
  CHECK(Finish(WriteOutcome::kDone, {MakeJob()}).one_by_one.size() == 2);
  CHECK_FALSE(suspensions.empty());  // a late write may suspend it
  Gone("a");
  Gone("b");
  CHECK(Orders() == Texts{"read job j"});
  Finish(WriteOutcome::kDone, {Ours()});
  CHECK(Orders() == Texts{"resume j at 7"});
}

TEST_CASE_METHOD(SuspensionsTest, "a Job is resumed sooner or later", "[unit]") {
  Suspend();
  Gone("a");
  Gone("b");
  Orders();
  const auto outcome = GENERATE(WriteOutcome::kRefused, WriteOutcome::kUnknown);
  Finish(outcome);
  CHECK(Orders().empty());
  Pass(499);
  CHECK(Orders().empty());
  Pass(1);
  CHECK(Orders() == Texts{"read job j"});
  Finish(WriteOutcome::kDone, {Ours()});
  CHECK(Orders() == Texts{"resume j at 7"});
  Finish(WriteOutcome::kConflict);
  Pass(1'000);
  CHECK(Orders() == Texts{"read job j"});
  CHECK_FALSE(suspensions.empty());
}

TEST_CASE_METHOD(SuspensionsTest, "pods that do not end are not waited for", "[unit]") {
  const Duration stuck_after = store.policy().eviction.stuck_after.count();
  SECTION("their controller does nothing") {
    Suspend();
    Pass(stuck_after);
    CHECK(Orders().empty());
    Pass(1);
    CHECK(Orders() == Texts{"read job j"});
  }
  SECTION("their kubelet does not answer") {
    Suspend();
    for (const char* name : {"a", "b"}) {
      store.UpsertPod(MakePod(name).Gpu(1).OfJob("j").On("n1").Terminating(now + 5'000));
    }
    Pass(stuck_after + 5'000);
    CHECK(Orders().empty());
    Pass(1);
    CHECK(Orders() == Texts{"read job j"});
  }
}

TEST_CASE_METHOD(SuspensionsTest, "the next process resumes what an earlier one has suspended",
                 "[unit]") {
  suspensions.Start();
  CHECK(Orders() == Texts{"list jobs", "list jobsets"});
  under_way.pop_back();
  SECTION("once its pods have ended") {
    Finish(WriteOutcome::kDone, {Ours()});
    CHECK(Orders().empty());
    Gone("a");
    Gone("b");
    CHECK(Orders() == Texts{"read job j"});
  }
  SECTION("what took effect since is found, too") {
    Finish(WriteOutcome::kDone);
    Pass(29'999);
    CHECK(Orders().empty());
    Pass(1);
    CHECK(Orders() == Texts{"list jobs"});
    Finish(WriteOutcome::kDone, {Ours()});
    Gone("a");
    Gone("b");
    CHECK(Orders() == Texts{"read job j"});
    Finish(WriteOutcome::kNotFound);
    Pass(299'999);
    CHECK(Orders().empty());
    Pass(1);
    CHECK(Orders() == Texts{"list jobs"});  // and from then on every five minutes
  }
  SECTION("in parts, if there are many") {
    kube::Job other = Ours();
    other.meta.name = "k";
    other.meta.uid = "uid-k";
    Finish({.outcome = WriteOutcome::kDone, .jobs = {.jobs = {other}, .next = "there"}});
    CHECK(Orders() == Texts{"read job k", "list jobs from there"});
    Finish(WriteOutcome::kNotFound);
    Finish(WriteOutcome::kDone, {Ours()});
    Gone("a");
    Gone("b");
    CHECK(Orders() == Texts{"read job j"});
  }
  SECTION("where the list cannot be read, it is tried again") {
    Finish(WriteOutcome::kRefused);
    Pass(500);
    CHECK(Orders() == Texts{"list jobs"});
  }
  SECTION("without the right to it, later") {
    Forbid();
    Pass(299'999);
    CHECK(Orders().empty());
    Pass(1);
    CHECK(Orders() == Texts{"list jobs"});
  }
}

}  // namespace
}  // namespace berth::host
