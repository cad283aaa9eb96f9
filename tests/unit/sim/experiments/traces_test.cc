#include "sim/experiments/traces.h"

#include "tests/support/catch.h"

namespace berth::sim {
namespace {

constexpr std::string_view kShort = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n";
constexpr std::string_view kLong =
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
    "deletion_time,scheduled_time\n";

std::string PodError(std::string_view header, std::string_view rows) {
  const auto pods = ReadOpenbPods(std::string(header) + std::string(rows), "p.csv");
  return pods ? "" : pods.error().ToString();
}

TEST_CASE("openb pods: a share, whole GPUs, none, with models and times", "[traces]") {
  const auto pods = ReadOpenbPods(std::string(kLong) +
                                      "a,6000,12288,1,460,,LS,Running,427061,12902960,427062\n"
                                      "b,8000,1,8,1000,T4|V100M16,BE,Pending,5,9,\n"
                                      "c,100,64,0,0,,,,1,,\n",
                                  "p.csv");
  REQUIRE(pods);
  REQUIRE(pods->size() == 3);
  CHECK((*pods)[0].gpu_milli == 460);
  CHECK((*pods)[0].total_gpu_milli() == 460);
  CHECK((*pods)[0].scheduled_s == 427062);
  CHECK((*pods)[0].models.empty());
  CHECK((*pods)[1].total_gpu_milli() == 8000);
  CHECK((*pods)[1].models == std::vector<std::string>{"T4", "V100M16"});
  CHECK_FALSE((*pods)[1].scheduled_s);
  CHECK((*pods)[2].total_gpu_milli() == 0);
  CHECK_FALSE((*pods)[2].deletion_s);
}

TEST_CASE("openb pods: five columns are enough", "[traces]") {
  const auto pods = ReadOpenbPods(std::string(kShort) + "a,1,2,1,1000\n", "p.csv");
  REQUIRE(pods);
  CHECK(pods->front().memory_mib == 2);
}

TEST_CASE("openb pods that cannot be are refused", "[traces]") {
  CHECK(PodError(kShort, "") == "p.csv:1: no rows");
  CHECK(PodError(kShort, "a,1,2,0,5\n") == "p.csv:2: gpu_milli without a GPU");
  CHECK(PodError(kShort, "a,1,2,1,0\n") == "p.csv:2: gpu_milli: 0 of one GPU");
  CHECK(PodError(kShort, "a,1,2,2,500\n") == "p.csv:2: gpu_milli: several GPUs are whole ones");
  CHECK(PodError(kShort, "a,1,2,1,1001\n") ==
        "p.csv:2: gpu_milli: `1001` is no integer in 0..1000");
  CHECK(PodError(kShort, "a,-1,2,1,1\n") ==
        "p.csv:2: cpu_milli: `-1` is no integer in 0..100000000");
  CHECK(PodError(kShort, "a,1,2,65,1000\n") == "p.csv:2: num_gpu: `65` is no integer in 0..64");
  CHECK(PodError(kShort, "a,1,2,1,1\na,1,2,1,1\n") == "p.csv:3: name: a second pod `a`");
  CHECK(PodError(kLong, "a,1,2,1,1,T4||G2,LS,Running,1,2,3\n") ==
        "p.csv:2: gpu_spec: an empty model name");
  CHECK(PodError(kLong, "a,1,2,1,1,|T4,LS,Running,1,2,3\n") ==
        "p.csv:2: gpu_spec: an empty model name");
  CHECK(PodError(kLong, "a,1,2,1,1,T4,LS,Running,x,2,3\n") ==
        "p.csv:2: creation_time: `x` is no integer in 0..10000000000");
}

TEST_CASE("openb nodes", "[traces]") {
  constexpr std::string_view kHeader = "sn,cpu_milli,memory_mib,gpu,model\n";
  const auto nodes =
      ReadOpenbNodes(std::string(kHeader) + "n0,64000,262144,2,P100\nn1,32000,1,0,\n", "n.csv");
  REQUIRE(nodes);
  CHECK((*nodes)[0].model == "P100");
  CHECK((*nodes)[1].gpus == 0);
  const auto error = [&](std::string_view rows) {
    const auto bad = ReadOpenbNodes(std::string(kHeader) + std::string(rows), "n.csv");
    return bad ? "" : bad.error().ToString();
  };
  CHECK(error("n0,1,1,2,\n") == "n.csv:2: model: `` is no name");
  CHECK(error("n0,1,1,0,\nn0,1,1,0,\n") == "n.csv:3: sn: a second node `n0`");
}

TEST_CASE("job traces in their own formats", "[traces]") {
  const auto durations = ReadPhillyDurations("duration_s,gpus\n860662,8\n", "d.csv");
  REQUIRE(durations);
  CHECK(durations->front().duration_s == 860662);
  CHECK(durations->front().gpus == 8);

  const auto arrivals = ReadPhillyArrivals("vc,arrival_s,gpus\n0e4a51,6,1\n", "a.csv");
  REQUIRE(arrivals);
  CHECK(arrivals->front().group == "0e4a51");
  CHECK(arrivals->front().arrival_s == 6);

  const auto tacc = ReadTacc(
      "job_id,model,gpus,mode,total_steps,duration_s,arrival_s\n"
      "1,ResNet-18 (batch size 32),2,accordion,142450,3338,55\n",
      "t.csv");
  REQUIRE(tacc);
  CHECK(tacc->front().gpus == 2);
  CHECK(tacc->front().duration_s == 3338);
  CHECK(tacc->front().arrival_s == 55);
  CHECK(tacc->front().group == "ResNet-18 (batch size 32)");

  const auto tiresias = ReadTiresias(
      "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n"
      "1,8,30,133,vgg11,147,23\n",
      "s.csv");
  REQUIRE(tiresias);
  CHECK(tiresias->front().gpus == 8);
  CHECK(tiresias->front().arrival_s == 30);
  CHECK(tiresias->front().duration_s == 147);
}

TEST_CASE("a job asks for at least one GPU", "[traces]") {
  const auto bad = ReadPhillyDurations("duration_s,gpus\n1,1\n5,0\n", "d.csv");
  REQUIRE_FALSE(bad);
  CHECK(bad.error().ToString() == "d.csv:3: gpus: `0` is no integer in 1..100000");
}

}  // namespace
}  // namespace berth::sim
