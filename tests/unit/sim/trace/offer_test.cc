#include "sim/trace/offer.h"

#include "tests/support/builders.h"
#include "tests/support/catch.h"

namespace berth::sim {
namespace {

using testing::MakeNode;
using testing::MakePod;

/// `size` pods of `gpus` GPUs.
RecordedJob Job(const std::string& name, int size, int gpus, Duration at, Duration lasts) {
  RecordedJob job{.name = name, .arrival = at, .service = lasts, .pods = {}};
  for (int i = 0; i < size; ++i) {
    job.pods.push_back(MakePod(name + "-" + std::to_string(i)).Gpu(gpus).Uid("").Build());
  }
  return job;
}

std::vector<Duration> Arrivals(const Recording& recording) {
  std::vector<Duration> arrivals;
  for (const RecordedJob& job : recording.jobs) arrivals.push_back(job.arrival);
  return arrivals;
}

TEST_CASE("what can never run is named, and offers no load", "[unit][sim][trace]") {
  const std::vector<kube::Node> nodes{MakeNode("n0").Gpu(8).Build(), MakeNode("n1").Gpu(8).Build()};
  Recording recording;
  recording.jobs = {Job("wide", 1, 9, 0, 1'000'000), Job("a", 2, 8, 100, 1'000),
                    Job("long", 3, 8, 150, 1'000'000), Job("b", 1, 8, 200, 2'000)};
  CHECK(TakeNeverFitting(recording.jobs, nodes) == std::vector<std::string>{"wide", "long"});
  // 32,000 GPU ms at half of 16 GPUs need 4,000 ms, and took 100.
  CHECK(Offer(recording, 0.5, 16, 1) == testing::Approx(0.025));
  CHECK(Arrivals(recording) == std::vector<Duration>{0, 4'000});
}

TEST_CASE("arrivals that are all equal are none", "[unit][sim][trace]") {
  Recording recording;
  for (int i = 0; i < 50; ++i) recording.jobs.push_back(Job("j" + std::to_string(i), 1, 8, 0, 100));
  Offer(recording, 1, 8, 1);
  const auto arrivals = Arrivals(recording);
  CHECK(arrivals.front() == 0);
  CHECK(std::ranges::is_sorted(arrivals));
  CHECK((arrivals.back() > 2'500 && arrivals.back() < 10'000));  // 5,000 on average
  CHECK(recording.jobs.front().name == "j0");
}

TEST_CASE("the first jobs, or as many at random", "[unit][sim][trace]") {
  Recording recording;
  for (int i = 0; i < 20; ++i) recording.jobs.push_back(Job(std::to_string(i), 1, 1, i, 1));
  Recording drawn = recording;
  drawn.has_arrivals = false;
  Limit(recording, 3, 1);
  CHECK(Arrivals(recording) == std::vector<Duration>{0, 1, 2});
  Limit(drawn, 3, 1);
  CHECK(drawn.jobs.size() == 3);
  CHECK(Arrivals(drawn) != Arrivals(recording));
}

}  // namespace
}  // namespace berth::sim
