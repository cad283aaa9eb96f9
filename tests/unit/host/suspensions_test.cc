#include "host/suspensions.h"

#include <catch2/catch.hpp>

#include "tests/support/builders.h"
#include "tests/unit/host/order_text.h"

namespace berth::host {
namespace {

using kube::WriteOutcome;
using testing::MakePod;

constexpr const char* kLabel = "berth.dev/suspended";

/// A Job or JobSet that is changed, and whether it is suspended then.
struct Row {
  const char* why;
  std::function<void(kube::Job&)> change;
  bool suspended;
};

/// The Job `j` with the pods `a` and `b`, which end for the gang `g`.
struct SuspensionsTest {
  SuspensionsTest() {
    for (const char* name : {"a", "b"}) store.UpsertPod(MakePod(name).Gpu(1).OfJob("j").On("n1"));
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
  Suspensions::Ended Finish(WriteOutcome outcome, std::vector<kube::Job> jobs = {}) {
    return Finish({.outcome = outcome, .jobs = {.jobs = std::move(jobs), .next = {}}});
  }
  Suspensions::Ended Forbid() {
    return Finish({.outcome = WriteOutcome::kRefused, .forbidden = true});
  }
  /// Both pods are marked, and the Job is about to be suspended.
  void Mark() {
    Begin();
    Orders();
    Finish(WriteOutcome::kDone, {MakeJob()});
    Orders();
    Finish(WriteOutcome::kDone);
    Finish(WriteOutcome::kDone);
  }
  /// It is suspended, and its pods run still.
  void Suspend() {
    Mark();
    Orders();
    CHECK(Finish(WriteOutcome::kDone).accepted.size() == 2);
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

TEST_CASE_METHOD(SuspensionsTest, "without the right to read Jobs nobody tries for a while",
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

// --- JobSets

/// The JobSet `s` of the Jobs `s-0` with the pod `c`, and `s-1` with the pod `d`.
struct JobSetTest : SuspensionsTest {
  JobSetTest() {
    for (const auto& [pod, job] : {std::pair{"c", "s-0"}, std::pair{"d", "s-1"}}) {
      store.UpsertPod(
          MakePod(pod).Gpu(1).OfJob(job).Label(std::string(kube::kJobSetLabel), "s").On("n1"));
    }
  }
  static engine::EvictPod EvictionOf(const std::string& pod) {
    engine::EvictPod eviction = SuspensionsTest::EvictionOf(pod);
    const std::string job = pod == "c" ? "s-0" : "s-1";
    eviction.job = {.name = job, .uid = "uid-" + job, .set = "s", .pods = 2};
    return eviction;
  }
  static kube::Job MakeSet() {
    kube::Job set = MakeJob();
    set.meta.name = "s";
    set.meta.uid = "uid-s";
    return set;
  }
  static kube::Job OurSet() {
    kube::Job set = MakeSet();
    set.suspended = true;
    set.meta.labels[kLabel] = "true";
    return set;
  }
  /// A Job of the set, of one pod.
  static kube::Job JobOfSet(const std::string& name) {
    kube::Job job = MakeJob();
    job.meta.name = name;
    job.meta.uid = "uid-" + name;
    job.most_pods = 1;
    SetController(job, "JobSet");
    job.controller->uid = "uid-s";
    return job;
  }
  void Begin() { suspensions.Begin({EvictionOf("c"), EvictionOf("d")}); }
  /// The set was read; its Jobs are counted.
  Suspensions::Ended Count(const kube::Job& set, std::vector<kube::Job> jobs) {
    CHECK(Orders() == Texts{"read jobset s"});
    Finish(WriteOutcome::kDone, {set});
    CHECK(Orders() == Texts{"list jobs of s"});
    return Finish(WriteOutcome::kDone, std::move(jobs));
  }
  /// Both pods are marked, and the set is about to be suspended.
  void Mark() {
    Begin();
    CHECK(Count(MakeSet(), {JobOfSet("s-0"), JobOfSet("s-1")}).one_by_one.empty());
    CHECK(Orders().size() == 2);
    Finish(WriteOutcome::kDone);
    Finish(WriteOutcome::kDone);
    CHECK(Orders() == Texts{"suspend jobset s at 7"});
  }
};

TEST_CASE_METHOD(JobSetTest, "a JobSet is suspended where all pods of all its Jobs are evicted",
                 "[unit]") {
  Mark();
  CHECK_FALSE(suspensions.Takes(EvictionOf("c"), now));
  CHECK(suspensions.Takes(SuspensionsTest::EvictionOf("a"), now));
  CHECK(Finish(WriteOutcome::kDone).accepted.size() == 2);
  Gone("c");
  CHECK(Orders().empty());
  Gone("d");
  CHECK(Orders() == Texts{"read jobset s"});
  SECTION("it is resumed") {
    Finish(WriteOutcome::kDone, {OurSet()});
    CHECK(Orders() == Texts{"resume jobset s at 7"});
    Finish(WriteOutcome::kDone);
  }
  SECTION("another has its name now") {
    kube::Job other = OurSet();
    other.meta.uid = "other";
    Finish(WriteOutcome::kDone, {other});
    CHECK(Orders().empty());
  }
  CHECK(suspensions.empty());
}

TEST_CASE_METHOD(JobSetTest, "pods of a JobSet that cannot be suspended are evicted one by one",
                 "[unit]") {
  const std::vector<Row> rows{
      {"its own controller runs it",
       [](kube::Job& set) { set.managed_by = "jobset.sigs.k8s.io/jobset-controller"; }, true},
      {"another controller runs it",
       [](kube::Job& set) { set.managed_by = "kueue.x-k8s.io/multikueue"; }, false},
      {"a TrainJob would resume it", [](kube::Job& set) { SetController(set, "TrainJob"); }, false},
      {"it is suspended by its user", [](kube::Job& set) { set.suspended = true; }, false},
  };
  for (const Row& row : rows) {
    INFO(row.why);
    Begin();
    Orders();
    kube::Job set = MakeSet();
    row.change(set);
    CHECK(Finish(WriteOutcome::kDone, {set}).one_by_one.size() == (row.suspended ? 0U : 2U));
    CHECK(suspensions.empty() != row.suspended);
    Orders();
    suspensions.Clear();
    under_way.clear();
  }
}

TEST_CASE_METHOD(JobSetTest, "all pods of all Jobs of a JobSet are evicted, or none is suspended",
                 "[unit]") {
  struct JobsRow {
    const char* why;
    std::function<void(std::vector<kube::Job>&)> change;
    bool suspended;
    bool owns_all = true;  ///< The JobSet owns the Jobs of all victims.
  };
  const std::vector<JobsRow> rows{
      {"no Job has other pods", [](std::vector<kube::Job>&) {}, true},
      {"one has", [](auto& jobs) { jobs[0].most_pods = 2; }, false},
      {"there is a third Job", [](auto& jobs) { jobs.push_back(JobOfSet("s-2")); }, false},
      {"that is complete",
       [](auto& jobs) {
         jobs.push_back(JobOfSet("s-2"));
         jobs.back().finished = true;
       },
       true},
      {"that waits for the others (startupPolicy)",
       [](auto& jobs) {
         jobs.push_back(JobOfSet("s-2"));
         jobs.back().suspended = true;
       },
       true},
      {"that only says it is of the set",
       [](auto& jobs) {
         jobs.push_back(JobOfSet("other"));
         jobs.back().controller->uid = "uid-other";
       },
       true},
      // A pod that says it is of a JobSet which is not its own ends with the pods of its own Job.
      {"the Job of a victim is of another", [](auto& jobs) { jobs[1].controller->uid = "other"; },
       false, false},
      {"the Job of a victim is of none", [](auto& jobs) { jobs[1].controller.reset(); }, false,
       false},
      {"the Job of a victim is not there", [](auto& jobs) { jobs.pop_back(); }, false, false},
  };
  const bool suspended_before = GENERATE(false, true);  // by an earlier process, or by its user
  for (const JobsRow& row : rows) {
    INFO(row.why);
    Begin();
    std::vector<kube::Job> jobs{JobOfSet("s-0"), JobOfSet("s-1")};
    row.change(jobs);
    const auto ended = Count(suspended_before ? OurSet() : MakeSet(), jobs);
    const bool waits = suspended_before ? row.owns_all : row.suspended;
    CHECK(ended.one_by_one.size() == (waits ? 0U : 2U));
    CHECK(ended.accepted.size() == (suspended_before && waits ? 2U : 0U));
    CHECK(suspensions.empty() == (!suspended_before && !waits));  // else it is to be resumed
    Orders();
    suspensions.Clear();
    under_way.clear();
  }
}

TEST_CASE_METHOD(JobSetTest, "the Jobs of a JobSet are counted in parts", "[unit]") {
  Begin();
  Orders();
  Finish(WriteOutcome::kDone, {MakeSet()});
  for (int part = 1; part < 100; ++part) {
    CHECK(Orders().size() == 1);
    Finish({.outcome = WriteOutcome::kDone, .jobs = {.jobs = {JobOfSet("s-0")}, .next = "more"}});
  }
  CHECK(Orders() == Texts{"list jobs of s from more"});
  SECTION("all of them") {
    CHECK(Finish(WriteOutcome::kDone, {JobOfSet("s-1")}).one_by_one.size() == 2);  // 100 pods
  }
  SECTION("not more than 100 times") {
    CHECK(Finish({.outcome = WriteOutcome::kDone, .jobs = {.jobs = {}, .next = "more"}})
              .one_by_one.size() == 2);
  }
  SECTION("they can be read") { CHECK(Forbid().one_by_one.size() == 2); }
  CHECK(suspensions.empty());
}

TEST_CASE_METHOD(JobSetTest, "a JobSet that has changed since is counted again", "[unit]") {
  Mark();
  Finish(WriteOutcome::kConflict);
  SECTION("with the same pods") {
    Count(MakeSet(), {JobOfSet("s-0"), JobOfSet("s-1")});
    CHECK(Orders() == Texts{"suspend jobset s at 7"});
  }
  SECTION("with others") {
    const auto ended = Count(MakeSet(), {JobOfSet("s-0"), JobOfSet("s-1"), JobOfSet("s-2")});
    CHECK(ended.one_by_one.size() == 2);
    CHECK(suspensions.empty());
  }
}

TEST_CASE_METHOD(JobSetTest, "without the right to JobSets, Jobs are suspended still", "[unit]") {
  Begin();
  Orders();
  CHECK(Forbid().one_by_one.size() == 2);
  CHECK_FALSE(suspensions.Takes(EvictionOf("c"), now));
  CHECK(suspensions.Takes(SuspensionsTest::EvictionOf("a"), now));
}

TEST_CASE_METHOD(JobSetTest, "the next process resumes the JobSets of an earlier one", "[unit]") {
  suspensions.Start();
  Orders();
  SECTION("a cluster without JobSets may have some later") {
    Finish(WriteOutcome::kDone);
    Finish(WriteOutcome::kNotFound);
    Pass(30'000);
    CHECK(Orders() == Texts{"list jobs"});
    Pass(270'000);
    CHECK(Orders() == Texts{"list jobsets"});
  }
  SECTION("once the pods of all its Jobs have ended") {
    Finish(WriteOutcome::kDone);
    Finish(WriteOutcome::kDone, {OurSet()});
    Gone("c");
    CHECK(Orders().empty());
    Gone("d");
    CHECK(Orders() == Texts{"read jobset s"});
  }
}

}  // namespace
}  // namespace berth::host
