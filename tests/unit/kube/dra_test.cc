// Devices that DRA drivers publish: what is read of them, and what nodes have.
#include "kube/dra.h"

#include <simdjson.h>

#include <string>

#include "kube/dra_counts.h"
#include "tests/support/catch.h"

namespace berth::kube {
namespace {

using Nodes = DraCounts::Nodes;
constexpr const char* kGpu = "nvidia.com/gpu";

template <typename T>
std::expected<T, DecodeError> Read(
    const std::string& json, std::expected<T, DecodeError> (*decode)(simdjson::dom::element)) {
  simdjson::dom::parser parser;
  return decode(parser.parse(json));
}

TEST_CASE("selectors of the form that drivers ship", "[unit][kube]") {
  const auto match = ReadDeviceSelector(
      "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'");
  REQUIRE(match);
  CHECK(match->driver == "gpu.nvidia.com");
  CHECK(match->attributes ==
        std::vector<std::pair<std::string, std::string>>{{"gpu.nvidia.com/type", "gpu"}});
  CHECK(ReadDeviceSelector(R"(  device.driver=="d"  )")->driver == "d");
  for (const std::string other :
       {"", "true", "device.driver", "device.driver == d", "device.driver == 'd' || true",
        "device.driver == 'd' &&", "device.driver == 'd' && device.driver == 'e'",
        "device.driver != 'd'", "device.driver == 'd", "device.driver == 'a\\'b'",
        "device.attributes['d'].model == 'x' && !device.attributes['d'].old",
        "device.attributes['d'].type.matches('gpu')", "device.capacity['d'].memory == 'x'",
        "(device.driver == 'd')"}) {
    INFO(other);
    CHECK_FALSE(ReadDeviceSelector(other));
  }
  CHECK_FALSE(ReadDeviceSelector("device.driver == '" + std::string(20'000, 'x') + "'"));
}

TEST_CASE("classes, slices and claims", "[unit][kube]") {
  const auto device_class = Read(
      R"({"metadata":{"name":"gpu"},"spec":{"extendedResourceName":"nvidia.com/gpu","selectors":[
          {"cel":{"expression":"device.driver == 'd'"}},
          {"cel":{"expression":"device.attributes['d'].type == 'gpu'"}}]}})",
      &DecodeDeviceClass);
  REQUIRE(device_class);
  CHECK(device_class->extended_resource == kGpu);
  CHECK(device_class->match == DeviceMatch{"d", {{"d/type", "gpu"}}});
  const auto odd =
      Read(R"({"metadata":{"name":"odd"},"spec":{"selectors":[{"cel":{"expression":"true"}}]}})",
           &DecodeDeviceClass);
  REQUIRE(odd);
  CHECK_FALSE(odd->match);

  const auto slice = Read(
      R"({"metadata":{"name":"s"},"spec":{"nodeName":"n","driver":"d",
          "pool":{"name":"p","generation":3,"resourceSliceCount":2},"devices":[
          {"name":"gpu-0","attributes":{"type":{"string":"gpu"},"x.org/index":{"int":0},
                                        "x.org/model":{"string":"H100"}}},
          {"name":"mig","consumesCounters":[{"counterSet":"c"}]},
          {"name":"many","allowMultipleAllocations":true},
          {"name":"ill","taints":[{"key":"k","effect":"NoExecute"}]},
          {"name":"odd","taints":[{"key":"k","effect":"None"}]}]}})",
      &DecodeResourceSlice);
  REQUIRE(slice);
  CHECK(slice->node == "n");
  CHECK(slice->generation == 3);
  CHECK(slice->slice_count == 2);
  REQUIRE(slice->devices.size() == 5);
  CHECK(slice->devices[0].attributes == StringMap{{"d/type", "gpu"}, {"x.org/model", "H100"}});
  CHECK(slice->devices[1].divisible);
  CHECK(slice->devices[2].divisible);
  CHECK(slice->devices[3].tainted);
  CHECK_FALSE(slice->devices[4].tainted);

  const auto claim = Read(
      R"({"metadata":{"name":"c","namespace":"ns","uid":"u"},"status":{"allocation":{"devices":{
          "results":[{"request":"r","driver":"d","pool":"p","device":"gpu-0"},
                     {"request":"r","driver":"d","pool":"p","device":"gpu-1","adminAccess":true}]
          }}}})",
      &DecodeResourceClaim);
  REQUIRE(claim);
  CHECK(claim->devices == std::vector<ClaimedDevice>{{"d", "p", "gpu-0"}});
  CHECK_FALSE(claim->for_extended_resource);
  const auto own = Read(
      R"({"metadata":{"name":"c","annotations":
          {"resource.kubernetes.io/extended-resource-claim":"true"}}})",
      &DecodeResourceClaim);
  REQUIRE(own);
  CHECK(own->for_extended_resource);
  CHECK(own->devices.empty());
}

