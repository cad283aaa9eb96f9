// Shares of a device in the ledger: which device, exact undo, and the counts that stay the truth.
#include <string>
#include <vector>

#include "policy/placement.h"
#include "tests/support/catch.h"
#include "tests/support/planning.h"

namespace berth::cluster {
namespace {

using testing::MakeNode;
using testing::MakePod;
using testing::Planning;
using topology::DeviceMask;

struct World : Planning {
  World() : Planning({}, {.shares = true}) { Node(MakeNode("n1").Gpu(4)); }

  std::vector<int> Free(const std::string& name = "n1") {
    const topology::DeviceSet& set = store.node(node(name)).devices;
    std::vector<int> free;
    for (int i = 0; i < set.size(); ++i) free.push_back(set.free(i));
    // The counts say the same.
    CHECK(set.total() == store.node(node(name)).free(gpu()));
    return free;
  }
  void Charge(const std::string& name, DeviceMask devices = 0) {
    store.SetCharge(*store.FindPod("uid-" + name), node("n1"), Charge::kPlanned, devices);
  }
};

using List = std::vector<int>;

TEST_CASE("the annotation means nothing where shares are off", "[unit][cluster]") {
  Planning t;
  t.Node(MakeNode("n1").Gpu(4));
  const auto& pod = t.Pod(MakePod("p").Share(300));
  CHECK(pod.shape->share == 0);
  CHECK(pod.shape->device_amount == 1000);
  CHECK(t.store.node(t.node("n1")).devices.size() == 0);
}

TEST_CASE("which pods ask for a share", "[unit][cluster]") {
  World t;
  CHECK(t.Pod(MakePod("a").Share(300)).shape->share == 300);
  CHECK(t.Pod(MakePod("a2").Share(300)).shape == t.Pod(MakePod("a").Share(300)).shape);
  CHECK(t.Pod(MakePod("b").Share(301)).shape != t.Pod(MakePod("a").Share(300)).shape);
  CHECK(t.Pod(MakePod("b").Share(300)).shape->device_amount == 300);
  for (const char* text : {"0", "1000", "-5", "", "300m", "x", "99999999999999999999"}) {
    INFO(text);
    const auto pod =
        MakePod(std::string("bad") + text).Gpu(1).Annotation("berth.dev/gpu-milli", text);
    CHECK(t.Pod(pod).shape->share == 0);
    CHECK(t.Pod(pod).shape->device_amount == 1000);
  }
  CHECK(t.Pod(MakePod("two").Share(300).Gpu(2)).shape->share == 0);
  CHECK(t.Pod(MakePod("cpu").Annotation("berth.dev/gpu-milli", "300")).shape->share == 0);
}

TEST_CASE("a share takes part of one device, a whole pod the lowest free ones", "[unit][cluster]") {
  World t;
  for (const int milli : {300, 600, 200}) t.Pod(MakePod("s" + std::to_string(milli)).Share(milli));
  t.Pod(MakePod("w2").Gpu(2));
  t.Charge("s300", 0b0010);
  CHECK(t.Free() == List{1000, 700, 1000, 1000});
  t.Charge("s600");  // nobody said where: the tightest
  CHECK(t.Free() == List{1000, 100, 1000, 1000});
  t.Charge("w2");
  CHECK(t.Free() == List{0, 100, 0, 1000});
  CHECK(t.store.FindPod("uid-w2")->devices == 0b0101);
  SECTION("each gives back what it took") {
    t.store.DeletePod("uid-s300");
    CHECK(t.Free() == List{0, 400, 0, 1000});
    t.store.DeletePod("uid-w2");
    CHECK(t.Free() == List{1000, 400, 1000, 1000});
    t.store.DeletePod("uid-s600");
    CHECK(t.Free() == List{1000, 1000, 1000, 1000});
  }
  SECTION("planned becomes bound on the same devices") {
    auto bound = MakePod("w2").Gpu(2).On("n1");
    t.Pod(bound);
    CHECK(t.Free() == List{0, 100, 0, 1000});
  }
  SECTION("a new policy keeps the devices") {
    t.Pod(MakePod("s300").Share(300).On("n1"));
    t.Pod(MakePod("s600").Share(600).On("n1"));
    t.Pod(MakePod("w2").Gpu(2).On("n1"));
    t.store.SetPolicy({});
    CHECK(t.Free() == List{0, 100, 0, 1000});
  }
  SECTION("a device that has no room is not taken: another one is") {
    t.Charge("s200", 0b0010);
    CHECK(t.Free() == List{0, 100, 0, 800});
  }
}

TEST_CASE("the counts are the truth", "[unit][cluster]") {
  World t;
  t.Pod(MakePod("w").Gpu(3).On("n1"));
  t.Pod(MakePod("s").Share(400).On("n1"));
  CHECK(t.Free() == List{0, 0, 0, 600});
  SECTION("devices came") {
    t.Node(MakeNode("n1").Gpu(6));
    CHECK(t.Free() == List{0, 0, 0, 600, 1000, 1000});
    t.store.DeletePod("uid-w");
    CHECK(t.Free() == List{1000, 1000, 1000, 600, 1000, 1000});
  }
  SECTION("devices went") {
    t.Node(MakeNode("n1").Gpu(2));
    CHECK(t.store.node(t.node("n1")).devices.total() == 0);
    t.store.DeletePod("uid-w");
    CHECK(t.store.node(t.node("n1")).devices.total() == 1600);
    t.store.DeletePod("uid-s");
    CHECK(t.Free() == List{1000, 1000});
  }
  SECTION("more taken than there is") {
    t.Pod(MakePod("x").Gpu(2).On("n1"));
    CHECK(t.store.node(t.node("n1")).devices.total() == 0);
    t.store.DeletePod("uid-x");
    CHECK(t.store.node(t.node("n1")).devices.total() == 600);
  }
  SECTION("the node went and came") {
    t.store.DeleteNode("n1");
    t.Node(MakeNode("n1").Gpu(4));
    CHECK(t.store.node(t.node("n1")).devices.total() == 600);
  }
}

TEST_CASE("capacity looks at devices one by one", "[unit][cluster]") {
  World t;
  t.Pod(MakePod("a").Share(600));
  t.Pod(MakePod("b").Share(600));
  t.Charge("a", 0b0001);
  t.Charge("b", 0b0010);
  const auto n1 = t.node("n1");  // 400, 400, 1000, 1000
  const auto capacity = [&](const kube::Pod& pod) {
    return policy::Capacity(*t.Pod(pod).shape, t.overlay(), n1, 100);
  };
  CHECK(capacity(MakePod("w").Gpu(1)) == 2);
  CHECK(capacity(MakePod("w").Gpu(2)) == 1);
  CHECK(capacity(MakePod("w").Gpu(3)) == 0);  // 2800 are free
  CHECK(capacity(MakePod("s").Share(500)) == 4);
  CHECK(capacity(MakePod("s").Share(401)) == 4);
  CHECK(capacity(MakePod("s").Share(400)) == 6);
}

TEST_CASE("a gang of shares is placed by device, and the overlay undoes exactly",
          "[unit][cluster]") {
  World t;
  // Three fit on two devices of the four; 600 + 600 never share one.
  std::vector<kube::Pod> pods;
  for (int i = 0; i < 4; ++i) pods.push_back(MakePod("m" + std::to_string(i)).Share(600));
  const auto placement = t.Place(t.Request(pods));
  REQUIRE(placement.ok());
  DeviceMask all = 0;
  for (const auto& placed : placement.placed) {
    CHECK((all & placed.devices) == 0);
    all |= placed.devices;
  }
  CHECK(all == 0b1111);
  pods.push_back(MakePod("m4").Share(600));
  CHECK_FALSE(t.Place(t.Request(pods)).ok());  // 1600 are free, nowhere 600

  t.Charge("m0", 0b0100);
  policy::Overlay overlay = t.overlay();
  overlay.Remove(*t.store.FindPod("uid-m0"));
  CHECK(overlay.devices(t.node("n1")) == topology::DeviceSet(4));
  overlay.Place(*t.store.FindPod("uid-m1"), t.node("n1"), 0b1000);
  CHECK(overlay.devices(t.node("n1")).free(3) == 400);
  CHECK(t.Free() == List{1000, 1000, 400, 1000});
}

}  // namespace
}  // namespace berth::cluster
