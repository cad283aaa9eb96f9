// Recordings as jobs.
#include "sim/trace/recording.h"

#include "tests/support/catch.h"
#include "tests/support/files.h"

namespace berth::sim {
namespace {

using File = testing::TempFile;

constexpr ClusterGpus kGpus{.all = 32, .per_node = 8};

TEST_CASE("a cluster in two numbers", "[unit][sim][trace]") {
  const auto nodes = ReadCluster("17x4");
  REQUIRE(nodes.has_value());
  REQUIRE(nodes->size() == 17);
  CHECK(nodes->front().allocatable.at("nvidia.com/gpu") == 4'000);
  CHECK(nodes->at(15).meta.labels.at("cloud.provider.com/topology-rack") == "rack-0");
  CHECK(nodes->at(16).meta.labels.at("cloud.provider.com/topology-rack") == "rack-1");
  for (const char* text : {"0x8", "x8", "8x", "8x65", "100001x8", "-1x8", "8x8x8", ""}) {
    CAPTURE(text);
    CHECK(!ReadCluster(text).has_value());
  }
}

TEST_CASE("a cluster of Kubernetes objects", "[unit][sim][trace]") {
  const File file("nodes", R"({"kind":"List","items":[
    {"kind":"Node","metadata":{"name":"n1"},"status":{"allocatable":{"nvidia.com/gpu":"8","cpu":"64"}}},
    {"kind":"Pod","metadata":{"name":"p"}}]})");
  const auto nodes = ReadCluster(file.path());
  REQUIRE(nodes.has_value());
  REQUIRE(nodes->size() == 1);
  CHECK(nodes->front().allocatable.at("cpu") == 64'000);
  CHECK(ReadCluster(File("none", "kind: Pod\nmetadata: {name: p}\n").path()).error().message ==
        "no Node in it");
}

TEST_CASE("a job larger than a node is a gang", "[unit][sim][trace]") {
  const File file("jobs",
                  "job_id,model,gpus,mode,total_steps,duration_s,arrival_s\n"
                  "0,resnet,20,static,1,60,100\n"
                  "1,resnet,8,static,1,30,90\n");
  const auto recording = ReadRecording(file.path(), kGpus);
  REQUIRE(recording.has_value());
  REQUIRE(recording->jobs.size() == 2);
  const RecordedJob& single = recording->jobs[0];  // it came first, and time begins with it
  CHECK((single.name == "job-1" && single.arrival == 0 && single.service == 30'000));
  CHECK(single.pods.size() == 1);
  CHECK(!single.pods[0].meta.labels.contains("berth.dev/gang"));
  const RecordedJob& gang = recording->jobs[1];
  CHECK((gang.arrival == 10'000 && gang.gpus() == 20));
  REQUIRE(gang.pods.size() == 3);  // 8 + 8 + 4
  CHECK(gang.pods[2].spec->requests.at("nvidia.com/gpu") == 4'000);
  CHECK(gang.pods[2].meta.annotations.at("berth.dev/gang-size") == "3");
}

TEST_CASE("a job larger than the cluster is named, and no pod is made of it",
          "[unit][sim][trace]") {
  const File file("jobs", "duration_s,gpus\n100,100000\n100,32\n100,33\n");
  const auto recording = ReadRecording(file.path(), kGpus);
  REQUIRE(recording.has_value());
  REQUIRE(recording->jobs.size() == 1);
  CHECK(recording->jobs[0].pods.size() == 4);
  CHECK(recording->left_out ==
        std::vector<std::string>{"job-0: asks for 100000 GPUs, the cluster has 32",
                                 "job-2: asks for 33 GPUs, the cluster has 32"});
}

TEST_CASE("the GPUs of a cluster", "[unit][sim][trace]") {
  const auto nodes = ReadCluster("5x4");
  REQUIRE(nodes.has_value());
  CHECK((CountGpus(*nodes).all == 20 && CountGpus(*nodes).per_node == 4));
  CHECK((CountGpus({}).all == 0 && CountGpus({}).per_node == 1));
}

TEST_CASE("recorded pods: how long they ran, and what cannot be replayed", "[unit][sim][trace]") {
  const std::string ran = R"({"kind":"Pod","metadata":{"name":"a-0","namespace":"t",
      "creationTimestamp":"2026-05-01T12:00:00Z","labels":{"berth.dev/gang":"a"},
      "annotations":{"berth.dev/gang-size":"2","berth.dev/plan":"v1;plan=x"}},
    "spec":{"nodeName":"n1","containers":[{"name":"c","resources":{"limits":{"nvidia.com/gpu":"4"}}}]},
    "status":{"phase":"Succeeded","startTime":"2026-05-01T12:00:10Z","containerStatuses":[
      {"state":{"terminated":{"finishedAt":"2026-05-01T12:01:10Z"}}},
      {"state":{"terminated":{"finishedAt":"2026-05-01T12:00:40Z"}}}]}})";
  std::string mate = ran;
  mate.replace(mate.find("a-0"), 3, "a-1");
  const std::string says = R"({"kind":"Pod","metadata":{"name":"b","namespace":"t",
      "creationTimestamp":"2026-05-01T11:59:30Z",
      "annotations":{"berth.dev/expected-duration":"2h"}},"spec":{},"status":{"phase":"Pending"}})";
  const std::string unknown = R"({"kind":"Pod","metadata":{"name":"c","namespace":"t"},"spec":{},
    "status":{"startTime":"2026-05-01T12:00:10Z","containerStatuses":[{"state":{"running":{}}}]}})";
  const std::string text =
      R"({"kind":"List","items":[)" + ran + "," + mate + "," + says + "," + unknown + "]}";
  const File file("pods", text);
  const auto recording = ReadRecording(file.path(), kGpus);
  REQUIRE(recording.has_value());
  REQUIRE(recording->jobs.size() == 2);
  CHECK(recording->jobs[0].name == "t/b");
  CHECK(recording->jobs[0].service == 7'200'000);
  const RecordedJob& gang = recording->jobs[1];
  CHECK((gang.name == "t/gang/a" && gang.arrival == 30'000));
  CHECK(gang.service == 60'000);  // from 12:00:10 to 12:01:10
  REQUIRE(gang.pods.size() == 2);
  // As its controller created it: nothing of the recorded life is left.
  CHECK(gang.pods[0].node_name.empty());
  CHECK(gang.pods[0].phase == kube::PodPhase::kPending);
  CHECK(!gang.pods[0].meta.annotations.contains("berth.dev/plan"));
  CHECK(recording->left_out ==
        std::vector<std::string>{"t/c: has not ended, and names no berth.dev/expected-duration"});
}

/// A pod of the gang `train` of two, that says how long it runs or has run for `ran` minutes.
std::string Member(const std::string& name, const std::string& created, int ran = 0) {
  std::string pod =
      R"({"kind":"Pod","metadata":{"name":")" + name +
      R"(","namespace":"t","labels":{"berth.dev/gang":"train"},"creationTimestamp":)" +
      R"("2026-05-01T)" + created + R"(:00Z","annotations":{"berth.dev/expected-duration":"10m",)" +
      R"("berth.dev/gang-size":"2"}},"spec":{})";
  if (ran > 0) {
    pod += R"(,"status":{"startTime":"2026-05-01T)" + created +
           R"(:00Z","containerStatuses":[{"state":{"terminated":{"finishedAt":)" +
           R"("2026-05-01T12:)" + std::to_string(ran) + R"(:00Z"}}}]})";
  }
  return pod + "}";
}

std::string List(const std::vector<std::string>& items) {
  std::string list = R"({"kind":"List","items":[)";
  for (std::size_t i = 0; i < items.size(); ++i) list += (i > 0 ? "," : "") + items[i];
  return list + "]}";
}

TEST_CASE("a gang that ran twice under one name is two jobs", "[unit][sim][trace]") {
  const auto shape = [](const std::vector<std::string>& items) {
    std::vector<std::pair<std::string, std::size_t>> jobs;
    const auto recording = ReadRecordedPods(List(items), "pods.json");
    REQUIRE(recording.has_value());
    for (const RecordedJob& job : recording->jobs) jobs.emplace_back(job.name, job.pods.size());
    return jobs;
  };
  using Shape = std::vector<std::pair<std::string, std::size_t>>;
  // By name in the file, as kubectl lists them: whole when it has its two members.
  const std::vector<std::string> whole{Member("a", "18:00"), Member("b", "12:00"),
                                       Member("c", "18:00"), Member("d", "12:00")};
  CHECK(shape(whole) == Shape{{"t/gang/train", 2}, {"t/gang/train (run 2)", 2}});
  const auto recording = ReadRecordedPods(List(whole), "pods.json");
  CHECK(recording->jobs[0].pods[0].meta.name == "b");
  CHECK(recording->jobs[0].pods[0].meta.labels.at("berth.dev/gang") == "train");
  CHECK(recording->jobs[1].pods[1].meta.labels.at("berth.dev/gang") == "train.run-2");
  // One pod of the first run is not in the listing any more: it was over when the others came.
  CHECK(shape({Member("a", "12:00", 30), Member("b", "12:31"), Member("c", "12:32")}) ==
        Shape{{"t/gang/train", 1}, {"t/gang/train (run 2)", 2}});
  // Not over yet: a member that came late.
  CHECK(shape({Member("a", "12:00", 30), Member("b", "12:10")}) == Shape{{"t/gang/train", 2}});
  CHECK(shape({Member("a", "12:00"), Member("b", "18:00")}) == Shape{{"t/gang/train", 2}});
}

TEST_CASE("a pod that is recorded twice is an error", "[unit][sim][trace]") {
  const auto twice = ReadRecordedPods(List({Member("a", "12:00"), Member("a", "13:00")}), "f");
  REQUIRE(!twice.has_value());
  CHECK(twice.error().message == "Pod t/a is there twice");
}

TEST_CASE("a queue that is no name is left out", "[unit][sim][trace]") {
  std::string pod = Member("a", "12:00");
  pod.replace(pod.find(R"("labels":{)"), 10, R"("labels":{"berth.dev/queue":"a,b",)");
  const auto recording = ReadRecordedPods(List({pod, Member("b", "12:00")}), "f");
  REQUIRE(recording.has_value());
  CHECK(recording->jobs.size() == 1);
  CHECK(recording->left_out == std::vector<std::string>{R"(t/a: its queue "a,b" is no name)"});
}

TEST_CASE("files that are no recording", "[unit][sim][trace]") {
  const auto why = [](const std::string& text) {
    return ReadRecording(File("bad", text).path(), kGpus).error().message;
  };
  CHECK(why("") == "no pod in it");
  CHECK(why("vc,arrival_s,gpus\n1,2,3\n") == "arrivals without durations cannot be replayed");
  CHECK(why("[1,2]") == "not a Kubernetes object");
  CHECK(why("job_id,num_gpu,submit_time\n").find("header") != std::string::npos);
  CHECK(ReadRecording("/nowhere/at/all", kGpus).error().message ==
        "cannot be read: No such file or directory");
}

}  // namespace
}  // namespace berth::sim