// The mark is an annotation, which a user can hand on: only the pod that the claim was made for is
// charged for it.
TEST_CASE("a marked claim is its owner's alone", "[unit][kube]") {
  const auto marked = [](const std::string& reserved_for) {
    const auto claim = Read(
        R"({"metadata":{"name":"c","annotations":
            {"resource.kubernetes.io/extended-resource-claim":"true"},"ownerReferences":[
            {"uid":"job"},{"uid":"pod","controller":true}]},"status":{"reservedFor":[)" +
            reserved_for + "]}}",
        &DecodeResourceClaim);
    REQUIRE(claim);
    return claim->for_extended_resource;
  };
  CHECK(marked(""));
  CHECK(marked(R"({"resource":"pods","uid":"pod"})"));
  CHECK_FALSE(marked(R"({"resource":"pods","uid":"other"})"));
  CHECK_FALSE(marked(R"({"resource":"pods","uid":"pod"},{"resource":"pods","uid":"other"})"));
}

TEST_CASE("what cannot be read is an error with its place", "[unit][kube]") {
  for (const std::string json :
       {R"([])", R"({"metadata":{}})", R"({"metadata":{"name":"s"},"spec":[]})",
        R"({"metadata":{"name":"s"},"spec":{"pool":{"generation":"3"}}})",
        R"({"metadata":{"name":"s"},"spec":{"devices":[7]}})"}) {
    INFO(json);
    CHECK_FALSE(Read(json, &DecodeResourceSlice));
  }
}

DeviceClass Class(const std::string& name, const std::string& resource,
                  const std::string& type = "gpu") {
  DeviceClass result;
  result.meta.name = name;
  result.extended_resource = resource;
  result.match = DeviceMatch{"d", {{"d/type", type}}};
  return result;
}

/// Devices NODE-0 and on, in a pool of the node's name.
ResourceSlice Slice(const std::string& name, const std::string& node, int from, int to) {
  ResourceSlice slice;
  slice.meta.name = name;
  slice.node = node;
  slice.driver = "d";
  slice.pool = node;
  for (int i = from; i < to; ++i) {
    slice.devices.push_back(
        {.name = "gpu-" + std::to_string(i), .attributes = {{"d/type", "gpu"}}});
  }
  return slice;
}

ResourceClaim Claim(const std::string& uid, const std::string& pool,
                    std::initializer_list<int> devices) {
  ResourceClaim claim;
  claim.meta.uid = uid;
  for (const int i : devices) claim.devices.push_back({"d", pool, "gpu-" + std::to_string(i)});
  return claim;
}

TEST_CASE("a node has what its pools publish and no claim has", "[unit][kube]") {
  DraCounts counts;
  CHECK(counts.Upsert(Slice("s", "n1", 0, 4)) == Nodes{"n1"});
  CHECK(counts.Of("n1").empty());  // no class says what they are
  CHECK(counts.Upsert(Class("gpu", kGpu)) == Nodes{"n1"});
  CHECK(counts.Of("n1") == ResourceList{{kGpu, 4000}});
  CHECK(counts.Of("n2").empty());

  CHECK(counts.Upsert(Claim("u", "n1", {1, 2})) == Nodes{"n1"});
  CHECK(counts.Of("n1") == ResourceList{{kGpu, 2000}});
  CHECK(counts.Upsert(Claim("v", "n1", {2})) == Nodes{"n1"});  // shared
  CHECK(counts.Of("n1") == ResourceList{{kGpu, 2000}});
  CHECK(counts.DeleteClaim("u") == Nodes{"n1"});
  CHECK(counts.Of("n1") == ResourceList{{kGpu, 3000}});
  CHECK(counts.DeleteClaim("v") == Nodes{"n1"});
  CHECK(counts.DeleteClaim("v").empty());
  ResourceClaim own = Claim("w", "n1", {0});
  own.for_extended_resource = true;  // its pod is charged for it
  counts.Upsert(own);
  CHECK(counts.Of("n1") == ResourceList{{kGpu, 4000}});

  // Deallocated, and the slice gone.
  counts.Upsert(Claim("u", "n1", {1}));
  counts.Upsert(Claim("u", "n1", {}));
  CHECK(counts.Of("n1") == ResourceList{{kGpu, 4000}});
  CHECK(counts.DeleteSlice("s") == Nodes{"n1"});
  CHECK(counts.Of("n1").empty());
  CHECK(counts.DeleteSlice("s").empty());
}

TEST_CASE("only a whole pool of the newest generation counts", "[unit][kube]") {
  DraCounts counts;
  counts.Upsert(Class("gpu", kGpu));
  ResourceSlice a = Slice("a", "n", 0, 2);
  ResourceSlice b = Slice("b", "n", 2, 4);
  a.slice_count = b.slice_count = 2;
  counts.Upsert(a);
  CHECK(counts.Of("n").empty());
  counts.Upsert(b);
  CHECK(counts.Of("n") == ResourceList{{kGpu, 4000}});
  a.generation = 1;
  counts.Upsert(a);
  CHECK(counts.Of("n").empty());
  b.generation = 1;
  counts.Upsert(b);
  CHECK(counts.Of("n") == ResourceList{{kGpu, 4000}});
}

