// What a node's hardware is taken to be, by its annotations and labels.
#include "cluster/hardware.h"

#include <string>
#include <vector>

#include "tests/support/builders.h"
#include "tests/support/catch.h"
#include "topology/known_machines.h"

namespace berth::cluster {
namespace {

using enum HardwareSource;
using Notes = kube::StringMap;

constexpr const char* kOwn = "berth.dev/device-topology";
constexpr const char* kHamiDevices = "hami.io/node-nvidia-register";
constexpr const char* kTwo = R"([{"id":"a","index":0,"numa":0},{"id":"b","index":1,"numa":1}])";

Hardware Read(std::int64_t count, Notes labels, Notes annotations = {}) {
  kube::Node node = testing::MakeNode("n1");
  node.meta.labels = std::move(labels);
  node.meta.annotations = std::move(annotations);
  return ReadHardware(node, count);
}

Notes Dgx(const std::string& machine) {
  return {{"nvidia.com/gpu.machine", machine},
          {"nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3"},
          {"nvidia.com/gpu.count", "8"}};
}

TEST_CASE("nothing said: unknown, all devices alike", "[unit][cluster]") {
  CHECK(Read(8, {}).source == kUnknown);
  CHECK_FALSE(Read(8, {}).machine);
  CHECK(Read(8, {{"nvidia.com/gpu.machine", "PowerEdge-XE9680"}}).source == kUnknown);
  CHECK(Read(0, Dgx("DGXH100")).source == kUnknown);  // no devices (yet)
}

TEST_CASE("a known machine by the labels of GPU feature discovery", "[unit][cluster]") {
  const Hardware dgx = Read(8, Dgx("DGXH100"));
  CHECK(dgx.source == kLabels);
  CHECK(dgx.machine == topology::FindMachine("DGXH100", "")->description);
  auto shared = Dgx("DGXH100");
  shared["nvidia.com/gpu.sharing-strategy"] = "time-slicing";
  CHECK(Read(8, shared).source == kUnknown);
  shared["nvidia.com/gpu.sharing-strategy"] = "none";
  CHECK(Read(8, shared).source == kLabels);
}

TEST_CASE("labels that contradict the node are refused", "[unit][cluster]") {
  CHECK(Read(7, Dgx("DGXH100")).problem ==
        "a DGX H100 has 8 devices; the node has 7, and its label says 8");
  auto labels = Dgx("DGXH100");
  labels["nvidia.com/gpu.count"] = "4";
  CHECK(Read(8, labels).source == kRefused);
  CHECK_FALSE(Read(8, labels).machine);
}

TEST_CASE("our own annotation is the first word and the last", "[unit][cluster]") {
  const Notes notes{{kOwn, R"({"count":2,"numa":[0,0],"links":[[0,4],[4,0]]})"},
                    {kHamiDevices, kTwo}};
  const Hardware own = Read(2, Dgx("DGXH100"), notes);
  CHECK(own.source == kAnnotation);
  REQUIRE(own.machine);
  CHECK(own.machine->count == 2);
  CHECK(own.machine->score[0][1] == 430);
  // One that is wrong is not made up for by guessing.
  const Hardware bad = Read(8, Dgx("DGXH100"), {{kOwn, R"({"count":2,"links":[[0,4],[3,0]]})"}});
  CHECK(bad.source == kRefused);
  CHECK(bad.problem == "berth.dev/device-topology: links: not the same from 1 to 0 as back");
  CHECK(Read(8, Dgx("DGXH100"), {{kOwn, R"({"count":4})"}}).problem ==
        "berth.dev/device-topology describes 4 devices, the node has 8");
}

TEST_CASE("devices without a rail are each on their own", "[unit][cluster]") {
  const auto score = [](const char* text) {
    return Read(2, {}, {{kOwn, text}}).machine->score[0][1];
  };
  CHECK(score(R"({"count":2})") == 30);
  CHECK(score(R"({"count":2,"numa":[0,1]})") == 10);
  CHECK(score(R"({"count":2,"rails":[3,3]})") == 50);
}

TEST_CASE("HAMi's annotations", "[unit][cluster]") {
  const Hardware plain = Read(2, {}, {{kHamiDevices, kTwo}});
  CHECK(plain.source == kHami);
  CHECK(plain.machine->score[0][1] == 10);  // by NUMA node alone
  const Notes scored{{kHamiDevices, kTwo},
                     {"hami.io/node-nvidia-score",
                      R"([{"uuid":"a","score":{"b":210}},{"uuid":"b","score":{"a":210}}])"}};
  CHECK(Read(2, {}, scored).machine->score[0][1] == 210);
  // Split ten ways the node counts shares, which are no devices; nothing is wrong with that.
  CHECK(Read(20, {}, {{kHamiDevices, kTwo}}).source == kUnknown);
  CHECK(Read(1, {}, {{kHamiDevices, kTwo}}).source == kRefused);
  CHECK(Read(2, {}, {{kHamiDevices, "garbage"}}).problem ==
        "hami.io/node-nvidia-register: an entry has fewer than 7 fields");
}

}  // namespace
}  // namespace berth::cluster
