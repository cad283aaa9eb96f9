// JobSets that are suspended in place of evictions.
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/host/suspensions_fixture.h"

namespace berth::host {
namespace {

using kube::WriteOutcome;
using testing::MakePod;

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