// A driver of one pool with a slice for each of 1,000 nodes: told node by node, and once more to
// all when the pool is whole. Had each slice concerned all, a start would cost a million looks.
TEST_CASE("a pool of many nodes tells each of what is its own", "[unit][kube]") {
  constexpr int kMany = 1000;
  DraCounts counts;
  counts.Upsert(Class("gpu", kGpu));
  std::size_t told = 0;
  const auto publish = [&](int i, std::int64_t generation) {
    const std::string node = "n" + std::to_string(i);
    ResourceSlice slice = Slice("s" + std::to_string(i), node, 8 * i, 8 * i + 8);
    slice.pool = "all";
    slice.slice_count = kMany;
    slice.generation = generation;
    return counts.Upsert(slice).size();
  };
  for (int i = 0; i < kMany; ++i) told += publish(i, 1);
  CHECK(told == kMany - 1 + kMany);
  CHECK(counts.Of("n7") == ResourceList{{kGpu, 8000}});
  CHECK(counts.Upsert(Claim("u", "all", {57})) == Nodes{"n7"});
  CHECK(counts.Of("n7") == ResourceList{{kGpu, 7000}});

  told = 0;
  for (int i = 0; i < kMany; ++i)
    told += publish(i, 2);  // the first ends what counted, the last begins
  CHECK(told == kMany - 2 + 2 * kMany);
  CHECK(counts.Of("n0") == ResourceList{{kGpu, 8000}});
  CHECK(counts.DeleteSlice("s0").size() == kMany);
  CHECK(counts.Of("n7").empty());
}

TEST_CASE("a slice that moves to another pool or node takes its devices along", "[unit][kube]") {
  DraCounts counts;
  counts.Upsert(Class("gpu", kGpu));
  counts.Upsert(Slice("s", "n1", 0, 4));
  CHECK(counts.Upsert(Slice("s", "n2", 0, 4)) == Nodes{"n1", "n2"});  // and to its pool
  CHECK(counts.Of("n1").empty());
  CHECK(counts.Of("n2") == ResourceList{{kGpu, 4000}});
  CHECK(counts.Upsert(Claim("u", "n1", {1})).empty());
  CHECK(counts.Upsert(Claim("v", "n2", {1})) == Nodes{"n2"});

  ResourceSlice stays = Slice("s", "n3", 0, 4);
  stays.pool = "n2";
  CHECK(counts.Upsert(stays) == Nodes{"n2", "n3"});
  CHECK(counts.Of("n3") == ResourceList{{kGpu, 3000}});
}

TEST_CASE("classes: one device counts once for a resource", "[unit][kube]") {
  DraCounts counts;
  counts.Upsert(Slice("s", "n", 0, 4));
  counts.Upsert(Class("gpu", kGpu));
  counts.Upsert(Class("gpu-too", kGpu));
  CHECK(counts.Of("n") == ResourceList{{kGpu, 4000}});
  CHECK(counts.DeleteClass("gpu") == Nodes{"n"});
  CHECK(counts.Of("n") == ResourceList{{kGpu, 4000}});
  counts.Upsert(Class("gpu-too", ""));  // stands for none any more
  CHECK(counts.Of("n").empty());
  counts.Upsert(Class("mig", kGpu, "mig"));
  CHECK(counts.Of("n").empty());
}

TEST_CASE("what cannot be counted is told", "[unit][kube]") {
  DraCounts counts;
  ResourceSlice slice = Slice("s", "n", 0, 4);
  slice.devices[0].divisible = true;
  slice.devices[1].tainted = true;
  counts.Upsert(slice);
  ResourceSlice network = Slice("t", "", 0, 4);
  network.pool = "network";
  counts.Upsert(network);
  DeviceClass odd = Class("odd", kGpu);
  odd.match.reset();
  counts.Upsert(odd);
  CHECK(counts.Of("n").empty());
  counts.Upsert(Class("gpu", kGpu));
  CHECK(counts.Of("n") == ResourceList{{kGpu, 2000}});
  CHECK(counts.Ignored() ==
        std::map<std::string, std::int64_t>{
            {"class_selector", 1}, {"divisible", 1}, {"no_node", 1}, {"tainted", 1}});
  counts.Upsert(slice);  // once more
  counts.DeleteSlice("t");
  counts.DeleteClass("odd");
  CHECK(counts.Ignored() ==
        std::map<std::string, std::int64_t>{
            {"class_selector", 0}, {"divisible", 1}, {"no_node", 0}, {"tainted", 1}});
}

}  // namespace
}  // namespace berth::kube
